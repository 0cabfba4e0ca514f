"""What a record rests on:

which pairs enter a bound, and what a perfect attack could have shown with them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leakbound.auditing import AuditResult, make_spec, prepare, run_audit
from leakbound.errors import UsageError
from leakbound.models import Scripted
from leakbound.report.audit.page import roc_figure
from leakbound.stats import clopper_pearson, cut
from leakbound.tasks import Example

DATA = tuple(Example(f"row {i}", "ab"[i % 2]) for i in range(40))
LEARNT: dict[str, Any] = {
    "labels": ["a", "b"],
    "mechanism": "embedding_mean",
    "query": "signal_pair",
    "score": "reference_direction",
}
VOTES: dict[str, Any] = {
    "mechanism": "report_noisy_max",
    "estimator": "clopper_pearson",
    "labels": ["a", "b"],
}


def model() -> Scripted:
    """Sees the canary of its own partition; the noise hides it."""
    return Scripted(
        complete=lambda prompt: "yes" if prompt.count(prompt.split('"')[-2]) > 1 else "no",
        embed=lambda text: [float(len(text)), 1.0],
    )


def audited(out: Path, **options: Any) -> AuditResult:
    spec = make_spec({"shots": 10, "simulations": 2_000, "detect_change": 0, **options})
    return run_audit(prepare(spec, model(), rows=DATA), out)[0]


@pytest.mark.parametrize("threshold", [0.0, "split:0.1", "bonferroni", None])
def test_pairs_that_taught_the_score_enter_no_bound(tmp_path: Path, threshold: Any) -> None:
    record = audited(tmp_path, pairs=20, estimator="clopper_pearson", threshold=threshold, **LEARNT)
    assert sum(record.bound.counts.values()) == 2 * 16  # a fifth of the pairs taught the direction


def test_what_pairs_could_have_shown_leaves_out_those_that_taught_the_score(tmp_path: Path) -> None:
    record = audited(tmp_path, pairs=20, **LEARNT)
    assert record.tested_pairs == 16
    whole = audited(tmp_path / "whole", pairs=20)
    assert record.largest_certifiable.epsilon < whole.largest_certifiable.epsilon


def test_what_pairs_could_have_shown_counts_the_thresholds_that_are_tried(tmp_path: Path) -> None:
    record = audited(tmp_path, pairs=20, threshold="bonferroni", **VOTES)
    perfect = clopper_pearson(20, 0, 0, 20, 1e-5, 1 - 0.05 / 29).epsilon
    assert record.largest_certifiable.epsilon == perfect
    assert f"epsilon {cut(perfect)}" in record.sentences[-1]


def test_a_score_needs_a_pair_beside_those_that_teach_it() -> None:
    with pytest.raises(UsageError, match="at least 2 pairs"):
        prepare(
            make_spec({"pairs": 1, "shots": 10, "threshold": 0.0, **LEARNT}), model(), rows=DATA
        )


@pytest.mark.parametrize("early", [True, False])
def test_an_early_end_leaves_confidence_to_the_anytime_valid_bound_only(
    tmp_path: Path, early: bool
) -> None:
    leaky = Scripted(
        complete=lambda prompt: "yes" if prompt.count(prompt.split('"')[1]) > 1 else "no"
    )
    options = {
        "pairs": 60,
        "shots": 4,
        "batch_pairs": 4,
        "simulations": 2_000,
        "stop_when_rejected": early,
    }
    record, _ = run_audit(prepare(make_spec(options), leaky, rows=DATA), tmp_path)
    assert record.verdict == "violation"
    assert (record.counts["pairs"] < 60) == early
    sure = {e.method for e in record.estimates if e.confidence is not None}
    assert "e_process" in sure
    assert ("clopper_pearson" in sure) != early
    assert ("Clopper-Pearson limits" in roc_figure(record)) != early
