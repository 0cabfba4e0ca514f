"""Verdicts that must not mislead: both hypotheses, unsupported claims, order of contexts."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leakbound
from leakbound.auditing.design.pairs import generator
from leakbound.estimators import Bounds, Claim, EProcess, TrialDesign
from leakbound.estimators.base import exceeds
from leakbound.privacy import Gaussian, PureDP
from leakbound.tasks import Context

WEAK = Gaussian(1.0, 1 / 8)  # mu = 8: epsilon far above any claim of these tests


class RandomizedResponse:
    """Tells the contexts apart with true epsilon 5: the right answer, flipped with 1/(1 + e^5)."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(3)

    def answer(self, context: Any, query: str) -> str:
        there = any(row.text == query.split('"')[1] for row in context)
        return "yes" if there != (self.rng.random() < 1 / (1 + math.exp(5))) else "no"


def audited(rows: Context, folder: Path, system: Any, **more: Any) -> leakbound.AuditResult:
    return leakbound.audit(rows, system=system, shots=4, out=folder, **more)


@pytest.mark.slow
def test_the_claim_is_tested_where_the_declared_guarantee_does_not_imply_it(
    rows: Context, tmp_path: Path
) -> None:
    """On the old code: "consistent", beside a bound of its own above the claim."""
    result = audited(rows, tmp_path, RandomizedResponse(), guarantee=WEAK, epsilon=1, pairs=60)
    assert result.verdict == "violation"
    assert (result.bound.epsilon or 0.0) > 1
    assert result.findings[0].code == "unsupported_claim"


@pytest.mark.parametrize("guarantee", [WEAK, PureDP(3.0)])
def test_a_guarantee_that_does_not_support_the_claim_is_a_finding(
    rows: Context, tmp_path: Path, guarantee: Any
) -> None:
    result = audited(rows, tmp_path, lambda context, query: "no", guarantee=guarantee, pairs=8)
    assert [one.code for one in result.findings] == ["unsupported_claim"]


def test_hypotheses_are_tested_in_a_fixed_order() -> None:
    implied = TrialDesign(Claim(1.0, 1e-5), guarantee=Gaussian(1.0, 10.0))
    assert implied.hypotheses == ("guarantee", "claim")
    assert TrialDesign(Claim(1.0, 1e-5), guarantee=WEAK).hypotheses == ("claim", "guarantee")
    assert TrialDesign(Claim(1.0, 1e-5)).hypotheses == ("claim",)


def test_no_violation_needs_pairs_that_could_have_rejected_what_is_tested() -> None:
    design = TrialDesign(Claim(1.0, 1e-5), guarantee=WEAK, pairs=100)
    assert not exceeds(Bounds(0.5, 9.0), design)  # the guarantee could be rejected, not the claim
    assert exceeds(Bounds(1.5, 0.1), design)
    assert exceeds(EProcess().largest_certifiable(design, 100), design)


class RoundRobin:
    """A load balancer over two replicas: answers alternate, and the context is ignored."""

    stateful = True

    def __init__(self) -> None:
        self.calls = 0

    def answer(self, context: Any, query: str) -> str:
        self.calls += 1
        return "yes" if self.calls % 2 else "no"


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5))]
)
def test_a_round_robin_that_ignores_its_context_is_no_violation(
    rows: Context, tmp_path: Path, seed: int
) -> None:
    """On the old code: a violation, epsilon at least 1.74, since canary-in was always first."""
    result = audited(rows, tmp_path, RoundRobin(), pairs=60, seed=seed)
    assert result.verdict != "violation"


class MemoryOfUploads:
    """Keeps every context that it was ever shown, and answers from all of them."""

    stateful = True

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def answer(self, context: Any, query: str) -> str:
        self.seen.update(row.text for row in context)
        return "yes" if query.split('"')[1] in self.seen else "no"


def test_a_memory_of_every_upload_is_a_violation(rows: Context, tmp_path: Path) -> None:
    """On the old code: "consistent", since the canary-out context was always asked second."""
    result = audited(rows, tmp_path, MemoryOfUploads(), pairs=60)
    assert result.verdict == "violation"


def test_the_order_within_a_pair_comes_from_the_seed() -> None:
    drawn = [bool(generator(7, "order", index).integers(2)) for index in range(200)]
    assert 60 < sum(drawn) < 140  # outside with probability below 1e-8 for a fair coin
