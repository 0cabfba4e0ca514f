"""Every estimator keeps the invariants, and the battery finds those that break one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import pytest
from leakbound_lab.conformance import assert_estimator_conforms, conform_estimator

from leakbound.estimators import (
    REPORTED,
    Bounds,
    ClopperPearson,
    EProcess,
    Estimator,
    Observations,
    Observer,
    TrialDesign,
)
from leakbound.estimators.base import Reads
from leakbound.stats import Estimate, Power


@pytest.mark.parametrize("runs", [12, pytest.param(40, marks=pytest.mark.slow)])
@pytest.mark.parametrize("estimator", REPORTED, ids=lambda one: one.name)
def test_every_estimator_conforms(estimator: Estimator, runs: int) -> None:
    """False alarms: at most 1e-6 an estimator and scene, by the binomial limit of the coverage."""
    assert_estimator_conforms(estimator, seed=1, runs=runs)


@dataclass(frozen=True, slots=True)
class Boastful(ClopperPearson):
    """Calls a perfect attack's limit its bound, whatever it saw."""

    name: ClassVar[str] = "boastful"

    def begin(self, design: TrialDesign) -> Observer:  # type: ignore[override]
        return _Changed(ClopperPearson().begin(design), lambda e: (e.epsilon or 0.0) + 1.5)


class _Changed:
    rejected = False

    def __init__(self, inner: Observer, epsilon: Callable[[Estimate], float]) -> None:
        self.inner, self.epsilon = inner, epsilon

    process = None

    def observe(self, observations: Observations) -> None:
        self.inner.observe(observations)

    def bounds(self) -> tuple[Estimate, ...]:
        found = self.inner.bounds()
        return tuple(_with(e, self.epsilon(e)) for e in found)


def _with(estimate: Estimate, epsilon: float) -> Estimate:
    from dataclasses import replace

    return replace(estimate, epsilon=epsilon)


@dataclass(frozen=True, slots=True)
class Modest(ClopperPearson):
    """Says that it could certify next to nothing, whatever it certifies."""

    name: ClassVar[str] = "modest"

    def largest_certifiable(self, design: TrialDesign, pairs: int) -> Bounds:
        return Bounds(0.1, 0.1)


@dataclass(frozen=True, slots=True)
class Impatient(ClopperPearson):
    """Takes an audit that may end early."""

    name: ClassVar[str] = "impatient"

    def check(self, design: TrialDesign) -> None:
        """Refuses nothing."""


@dataclass(frozen=True, slots=True)
class Forgetful(EProcess):
    """Reads the last batch only."""

    name: ClassVar[str] = "forgetful"

    def begin(self, design: TrialDesign) -> Observer:  # type: ignore[override]
        return _Last(design)


class _Last:
    rejected = False

    def __init__(self, design: TrialDesign) -> None:
        self.design, self.inner = design, EProcess().begin(design)

    process = None

    def observe(self, observations: Observations) -> None:
        self.inner = EProcess().begin(self.design)
        self.inner.observe(observations)

    def bounds(self) -> tuple[Estimate, ...]:
        return self.inner.bounds()


@dataclass(frozen=True, slots=True)
class Secretive(EProcess):
    """Reads what it does not list."""

    name: ClassVar[str] = "secretive"
    reads: ClassVar[frozenset[Reads]] = frozenset({"text"})


@dataclass(frozen=True, slots=True)
class Confident(ClopperPearson):
    """Counts on power that it has not."""

    name: ClassVar[str] = "confident"

    def power(self, design: TrialDesign, pairs: int, leak: float) -> Power:
        return Power(1.2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("estimator", "invariant"),
    [
        (Boastful(), "coverage"),
        (Boastful(), "certifiable"),
        (Modest(), "conclusive"),
        (Modest(), "certifiable"),
        (Impatient(), "early_stop"),
        (Forgetful(), "batches"),
        (Secretive(), "batches"),
        (Confident(), "power"),
    ],
    ids=lambda one: one if isinstance(one, str) else one.name,
)
def test_a_broken_estimator_is_found(estimator: Estimator, invariant: str) -> None:
    found = {check.name: check for check in conform_estimator(estimator, runs=12)}
    assert not found[invariant].passed, found[invariant].detail


def test_a_broken_estimator_fails_a_test_by_name() -> None:
    with pytest.raises(AssertionError, match="impatient breaks early_stop: anytime is False"):
        assert_estimator_conforms(Impatient(), runs=2)
