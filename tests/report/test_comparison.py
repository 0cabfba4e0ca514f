"""Runs beside each other:

what differs, what is more than noise, and that the intervals hold what they promise.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import leakbound
from leakbound.auditing import AuditResult, load_result
from leakbound.gating.compare import compare_results
from leakbound.models import Scripted
from leakbound.report.decisions.comparison import comparison_page, comparison_text
from leakbound.stats import binomial_lower, binomial_upper
from leakbound.tasks import Example

DATA = tuple(Example(f"row {i}", "ab"[i % 2]) for i in range(40))


def often(prompt: str) -> str:
    """Sees a canary that stands in the context three times, and no single one."""
    return "yes" if prompt.count(prompt.split('"')[-2]) > 3 else "no"


def tells(prompt: str) -> str:
    return "yes" if prompt.count(prompt.split('"')[-2]) > 1 else "no"


def audited(out: Path, say: Any = tells, **options: Any) -> AuditResult:
    return leakbound.audit(
        DATA, model=Scripted(complete=say), out=out, shots=10, simulations=2_000,
        settings={"detect_change": 0, **options.pop("settings", {})}, **options,
    )  # fmt: skip


@pytest.fixture(scope="module")
def leaky(tmp_path_factory: pytest.TempPathFactory) -> AuditResult:
    return audited(tmp_path_factory.mktemp("leaky"), pairs=30)


@pytest.fixture(scope="module")
def blind(tmp_path_factory: pytest.TempPathFactory) -> AuditResult:
    return audited(tmp_path_factory.mktemp("sound"), often, pairs=30, epsilon=2.0)


def counted(record: AuditResult, tp: int, fp: int, n: int) -> AuditResult:
    """The record as if so many guesses had been right."""
    cells = {"tp": tp, "fn": n - tp, "fp": fp, "tn": n - fp}
    estimates = tuple(
        replace(e, counts=cells) if e.method == "clopper_pearson" else e for e in record.estimates
    )
    return record.model_copy(update={"estimates": estimates})


def test_only_what_differs_is_shown(leaky: AuditResult, blind: AuditResult) -> None:
    assert compare_results([leaky, leaky]).differing_settings == {}
    assert compare_results([leaky, blind]).differing_settings == {"epsilon": (1.0, 2.0)}
    assert "No setting differs" in comparison_text(compare_results([leaky, leaky]))


def test_text_and_page_say_on_which_model_and_who_made_each_claim(
    leaky: AuditResult, blind: AuditResult
) -> None:
    own = leaky.model_copy(update={"provenance": {**leaky.provenance, "model": "pocket"}})
    found = compare_results([own, blind])
    default = "ε = 1 at δ = 1e-05 (the default of an audit; nobody stated it)"
    stated = "ε = 2 at δ = 1e-05 (stated by the operator)"
    models = "pocket (test model, not yours), scripted"
    line = f"COMPARISON: few_shot on {models}; claim: {default}, {stated}"
    assert comparison_text(found).splitlines()[0] == line
    page = comparison_page(found)
    assert f"<dt>Model</dt><dd>{models}</dd>" in page
    assert f"<dt>Claim</dt><dd>A: {default}, B: {stated}</dd>" in page


def test_a_system_that_leaks_and_one_that_does_not_differ_by_more_than_noise(
    leaky: AuditResult, blind: AuditResult
) -> None:
    found = compare_results([leaky, blind])
    true, false = found.contrasts
    assert (true.rate, true.difference, true.significant) == ("tpr", -1.0, True)
    assert (false.rate, false.difference, false.significant) == ("fpr", 0.0, False)
    assert "B minus A: -1.000" in comparison_text(found)
    assert not any(one.significant for one in compare_results([leaky, leaky]).contrasts)


def test_the_interval_is_that_of_the_limits_at_their_share_of_the_error(leaky: AuditResult) -> None:
    found = compare_results(
        [counted(leaky, 9, 2, 12), counted(leaky, 4, 2, 12), counted(leaky, 4, 2, 12)]
    )
    alpha = 0.05 / 6 / 2
    low = binomial_lower(4, 12, alpha) - binomial_upper(9, 12, alpha)
    high = binomial_upper(4, 12, alpha) - binomial_lower(9, 12, alpha)
    assert (found.contrasts[0].low, found.contrasts[0].high) == pytest.approx(
        (float(low), float(high))
    )
    assert len(found.contrasts) == 6


def test_differences_are_covered_exactly_as_often_as_said(leaky: AuditResult) -> None:
    """All outcomes of two runs of six guesses a world, summed:

    independent runs, and runs that share every trial.
    """
    n = 6
    spans = np.array(
        [[compare_results([counted(leaky, a, 0, n), counted(leaky, b, 0, n)]).contrasts[0]
          for b in range(n + 1)] for a in range(n + 1)]
    )  # fmt: skip
    low, high = (
        np.vectorize(lambda c, side=side: getattr(c, side))(spans) for side in ("low", "high")
    )
    for p in np.linspace(0, 1, 11):
        for q in np.linspace(0, 1, 11):
            holds = (low <= q - p) & (q - p <= high)
            mass = np.outer(binom.pmf(range(n + 1), n, p), binom.pmf(range(n + 1), n, q))
            assert (mass * holds).sum() >= 0.95
        assert (binom.pmf(range(n + 1), n, p) * np.diag((low <= 0) & (high >= 0))).sum() >= 0.95


@pytest.mark.parametrize(
    "other", [{"canary": "natural"}, {"shots": 9}, {"query": "if_then_explicit"}]
)
def test_other_worlds_are_not_compared(
    tmp_path: Path, leaky: AuditResult, other: dict[str, Any]
) -> None:
    options = {"shots": 10, "pairs": 8, "simulations": 0, **other}
    record = leakbound.audit(DATA, model=Scripted(complete=lambda p: "a"), out=tmp_path, **options)
    found = compare_results([leaky, record])
    assert not found.contrasts
    (reason,) = found.not_compared
    assert next(iter(other)) in reason
    assert f"Not compared: {reason}" in comparison_text(found)


def test_rates_of_a_threshold_chosen_on_the_trials_have_no_interval(tmp_path: Path) -> None:
    record = audited(
        tmp_path, pairs=20, mechanism="report_noisy_max", epsilon=4.0, threshold="bonferroni",
        settings={"labels": "a,b"},
    )  # fmt: skip
    found = compare_results([record, record])
    assert found.runs[0].rates["tpr"].low is None
    assert not found.contrasts
    assert "chosen on the tested trials" in found.not_compared[0]
    assert re.search(r"\d\.\d{3}  ", comparison_text(found))


@pytest.mark.slow
def test_rates_of_trials_that_ended_an_audit_early_have_no_interval(tmp_path: Path) -> None:
    record = audited(tmp_path, pairs=60, stop_when_rejected=True)
    assert record.counts["pairs"] < 60
    found = compare_results([record, record])
    assert found.runs[0].rates["tpr"].high is None
    assert not found.contrasts
    assert "ended the audit early" in found.not_compared[0]
    whole = audited(tmp_path, often, pairs=60, stop_when_rejected=True, seed=1)
    assert compare_results([whole, whole]).contrasts


def test_json_and_page_hold_the_same_and_ask_nothing(
    leaky: AuditResult, blind: AuditResult
) -> None:
    evil = leaky.model_copy(update={"attack": {**leaky.attack, "mechanism": "<script>x</script>"}})
    found = compare_results([evil, blind])
    page = comparison_page(found)
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert not [u for u in re.findall(r"(?:https?:)?//[^\s\"'<>]+", page) if "www.w3.org" not in u]
    for word in ("violation", "2.1", "not significant", "Settings that differ"):
        assert word in page
    data = json.loads(found.to_json())
    assert [run["verdict"] for run in data["runs"]] == ["violation", "inconclusive"]
    assert data["differing_settings"]["epsilon"] == [1.0, 2.0]


def test_results_without_versions_are_compared() -> None:
    """They name neither the version of this package nor, in the first of them, `answers`."""
    files = sorted((Path(__file__).parents[1] / "golden" / "audits").glob("*.json"))
    found = compare_results([load_result(file) for file in files])
    assert len(found.runs) == len(files) > 5
    assert any(one.rate == "tpr" for one in found.contrasts)
    assert comparison_text(found).count("\n") > len(files)
    assert comparison_page(found).startswith("<!doctype html>")
