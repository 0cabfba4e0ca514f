"""The seven lines of an audit: any screen, any encoding, every verdict, reason and reading."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from matplotlib.figure import Figure

from leakbound.auditing import AuditResult
from leakbound.auditing.decide.decide import QUOTED, ChannelResult, ContextUse
from leakbound.auditing.decide.obstacles import Reason
from leakbound.auditing.observe.controls import ControlCheck
from leakbound.auditing.receipts import load_result
from leakbound.auditing.result.audit_result import Finding
from leakbound.auditing.result.record import TrialView
from leakbound.report import page, summary
from leakbound.report.audit.remedies import CHANGES, LEAKED, remedy
from leakbound.report.screen import in_colours
from leakbound.stats import BoundReading

GOLDEN = Path(__file__).parents[1] / "golden" / "audit-2"
RECORD = load_result(GOLDEN / "python_user_system_py_answer-membership.json")


def of(reading: BoundReading, **changes: object) -> AuditResult:
    """A violation whose bound is of a reading."""
    bound = replace(RECORD.bound, epsilon=3.0, reading=reading)
    kept = (one for one in RECORD.estimates if one.method != bound.method)
    update = {"verdict": "violation", "estimates": (bound, *kept), **changes}
    return RECORD.model_copy(update=update)


READINGS = {
    BoundReading("score", "", 61, 80): r"attacker right +61 of 80 +█+▎? +\(guessing: 40\)",
    BoundReading("replies", "", 38, 40): r"38 of 40 pairs, by whole replies +█.*\(guessing: 20\)",
    BoundReading("replies", "seconds", 37, 40): r"37 of 40 pairs, by reply times +█.*guessing: 20",
    BoundReading("codes", "", 39, 40): r"code quoted +39 of 40 replies +█+▌? +\(guessing: 0\)",
    BoundReading("distribution"): r"attacker +makes no guess; the bound is read from the output",
}


@pytest.mark.parametrize("reading", READINGS, ids=lambda one: f"{one.of} {one.channel}")
def test_hits_are_those_of_the_reading_that_the_bound_is_of(reading: BoundReading) -> None:
    assert re.search(READINGS[reading], summary(of(reading)))


def test_a_bound_of_votes_that_decides_nothing_names_the_score_beside_it() -> None:
    """ "right 40 of 80" stood beside a bound that was read from something else."""
    result = of(BoundReading("distribution")).model_copy(update={"verdict": "no_violation"})
    assert "by its score; ε is from the votes" in summary(result)


def test_what_no_reading_shows_has_its_size_and_share() -> None:
    """D and R are said wherever an unused context passes."""
    use = ContextUse(0.46, 0.451, 0.271, ("a", "b", "c"), (), 40, False, False, False)
    update = {"verdict": "no_violation", "reason": "context_unused", "use": use}
    said = " ".join(summary(RECORD.model_copy(update=update)).split())
    assert "signs of a record in under 46% of replies" in said
    assert "missed leaks in under 28% of replies, or of a kind not read" in said
    assert "Another attack might find a violation" in said


@pytest.mark.parametrize("reason", get_args(Reason))
@pytest.mark.parametrize("width", [20, 40, 80, 300])
def test_every_reason_fits_the_screen(reason: str, width: int) -> None:
    update = {
        "verdict": "inconclusive",
        "reason": reason,
        "sentences": (f"a sentence that is long: {'so many words ' * 20}. And more.", "b"),
    }
    text = summary(RECORD.model_copy(update=update), code=3, seconds=7.4, width=width)
    assert reason.replace("_", " ") in " ".join(text.split())
    assert len(text.splitlines()) <= 7 or width < 80
    assert max(map(len, text.splitlines())) <= max(32, min(width, 80))
    assert in_colours(text).plain == text


ALL = [load_result(file) for file in sorted(GOLDEN.parent.glob("audit*/*.json"))]


@pytest.mark.parametrize("warned", [(), ("a warning that is long " * 9, "another one")])
@pytest.mark.parametrize("result", [*ALL, *map(of, READINGS)], ids=lambda one: one.name)
def test_every_verdict_has_seven_lines_of_80_columns(
    result: AuditResult, warned: tuple[str, ...]
) -> None:
    code = {"violation": 1, "no_violation": 0, "inconclusive": 3}[result.verdict]
    shown = result.model_copy(update={"warnings": warned, "claim_source": "default"})
    lines = summary(shown, code=code, seconds=3600.0).splitlines()
    assert len(lines) <= 7
    assert max(map(len, lines)) <= 80
    assert lines[0].endswith(f"exit {code}")
    assert lines[-1].endswith("not tried. More: -v")
    assert ("fix" in [line[3:6] for line in lines]) == (result.verdict == "violation")
    whole = summary(shown, verbose=True)
    assert all(f"Warning: {one}" in whole for one in warned)
    assert ("What to change: " in whole) == (result.verdict == "violation")


def test_findings_are_said_or_named() -> None:
    """A judge that refuses all makes a verdict worthless; labels that were inferred are a note."""
    findings = (Finding("judge_refuses_all", "it refuses all."), Finding("one_build", "hidden."),
                Finding("noise_misfit", RECORD.sentences[0]))  # fmt: skip
    text = summary(RECORD.model_copy(update={"findings": findings}))
    assert [line.split(maxsplit=1)[1] for line in text.splitlines() if line[3:7] == "also"] == [
        "It refuses all."
    ]
    assert len(text.splitlines()) == 7


STEPS = {
    "too_few_trials": ("use more pairs.", "--pairs 40"),
    "attack_blind": ("none. Ask more --controls; else use --query recall --canary coded; or not.",
                     "--query recall --canary coded"),
    "seen_only_in_bulk": ("Try another --query, or --canary, or ask more --controls.",
                          "--controls 24"),
    "unreadable_answers": ("Audit with --score unanswered and another --seed, which reads it.",
                           "--score unanswered --seed 1"),
    "declared_noise": ("it does; use --estimator e_process.", "--estimator e_process"),
    "stateful_system": ("it remembers.", "--fresh"),
}  # fmt: skip


@pytest.mark.parametrize("reason", STEPS)
def test_an_inconclusive_audit_names_the_command_that_its_sentence_asks_for(reason: str) -> None:
    why, step = STEPS[reason]
    update = {"verdict": "inconclusive", "reason": reason, "sentences": (why,)}
    text = summary(RECORD.model_copy(update=update))
    assert re.search(rf"next .*leakbound audit … {re.escape(step)}\n", text)


def test_the_next_command_has_the_query_in_quotes() -> None:
    """It was cut to `--canary coded`, which was what had been asked."""
    asked = "--query 'recall:words=6,template=What about {prefix}?' --canary coded"
    why = (f"Another attack sees more: audit with {asked}.",)
    update = {"verdict": "inconclusive", "reason": "attack_blind", "sentences": why}
    assert asked in " ".join(summary(RECORD.model_copy(update=update)).split())


def test_channels_that_show_nothing_are_to_be_read_together() -> None:
    """More controls were asked for, and then three times as many."""
    blind = ControlCheck(8, 1.0)
    channel = ChannelResult("tool_calls", "inconclusive", "attack_blind", RECORD.bound, None, blind)
    update = {
        "verdict": "inconclusive", "reason": "attack_blind", "channels": (channel,),
        "controls": blind, "sentences": ("nothing is seen. Ask more --controls; or none.",),
    }  # fmt: skip
    text = " ".join(summary(RECORD.model_copy(update=update)).split())
    assert "next take channels out" in text


def test_each_remedy_names_what_leaked_what_to_change_and_what_shows_it() -> None:
    readings = [*READINGS, BoundReading("replies", "logs", 37, 40)]
    found = {remedy(of(one)) for one in readings}
    assert len({one.leaked for one in found}) == len(readings) <= len(LEAKED)
    assert len({one.change for one in found}) == 4  # of an application
    assert all(one.command == "leakbound audit … --fresh" for one in found)
    assert "hide logs from callers" in remedy(of(readings[-1])).change
    model = of(readings[0], provenance={**RECORD.provenance, "model": "pocket"})
    assert remedy(model).command.endswith("--mechanism report_noisy_max")
    texts = model.model_copy(update={"attack": {**model.attack, "reads": "texts"}})
    assert remedy(texts).command.endswith("--mechanism keyword_mean")
    store = of(readings[0], spec={**RECORD.spec, "layout": "session"})
    assert "search only rows" in remedy(store).change
    assert all(len(change) <= 65 for *_, change, _ in CHANGES)  # with {stated:g} and {channel}
    text = page([of(readings[0])])
    assert all(f"<dt>{one}</dt>" in text for one in ("What leaked", "What to change", "Then check"))


def test_the_page_shows_both_answers_of_one_leaked_trial_only_where_they_are_kept() -> None:
    result = of(BoundReading("score", "", 61, 80))
    trial = TrialView(0, ("", ""), ("yes", "no"), (1.0, 0.0), (True, True))
    shown = page([result.model_copy(update={"trials": (trial,)})])
    assert "<dt>Answer with the canary</dt><dd><b>“yes”</b>" in shown
    hidden = replace(trial, answers=("[private, 3 characters of it kept]", "no"))
    assert "Answer with the canary" not in page([result.model_copy(update={"trials": (hidden,)})])


def test_a_result_is_drawn_and_saved(tmp_path: Path) -> None:
    assert load_result(RECORD.save(tmp_path / "one.json")) == RECORD
    axes = RECORD.plot(Figure().add_subplot())
    assert axes.get_yticklabels()[0].get_text() == RECORD.bound.method


@pytest.mark.process
@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "utf-8"])
def test_signs_that_an_encoding_lacks_are_written_plainly(encoding: str, tmp_path: Path) -> None:
    """Windows' own encoding ended an audit in an internal error."""
    (tmp_path / "record.json").write_text(RECORD.to_json(), encoding="utf-8")
    env = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    command = [sys.executable, "-m", "leakbound", "report", "record.json"]
    done, whole = (  # a forked process would keep the encoding of its parent
        subprocess.run(
            [*command, *more],
            cwd=tmp_path, env=env, encoding=encoding, capture_output=True, check=True,
        )
        for more in ((), ("--json",))
    )  # fmt: skip
    assert ("leak eps  " in done.stdout, ">= " in done.stdout) == (encoding != "utf-8",) * 2
    assert json.loads(whole.stdout)["records"][0]["sentences"] == list(RECORD.sentences)


def test_quotes_that_no_attack_reaches_are_looked_for_with_another_query() -> None:
    """It named no step at all."""
    why = (QUOTED.format(161, 200, ""),)
    update = {"verdict": "inconclusive", "reason": "attack_blind", "sentences": why}
    text = summary(RECORD.model_copy(update=update))
    assert "next             leakbound tune …, for a query" in text
