"""A gate: may a finished run pass? Lower bounds decide, and a run that could have refuted nothing
does not pass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from leakbound.attacks import SCORES
from leakbound.auditing.estimate import each_confidence, threshold_rule
from leakbound.auditing.prepare import build_mechanism, voters
from leakbound.auditing.result import AuditResult
from leakbound.auditing.spec import AuditSpec, make_spec
from leakbound.auditing.verdict import ceiling
from leakbound.errors import UsageError
from leakbound.estimators.bet import Bet
from leakbound.estimators.votes import vote_reach
from leakbound.privacy import ApproxDP, Gaussian, Guarantee, NonPrivate
from leakbound.stats import clopper_pearson_power, cut
from leakbound.tasks import Mechanism

__all__ = ["Gate", "GateResult", "check_gate", "power", "reach"]

Outcome = Literal["passed", "violation", "inconclusive"]


@dataclass(frozen=True, slots=True)
class Gate:
    """What a run must show: no lower bound above `max_epsilon`, and enough power to have found one.

    min_power: least probability with which the run refutes its claim where the system leaks
    `factor` times as much;
    consistent: the run's own verdict must be consistent. Raises UsageError for numbers that make no
    gate.
    """

    max_epsilon: float
    min_power: float | None = None
    factor: float = 2.0
    consistent: bool = False

    def __post_init__(self) -> None:
        if not self.max_epsilon >= 0:
            raise UsageError(
                f"max_epsilon is {self.max_epsilon!r}; it must be a number of at least 0."
            )
        if self.min_power is not None and not 0 < self.min_power <= 1:
            raise UsageError(f"min_power is {self.min_power!r}; it must be a probability above 0.")
        if not self.factor > 1:
            raise UsageError(f"the factor is {self.factor!r}; it must be above 1, such as 2.")


@dataclass(frozen=True, slots=True)
class GateResult:
    """What a gate said of one run, and why, in one sentence."""

    run: str
    outcome: Outcome
    why: str


def check_gate(record: AuditResult, gate: Gate) -> GateResult:
    """Hold a run against a gate:

    violation before inconclusive, before passed. Point estimates take no part.
    """
    why = _above(record, gate)
    if why:
        return GateResult(record.name, "violation", why)
    why = _unshown(record, gate)
    if why:
        return GateResult(record.name, "inconclusive", why)
    bound = f"the lower bound {cut(record.bound.epsilon)} ({record.bound.method}) is not above {gate.max_epsilon:g}"
    could = "refuted the run's promise" if _by_claim(record, gate) else "shown more"
    return GateResult(
        record.name,
        "passed",
        f"{bound}, and {_pairs(record)} could have {could}. Another attack might.",
    )


def _above(record: AuditResult, gate: Gate) -> str:
    """Why a lower bound forbids it; empty if none does."""
    if record.verdict == "violation":
        reason = record.decision.reasons[0]
        return reason[0].upper() + reason[1:]
    for bound in (
        record.bound,
        *(e for e in record.estimates if e.method == "exact" and _promises(record)),
    ):
        if (bound.epsilon or 0.0) > gate.max_epsilon:
            return f"The lower bound {cut(bound.epsilon)} ({bound.method}) is above {gate.max_epsilon:g}."
    return ""


def _unshown(record: AuditResult, gate: Gate) -> str:
    """Why the run does not speak for the gate; empty if it does."""
    by_claim = _by_claim(record, gate)
    if (by_claim or gate.consistent) and record.verdict != "consistent":
        reason = record.decision.reasons[0]
        return reason[0].upper() + reason[1:]
    if not by_claim and (most := reach(record)[0]) <= gate.max_epsilon:
        return f"{_pairs(record)} certify at most {cut(most)}, even with a flawless attack, and the gate is {gate.max_epsilon:g}; use more pairs."
    return _weak(record, gate) if gate.min_power is not None else ""


def _by_claim(record: AuditResult, gate: Gate) -> bool:
    """Does the run's own verdict speak for the gate? A claim of several answers is a product, which
    rounding may move.
    """
    claim = record.claim.epsilon
    return gate.max_epsilon >= claim or math.isclose(gate.max_epsilon, claim)


def _weak(record: AuditResult, gate: Gate) -> str:
    if not math.isclose(gate.max_epsilon, record.claim.epsilon):
        raise UsageError(
            f"the power of {record.name} is known against its claim {record.claim.epsilon:g}, and "
            f"max_epsilon is {gate.max_epsilon:g}; "
            f"audit with --epsilon {gate.max_epsilon / record.spec['answers']:g}, or leave "
            "min_power out."
        )
    found = power(record, gate.factor)
    if found is None:
        return f"No power is known for {record.spec['estimator']}: it takes the noise as declared; audit with --estimator e_process."
    if found >= (gate.min_power or 0.0):
        return ""
    return (
        f"{_pairs(record)} refute the promise of a system that leaks {gate.factor:g} times as "
        f"much with probability {found:.2f} only, "
        f"and {gate.min_power:g} is asked for; use more pairs."
    )


def reach(record: AuditResult) -> tuple[float, float]:
    """(epsilon, mu) that flawless answers would have certified with the pairs that entered the
    run's bound.
    """
    spec, delta = make_spec(record.spec), record.claim.delta
    if spec.estimator == "e_process":
        return _bet(record, spec).ceiling(_tested(record))
    if spec.estimator == "clopper_pearson":
        return ceiling(_tested(record), delta, _each(record, spec))
    sigma = build_mechanism(spec).sigma  # type: ignore[attr-defined]
    return vote_reach(
        spec.estimator, sigma, spec.partitions, _tested(record), delta, spec.confidence
    )


def power(record: AuditResult, factor: float) -> float | None:
    """Probability that the run's design refutes its promise where the system leaks `factor` times
    as much; None where unknown.

    The same formulas as `leakbound plan` (`Bet.power`, `clopper_pearson_power`), for the pairs that
    entered the bound.
    """
    spec, claim = make_spec(record.spec), record.claim
    if spec.estimator == "e_process":
        return _bet(record, spec).power(_tested(record), factor)
    if spec.estimator == "clopper_pearson":
        true = factor * claim.epsilon
        return clopper_pearson_power(
            _tested(record), true, claim.epsilon, claim.delta, _each(record, spec)
        )
    return None


def _each(record: AuditResult, spec: AuditSpec) -> float:
    """The confidence of the limits at one threshold."""
    rule = threshold_rule(spec.threshold, SCORES[record.attack["score"]]().threshold)
    return each_confidence(rule, _bet(record, spec).levels, spec.confidence)


def _bet(record: AuditResult, spec: AuditSpec) -> Bet:
    """The bet that the run played; of a guarantee it reads whether it is Gaussian, and mu."""
    claim, mu = record.claim, record.guarantee.mu
    promised: Guarantee = NonPrivate() if mu is None else Gaussian(mu, 1.0, claim.relation)
    levels = SCORES[record.attack["score"]]().levels(voters(spec, _mechanism(record, spec)))
    horizon = None if spec.stop_when_rejected else spec.pairs
    return Bet(
        ApproxDP(claim.epsilon, claim.delta, claim.relation),
        promised,
        levels,
        spec.confidence,
        horizon,
    )


def _mechanism(record: AuditResult, spec: AuditSpec) -> Mechanism | None:
    """None for a system of the user's."""
    return (
        build_mechanism(spec)
        if spec.system is None and record.attack["mechanism"] == spec.mechanism
        else None
    )


def _tested(record: AuditResult) -> int:
    """Pairs that entered the deciding bound:

    fewer than were asked where some chose a threshold or taught a score.
    """
    counts = record.bound.counts
    return counts["pairs"] if "pairs" in counts else sum(counts.values()) // 2


def _promises(record: AuditResult) -> bool:
    return record.guarantee.epsilon < float("inf")


def _pairs(record: AuditResult) -> str:
    number = _tested(record)
    return f"{number} tested pair{'' if number == 1 else 's'}"
