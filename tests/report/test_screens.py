"""The seven lines of gate, plan, compare, sweep and influence, and the page of a gate."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import leakbound
from leakbound.attribution import load_influence
from leakbound.attribution.record import ShareLimit
from leakbound.auditing import AuditResult
from leakbound.auditing.receipts import load_result
from leakbound.cli.main import COMMANDS, main
from leakbound.cli.screen.output import say
from leakbound.cli.screen.result import show
from leakbound.cli.verbs.audit.plan import budget_line, described, plan_screen
from leakbound.errors import UsageError
from leakbound.gating.compare import compare_results
from leakbound.gating.gate import Gate, GateResult, check_gate, rules
from leakbound.report.decisions.comparison import comparison_screen
from leakbound.report.export.gate_files import gate_page, gate_screen
from leakbound.report.influence.terminal import influence_screen
from leakbound.report.screen import in_colours, lay_out
from leakbound.report.sweep.words import sweep_screen
from leakbound.sweeping import load_sweep

GOLDEN = Path(__file__).parents[1] / "golden"
RUNS = [load_result(file) for file in sorted(GOLDEN.glob("audit*/*.json"))]
SWEEP, INFLUENCE = load_sweep(GOLDEN / "sweep-2.json"), load_influence(GOLDEN / "influence-2.json")
ROWS = [(f"note {number}", "ab"[number % 2]) for number in range(60)]


def gated(limit: float, records: list[AuditResult], **width: Any) -> str:
    gate = Gate(limit)
    results = [check_gate(one, gate) for one in records]
    return gate_screen(results, records, gate, code=1, **width)


def planned(width: int = 80, **given: Any) -> str:
    found = leakbound.plan(ROWS, system=lambda context, query: "no", **given)
    return plan_screen(found, width=width)


SCREENS: dict[str, Callable[..., str]] = {
    "gate, all": partial(gated, 0.5, RUNS),
    "gate, one": partial(gated, 4.0, RUNS[:1]),
    "gate, none finished": lambda **width: gate_screen(
        [GateResult("cut-short", "inconclusive", "Run it again.")], [],
        Gate(1.0), code=3, **width,
    ),
    "plan": planned,
    "plan, too small": partial(planned, pairs=4),
    "compare": partial(comparison_screen, compare_results(RUNS), code=0),
    "sweep": partial(sweep_screen, SWEEP, "sweep/sweep.html", code=1),
    "sweep, empty": partial(
        sweep_screen, SWEEP.model_copy(update={"points": ()}), "sweep.html", code=2
    ),
    "influence": partial(influence_screen, INFLUENCE, "influence/influence.html", code=0),
}  # fmt: skip


@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_has_seven_lines_of_80_columns_and_its_exit_code(name: str) -> None:
    lines = SCREENS[name](width=80).splitlines()
    assert len(lines) <= 7
    assert max(map(len, lines)) <= 80
    verb = name.partition(",")[0].upper()
    assert re.fullmatch(rf"[✗✓?·] {verb}   .* exit \d", lines[0])
    assert lines[-1].endswith(": -v")
    for width in (20, 40, 300):
        text = SCREENS[name](width=width)
        room = max(40, min(width, 80))
        assert all(len(one) <= room or len(one.split()) == 1 for one in text.splitlines())
        assert in_colours(text).plain == text


def test_what_is_too_long_loses_its_end_and_never_the_exit_code() -> None:
    rows = [("reason", "word " * 90), ("fix", "short"), ("also", "other " * 60)]
    lines = lay_out("✗ GATE   " + "system, " * 30, rows, "More: -v", code=1).splitlines()
    assert len(lines) == 7
    assert lines[0].endswith(" exit 1")
    assert " …  " in lines[0]
    assert [line for line in lines if line.startswith("   fix")]
    assert sum(line.endswith(" …") for line in lines[1:]) == 2


def test_a_long_path_keeps_its_beginning() -> None:
    line = lay_out(f"· INFLUENCE   of the context on hf/{'folder/' * 20}", (), "More: -v", code=0)
    assert line.startswith("· INFLUENCE   of the context on hf/folder/folder/")
    assert re.search(r"…  +exit 0$", line.splitlines()[0])


def test_the_gravest_run_of_a_gate_is_first_with_what_was_allowed() -> None:
    lines = SCREENS["gate, all"]().splitlines()
    worst = max(RUNS, key=lambda one: (one.verdict == "violation", one.bound.epsilon or 0.0))
    assert f"limit 0.5   {worst.name}" in lines[1]
    assert "limit allows × 1.65" in SCREENS["gate, all"]()
    assert [line[3:20].strip() for line in lines[1:3]] == ["violation", "violation"]


def test_a_sound_run_above_a_stricter_limit_is_not_called_a_broken_guarantee() -> None:
    record = next(one for one in RUNS if one.verdict == "no_violation" and one.bound.epsilon)
    text = gated((record.bound.epsilon or 0.0) / 2, [record])
    assert "strengthen the protection until no bound is above" in text
    assert "guarantee" not in text


def test_a_plan_is_cost_and_what_it_can_show() -> None:
    text, small = planned(), planned(pairs=4)
    assert [line[3:20].strip() for line in text.splitlines()[1:-1] if line[3] != " "] == [
        "costs", "can show", "next",
    ]  # fmt: skip
    assert re.search(r"ε up to 3\.\d+ \(odds × \d+\.\d\); claim 1 \(× 2\.72\)", text)
    assert small.startswith("? PLAN")
    found = leakbound.plan(ROWS, system=lambda context, query: "no", pairs=4)
    assert f"leakbound audit … --pairs {2 * (found.pairs_needed or 0)}" in small
    assert "power against" not in text
    served = budget_line(leakbound.PureDP(0.5), 1.0, 1e-5)
    assert served is not None
    assert served.endswith("ε = 1, 2, 4, 8, 16 at δ = 1e-05 buys 2, 4, 8, 16, 32 answers")
    assert "power against" in described(found, leakbound.Claim(1.0, 1e-5))


@pytest.mark.parametrize("outcome", ["passed", "violation", "inconclusive"])
def test_a_limit_on_shares_stands_beside_the_share(outcome: Any) -> None:
    limit = ShareLimit(max_share=0.5, source=None, outcome=outcome, sentence="Nobody can say.",
                       context=0, name="memo", share=0.75, low=0.7, high=0.8)  # fmt: skip
    record = INFLUENCE.model_copy(update={"share_limit": limit})
    said = influence_screen(record, "influence.html", code=1)
    open_ = outcome == "inconclusive"
    assert ("Nobody can say." if open_ else "memo: 75%; allowed 50%") in said
    assert said[0] == {"passed": "✓", "violation": "✗", "inconclusive": "?"}[outcome]


GATES = [
    Gate(limit, no_violation=required, max_delta=delta)
    for limit, required, delta in product((0.1, 1.0, 4.0, 50.0), (False, True), (1e-9, 0.01))
]


@pytest.mark.parametrize("gate", GATES, ids=str)
@pytest.mark.parametrize("record", RUNS, ids=lambda one: one.name)
def test_a_run_passes_where_all_rules_hold_and_the_first_that_fails_is_why(
    record: AuditResult, gate: Gate
) -> None:
    for least in (None, 0.5):
        asked = replace(gate, min_power=least)
        try:
            found = check_gate(record, asked)
        except UsageError:
            assert least is not None
            continue
        failed = [one for one in rules(record, asked) if one.why]
        assert (found.outcome == "passed") == (not failed)
        assert not failed or (found.outcome, found.why) == (failed[0].outcome, failed[0].why)


def test_the_page_of_a_gate_has_each_rule_with_value_and_limit_and_prints_unfolded() -> None:
    gate = Gate(1.0, no_violation=True)
    results = [check_gate(one, gate) for one in RUNS]
    page = gate_page(results, RUNS, gate)
    for record, result in zip(RUNS, results, strict=True):
        assert record.name in page
        for rule in rules(record, gate):
            cells = rf">{re.escape(rule.value)}</td><td [^>]*>{re.escape(rule.limit)}</td>"
            assert re.search(cells, page), (result.run, rule)
    assert '<body class="narrow whole">' in page  # the style opens what is folded when printed
    assert page.count("<details open>") == sum(one.outcome != "passed" for one in results)
    assert "What this does not prove" in page


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colours_are_for_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)

    def shown(screen: io.StringIO) -> str:
        monkeypatch.setattr(sys, "stdout", screen)
        show(SCREENS["sweep"], partial(say, "all"))
        return screen.getvalue()

    assert "\x1b[1;32m✓ SWEEP" in shown(Terminal())
    assert "\x1b" not in shown(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in shown(Terminal())


@pytest.mark.parametrize("verb", COMMANDS)
def test_an_error_has_one_shape_as_json(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A program that read --json got nothing on standard output."""
    with pytest.raises(SystemExit) as ended:
        main([verb, "--no-such-option", "--json"])
    out, err = capsys.readouterr()
    error = json.loads(out)["error"]
    assert [*error] == ["code", "message"]
    assert error["code"] == ended.value.code == 2
    assert err.strip() == f"leakbound: {error['message']}"


def test_runs_that_cannot_be_read_are_an_error_in_the_same_shape(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "record.json").write_text("{")
    for verb in ("report", "compare"):
        with pytest.raises(SystemExit) as ended:
            main([verb, str(tmp_path / "one"), str(tmp_path / "two"), "--json"])
        assert ended.value.code == 2
        assert json.loads(capsys.readouterr().out)["error"]["code"] == 2
