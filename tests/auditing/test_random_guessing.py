"""`--claim random-guessing`: epsilon 0 at delta 0, on both sides, in audit, plan and gate."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from coins import says_yes
from commands import cli
from stores import DISPOSABLE, NoisyStore, documents

import leakbound
from leakbound import Claim, Example
from leakbound.auditing import prepare, run_audit
from leakbound.auditing.decide.obstacles import unshown_sentence
from leakbound.auditing.prepare.build import Handed, build_estimator
from leakbound.auditing.prepare.prepare import claim_warnings
from leakbound.auditing.receipts import Recomputed, recompute
from leakbound.auditing.result.audit_result import config_text
from leakbound.auditing.spec.audit_spec import load_config, make_spec
from leakbound.errors import UsageError
from leakbound.estimators import (
    ClopperPearson,
    EProcess,
    Exact,
    Observations,
    PairedScores,
    TrialDesign,
)
from leakbound.estimators.random_guessing import two_sided
from leakbound.mechanisms import ReportNoisyMax
from leakbound.report import summary

pytestmark = pytest.mark.process

ROWS = [(f"message {i}", "ab"[i % 2]) for i in range(40)]
Answer = Callable[[Sequence[Example], str], str]


def right(context: Sequence[Example], query: str) -> str:
    return "yes" if any(str(row.input) in query for row in context) else "no"


def wrong(context: Sequence[Example], query: str) -> str:
    return "no" if any(str(row.input) in query for row in context) else "yes"


def blind(context: Sequence[Example], query: str) -> str:
    """Says yes only to contexts that are full of the canary, as controls are."""
    return "yes" if sum(str(row.input) in query for row in context) > 10 else "no"


def leaning(context: Sequence[Example], query: str) -> str:
    """Is right about a single canary three times of five: 100 controls see it, and so few pairs do
    not reject random guessing."""
    copies = sum(str(row.input) in query for row in context)
    return "yes" if says_yes(copies, query, 0.6) else "no"


def _audit(system: Answer, tmp_path: Path, **options: object) -> leakbound.AuditResult:
    given = {"pairs": 24, "out": tmp_path, "claim": "random-guessing", **options}
    return leakbound.audit(ROWS, system=system, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("system", [right, wrong])
@pytest.mark.parametrize("estimator", ["e_process", "clopper_pearson"])
def test_reliably_right_and_reliably_wrong_both_reject(
    system: Answer, estimator: str, tmp_path: Path
) -> None:
    found = _audit(system, tmp_path, estimator=estimator)
    assert (found.verdict, found.claim) == ("violation", Claim(0.0, 0.0))
    assert "tells the contexts apart" in found.sentences[0]
    assert found.bound.epsilon is not None
    assert found.bound.epsilon > 1
    assert (found.bound.confidence, found.decided_by[0]) == (0.95, "two_sided")


def test_one_side_alone_misses_an_attack_that_is_reliably_wrong(tmp_path: Path) -> None:
    found = _audit(wrong, tmp_path)
    assert found.estimate("e_process").epsilon == 0 < (found.bound.epsilon or 0)


def test_not_rejected_says_what_was_not_shown(tmp_path: Path) -> None:
    bulk = _audit(blind, tmp_path / "bulk", pairs=60)
    assert (bulk.verdict, bulk.reason) == ("inconclusive", "seen_only_in_bulk")
    found = _audit(leaning, tmp_path, pairs=60, controls=100)
    assert found.verdict == "no_violation"
    assert "does not show that no attack does better" in found.sentences[1]
    powers = dict(found.guessing_power)
    assert powers[0.55] < 0.3
    assert powers[0.9] > 0.9
    assert found.power == ()
    text = summary(found, verbose=True)
    assert "random guessing, tested on both sides" in text
    assert "70%" in text
    gate = leakbound.gate(found, min_power=0.9, accuracy=0.9)
    assert gate.outcome == "passed"
    assert "does not show that no attack does better" in gate.why
    weak = leakbound.gate(found, min_power=0.9, accuracy=0.6)
    assert weak.outcome == "inconclusive"
    assert "right 60% of the time" in weak.why
    with pytest.raises(UsageError, match="gate it with max_epsilon=0 and accuracy, such as"):
        leakbound.gate(found, min_power=0.9)


def test_claims_by_name_and_by_value_are_the_same_run(tmp_path: Path) -> None:
    one = _audit(blind, tmp_path / "one")
    other = _audit(blind, tmp_path / "other", claim=Claim(0.0, 0.0))
    assert one.results() == other.results()
    assert one.name == other.name
    again = leakbound.load_result(tmp_path / "one" / one.name)
    assert again.guessing_power == one.guessing_power
    assert again.spec["epsilon"] is None


@pytest.mark.parametrize(
    ("estimator", "audits", "most"), [(EProcess(), 40, 11), (ClopperPearson(), 400, 44)],
    ids=["e_process", "clopper_pearson"],
)  # fmt: skip
def test_type_one_error_of_both_sides_together(
    estimator: EProcess | ClopperPearson, audits: int, most: int
) -> None:
    """Audits of a coin. Each rejects with at most .05; more than `most` have less than 1e-6."""
    rng, design = np.random.default_rng(5), TrialDesign(Claim(0.0, 0.0), pairs=40)
    rejected = 0
    for _ in range(audits):
        scores = PairedScores(*(rng.random((2, 40)) < 0.5).astype(float))
        observer = two_sided(estimator).begin(design)
        single = PairedScores(scores.member[:, None], scores.nonmember[:, None])
        observer.observe(Observations(0, 40, trial_scores=scores, simulated_scores=single))
        rejected += (observer.bounds()[0].epsilon or 0) > 0
    assert rejected <= most


def test_plan_states_the_power() -> None:
    planned = leakbound.plan(ROWS, system=right, pairs=60, claim="random-guessing")
    assert planned.tested.startswith("random guessing")
    assert planned.power == ()
    chances = [power.chance for _, power in planned.guessing_power]
    assert chances == sorted(chances)
    assert chances[-1] > 0.9


def test_a_file_and_its_exported_configuration_make_the_same_run(tmp_path: Path) -> None:
    app, file = tmp_path / "app.py", tmp_path / "audit.yaml"
    app.write_text("def answer(context, query):\n    return 'no'\n")
    file.write_text(f"system: python:{app}:answer\nclaim: random-guessing\npairs: 12\n")
    result, folder = run_audit(prepare(make_spec(load_config(file))), tmp_path / "runs")
    assert (result.verdict, result.claim_source) == ("inconclusive", "stated")  # says no to all
    file.write_text(text := config_text(result))
    assert "claim: random-guessing" in text
    assert "epsilon" not in text
    assert prepare(make_spec(load_config(file))).folder(tmp_path / "runs") == folder
    assert recompute(folder) == Recomputed()


@pytest.mark.slow
def test_flags_state_the_claim(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("def answer(context, query):\n    return 'no'\n")
    asked = ["plan", "--system", "python:app.py:answer", "--claim", "random-guessing"]
    planned = cli(*asked, "--pairs", "60", "-v", cwd=tmp_path)
    assert planned.returncode == 0, planned.stderr
    assert "70% of the time" in planned.stdout
    assert "two-sided" in planned.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"epsilon": 1.0}, "epsilon is given too"),
        ({"delta": 0.0}, "delta is given too"),
        ({"estimator": Exact()}, 'use estimator="e_process", clopper_pearson'),
        ({"assume_hit": 0.9}, "assume_hit"),
        ({"channels": ("answer",)}, "leave channels out"),
        ({"claim": "guessing"}, "'random-guessing'"),
    ],
    ids=["epsilon", "delta", "estimator", "assumption", "channels", "name"],
)
def test_what_means_nothing_beside_the_claim_is_refused(
    options: dict[str, object], said: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=said):
        _audit(right, tmp_path, **options)


def test_noise_is_calibrated_by_epsilon_alone() -> None:
    noisy = {"mechanism": {"kind": "report_noisy_max"}, "claim": "random-guessing"}
    with pytest.raises(UsageError, match="calibrates the noise alone"):
        build_estimator(make_spec(noisy), Handed())
    decided = build_estimator(make_spec({**noisy, "epsilon": 4.0}), Handed())
    assert decided.name == "two_sided"
    cost = ReportNoisyMax.calibrated(4.0, 1e-5).guarantee
    (warning,) = claim_warnings(make_spec({**noisy, "epsilon": 4.0}), cost)
    assert "not what this mechanism guarantees" in warning


@pytest.mark.parametrize(("truth", "verdict"), [(1.0, "violation"), (0.0, "violation")])
def test_one_run_tests_both_sides(truth: float, verdict: str, tmp_path: Path) -> None:
    store = NoisyStore(truth=truth)
    found = leakbound.audit(
        documents(120), system=store, design="one_run", canaries=30, query="lookup",
        claim="random-guessing", out=tmp_path, calls=DISPOSABLE,
    )  # fmt: skip
    assert found.verdict == verdict
    assert "which canaries were planted, as random guessing does not" in found.sentences[0]
    assert found.bound.counts["correct"] == 30 * truth
    assert (found.bound.confidence, len(found.estimates)) == (0.95, 1)
    assert dict(found.guessing_power)[0.9] > 0.9


def test_one_run_of_a_coin_rejects_nothing_and_is_planned(tmp_path: Path) -> None:
    store = NoisyStore(truth=0.5, rng=random.Random(2))
    asked = {"design": "one_run", "canaries": 30, "query": "lookup", "claim": "random-guessing"}
    planned = leakbound.plan(documents(120), system=store, **asked)  # type: ignore[arg-type]
    assert planned.tested.startswith("random guessing")
    assert [at for at, _ in planned.guessing_power] == [0.55, 0.6, 0.7, 0.8, 0.9]
    found = leakbound.audit(
        documents(120), system=store, out=tmp_path, calls=DISPOSABLE,
        **asked,  # type: ignore[arg-type]
    )  # fmt: skip
    assert (found.verdict, found.bound.epsilon) == ("inconclusive", 0.0)
    assert found.power == ()


def test_a_sweep_refuses_the_claim() -> None:
    with pytest.raises(UsageError, match="a sweep compares bounds"):
        leakbound.sweep({"shots": [5, 10]}, rows=ROWS, system=right, claim="random-guessing")


def test_unshown_names_the_weakest_attack_that_would_be_noticed() -> None:
    said = unshown_sentence([(0.55, 0.1), (0.6, 0.4), (0.7, 0.95), (0.9, 1.0)])
    assert "60%" in said
    assert "70%" in said
    assert "90%" not in said
    assert "not known" in unshown_sentence([])
