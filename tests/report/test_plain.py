"""The sentences that need no statistics, the trial browser, and the figures of yes and no."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import leakbound
from leakbound.auditing import Claim
from leakbound.auditing.result.sentences import (
    attacker_sentence,
    odds_sentence,
    subject_of,
    systems_words,
)
from leakbound.models import Scripted
from leakbound.report import page, summary
from leakbound.report.audit.page import attack_rows
from leakbound.stats import Estimate

ROWS = [(f"note {number}", "urgent" if number % 3 else "normal") for number in range(60)]
SECRET = "note 7"


def answer(context: Sequence[Any], query: str) -> str:
    quoted = query.split('"')[1]
    return "yes" if any(quoted in example.text for example in context) else "no"


def tells(prompt: str) -> str:
    return "yes" if prompt.count(prompt.split('"')[1]) > 1 else "no"


def forgetful(context: Sequence[Any], query: str) -> str:
    """Says no where the canary stands last."""
    found = [query.split('"')[1] in example.text for example in context]
    return "yes" if any(found[:-1]) else "no"


@pytest.fixture(scope="module")
def leaky(tmp_path_factory: pytest.TempPathFactory) -> leakbound.AuditResult:
    out = tmp_path_factory.mktemp("runs")
    return leakbound.audit(ROWS, system=answer, pairs=40, out=out)


@pytest.fixture(scope="module")
def partly(tmp_path_factory: pytest.TempPathFactory) -> leakbound.AuditResult:
    """Of a system that is right about most contexts."""
    out = tmp_path_factory.mktemp("partly")
    return leakbound.audit(ROWS, system=forgetful, pairs=60, out=out)


def test_the_first_line_names_the_system_and_where_the_claim_comes_from(
    leaky: leakbound.AuditResult, tmp_path: Path
) -> None:
    lines = summary(leaky).splitlines()
    assert lines[0] == "✗ VIOLATION   answer"
    assert lines[1] == f"   attacker right   80 of 80   {'█' * 20}  (guessing: 40)"
    default, unstated = "the default of an audit; nobody stated it", "state yours: --epsilon"
    assert lines[2].endswith("claim 1 (default; state yours: --epsilon)")
    assert len(lines) == 7
    assert max(map(len, lines)) <= 80
    whole = summary(leaky, verbose=True)
    first = "VIOLATION: answer on the system's own model"
    assert whole.startswith(f"{first}; claim: ε = 1 at δ = 1e-05 ({default})\n")
    assert "ε(δ=1e-05) ≥ 2.73 with 95% confidence; claimed: 1." in whole
    stated = leakbound.audit(ROWS, system=answer, pairs=40, out=tmp_path, epsilon=1)
    assert "claim: ε = 1 at δ = 1e-05 (stated by the operator)" in summary(stated, verbose=True)
    assert default not in summary(stated, verbose=True)
    assert unstated not in " ".join(summary(stated).split())
    assert stated.results() == leaky.results()


def test_odds_and_remedy_are_those_of_the_claim(leaky: leakbound.AuditResult) -> None:
    """A claim of 20 allowed "× 1,000,000", and a kept guarantee was said to be broken."""

    def said(epsilon: float, guarantee: Any) -> str:
        claim = Claim(epsilon, leaky.claim.delta)
        made = leaky.model_copy(update={"claim": claim, "guarantee": guarantee})
        return " ".join(summary(made).split())

    none = leaky.guarantee
    assert "claim allows × 2.72" in said(1.0, none)
    assert "claim allows more than a million" in said(20.0, none)
    assert "let no single row change a reply" in said(1.0, none)
    kept, broken = (none.model_copy(update={"epsilon": one}) for one in (8.0, 1.5))
    assert "strengthen its guarantee of ε = 8, or claim no more" in said(1.0, kept)
    assert "its guarantee is broken" in said(1.0, broken)


@given(st.floats(0.01, 13), st.floats(-1e-3, 1e-3) | st.floats(0.01, 13))
def test_odds_lie_on_the_side_of_the_bound(
    leaky: leakbound.AuditResult, epsilon: float, claim: float
) -> None:
    """A bound of 1.001 above a claim of 1 was "× 2.7 or more; the claim allows × 2.72"."""
    claim = epsilon + claim if abs(claim) <= 1e-3 else claim
    assume(claim == epsilon or abs(claim - epsilon) > 1e-9)  # nearer ones allow the same factor
    bound = replace(leaky.bound, epsilon=epsilon)
    update = {
        "claim": Claim(claim, 1e-5),
        "estimates": tuple(bound if e.method == bound.method else e for e in leaky.estimates),
    }
    made = leaky.model_copy(update=update)
    assert made.bound.epsilon == epsilon
    odds, allowed = re.findall(r"× ([\d.e+]+)", summary(made))
    assert (float(odds) > float(allowed)) == (epsilon > claim)
    assert float(odds) <= math.exp(epsilon)
    assert f"at least {odds}." in odds_sentence(made)


def test_the_bundled_model_is_named_as_not_the_readers(leaky: leakbound.AuditResult) -> None:
    of = {**leaky.provenance, "model": "pocket"}
    bundled = leaky.model_copy(update={"provenance": of})
    said = "answer on pocket (test model, not yours)"
    assert systems_words([subject_of(bundled)]) == said
    own = leaky.model_copy(update={"provenance": {**of, "model": "openai/mine"}})
    assert systems_words([subject_of(own)]) == "answer on openai/mine"


@given(st.floats(0.01, 13))
def test_odds_are_never_rounded_up(epsilon: float) -> None:
    class Result:
        bound = Estimate("m", "lower_bound", epsilon, 1e-5, 0.95, {}, ())
        claim = Claim(1.0, 1e-5)
        counts: ClassVar = {"answers": 2, "pairs": 1}
        channels: ClassVar = ()
        spec: ClassVar = {"answers": 1}
        attack: ClassVar = {"access": "black_box", "mechanism": "m"}
        provenance: ClassVar = {"model": "m"}

    said = re.search(r"at least ([\d.]+)\.$", odds_sentence(Result()))  # type: ignore[arg-type]
    assert said is not None
    assert math.exp(epsilon) - 0.1 <= float(said[1]) <= math.exp(epsilon)


def test_the_sentences_say_what_the_bound_is_about(
    leaky: leakbound.AuditResult, tmp_path: Path
) -> None:
    """Of one run, or of five answers, no single answer leaks so much."""
    five = leakbound.audit(
        ROWS,
        model=Scripted(complete=tells),
        mechanism="report_noisy_max",
        access="black_box",
        settings={"labels": "urgent,normal"},
        pairs=30,
        answers=5,
        epsilon=4,
        simulations=20_000,
        out=tmp_path,
    )
    assert "5 answers about one context can shift the odds" in odds_sentence(five)
    said = " ".join(summary(five).split())
    assert "claim 20 (4 for each answer)" in said
    whole = summary(five, verbose=True)
    assert re.search(r"ε\(δ=5e-05\) ≥ \S+ with 95% confidence; claimed: 20", whole)
    run = leaky.model_copy(update={"counts": {**leaky.counts, "builds": 1, "answers": 56}})
    assert "The 56 answers of this run together can shift" in odds_sentence(run)
    white = leaky.model_copy(update={"attack": {**leaky.attack, "access": "white_box"}})
    assert "The values behind one answer can shift" in odds_sentence(white)


def test_no_leakage_shown_is_no_safety_shown(tmp_path: Path) -> None:
    silent = leakbound.audit(ROWS, system=lambda context, query: "no", pairs=10, out=tmp_path)
    assert "do not prove that there is none" in odds_sentence(silent)
    assert "of 20 trials" in attacker_sentence(silent)


def test_trials_show_right_and_wrong_guesses_and_no_private_row(
    partly: leakbound.AuditResult,
) -> None:
    wrong = [one for one in partly.trials if one.right != (True, True)]
    assert 1 <= len(wrong) <= 4
    assert len(partly.trials) == len(wrong) + 4
    assert all(one.answers == ("no", "no") for one in wrong)
    assert "[private," in partly.trials[0].prompts[0]
    assert SECRET not in page([partly])
    assert all(SECRET not in prompt for one in partly.trials for prompt in one.prompts)


@pytest.mark.slow
def test_free_text_answers_are_shown_only_where_all_text_is_kept(tmp_path: Path) -> None:
    def quoting(context: Sequence[Any], query: str) -> str:
        return "I saw " + ", ".join(example.text for example in context)

    found = [
        leakbound.audit(ROWS, system=quoting, pairs=4, query="repeat", task="generation",
                        store_text=keep, out=tmp_path / keep)
        for keep in ("canary_only", "all")
    ]  # fmt: skip
    assert [("note 1" in found[at].trials[0].answers[0]) for at in (0, 1)] == [False, True]
    assert re.fullmatch(r"\[private, \d+ characters? of it kept\]", found[0].trials[0].answers[0])


def test_each_assumption_stands_once_and_the_deciding_method_first(
    leaky: leakbound.AuditResult,
) -> None:
    text = page([leaky, leaky])
    for assumption in {one for e in leaky.estimates for one in e.assumptions}:
        assert text.count(f"<li>{assumption}</li>") == 1
        assert text.count(assumption) <= 2  # a bound's own limits may say it, too
    decides = text.index("What decides")
    assert decides < text.index(">e_process</td>") < text.index("Other estimates")
    assert text.index(">joint_beta</td>") > text.index("Other estimates")


def test_a_score_of_yes_and_no_has_rates_with_intervals_and_no_roc_curve(
    leaky: leakbound.AuditResult,
) -> None:
    text = page([leaky])
    assert "rates of the attack on answer" in text
    assert "ROC curve" not in text
    assert "allowed by the claim" in text


def test_what_was_not_tried_comes_with_the_option_that_tries_it(
    leaky: leakbound.AuditResult,
) -> None:
    rows = attack_rows(leaky)
    assert rows[0][1] == f"yes, {leaky.counts['model_calls']} calls"
    assert all((tried == "no") == bool(how) for _, tried, how in rows)


@pytest.mark.slow
def test_in_a_browser_trials_are_filtered_and_four_systems_print_on_eight_pages(
    browser: Any, partly: leakbound.AuditResult, tmp_path: Path
) -> None:
    file = tmp_path / "report.html"
    file.write_text(page([partly] * 4))
    browser.get(file.as_uri())
    trials = browser.find_elements("css selector", "#r1 .trials details")
    browser.find_element("css selector", "#r1 .miss").click()
    shown = [one.is_displayed() for one in trials]
    assert shown == [one.right != (True, True) for one in partly.trials]
    printed = browser.execute_cdp_cmd("Page.printToPDF", {})["data"]
    assert len(re.findall(rb"/Type\s*/Page\b", base64.b64decode(printed))) <= 8
