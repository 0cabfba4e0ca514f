"""A gate: may a finished run pass? It reads the result and nothing else.

Lower bounds decide, and a run that could have rejected nothing does not pass.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Literal, NamedTuple

from leakbound._records import Card
from leakbound.auditing.decide.obstacles import unshown_sentence
from leakbound.auditing.result.audit_result import FACTORS, AuditResult
from leakbound.errors import UsageError
from leakbound.estimators.base import ACCURACIES
from leakbound.estimators.random_guessing import is_random_guessing
from leakbound.stats import Assumption, beside, cut
from leakbound.stats.power import PERFECT

__all__ = ["MAX_DELTA", "Gate", "GateResult", "accuracy_power_of", "check_gate", "power"]

# A mechanism may give every hundredth record away at this delta, whatever its epsilon.
MAX_DELTA = 0.01
Outcome = Literal["passed", "violation", "inconclusive"]


@dataclass(frozen=True, slots=True)
class Gate:
    """What a run must show: no lower bound above `max_epsilon`, and enough power to have found one.

    Args:
        max_epsilon: Largest lower bound that passes.
        min_power: Least probability with which the run rejects what it tests where the system leaks
            `factor` times as much; None: any.
        factor: Leakage, in units of what is tested, at which the power is read; at most the largest
            of `FACTORS`.
        no_violation: Whether the run's own verdict must be no_violation.
        max_delta: Largest delta at which a bound on epsilon says enough; in (0, 1).
        accuracy: Of the attack at which the power is read where random guessing is claimed, above
            0.5 and at most 1; None: any other claim.

    Raises:
        UsageError: For numbers that make no gate.
    """

    max_epsilon: float
    min_power: float | None = None
    factor: float = 2.0
    no_violation: bool = False
    max_delta: float = MAX_DELTA
    accuracy: float | None = None

    def __post_init__(self) -> None:
        for name in ("max_epsilon", "factor", "max_delta", "min_power", "accuracy"):
            value: object = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Real | None):
                raise UsageError(f"{name} is {value!r}; it must be a number.")
        if not 0 < self.max_delta < 1:
            raise UsageError(
                f"max_delta is {self.max_delta!r}; it must be above 0 and below 1, such as 1e-5."
            )
        if not self.max_epsilon >= 0:
            raise UsageError(
                f"max_epsilon is {self.max_epsilon!r}; it must be a number of at least 0."
            )
        if self.min_power is not None and not 0 < self.min_power <= 1:
            raise UsageError(f"min_power is {self.min_power!r}; it must be a probability above 0.")
        if self.accuracy is not None and not 0.5 < self.accuracy <= 1:
            raise UsageError(
                f"the accuracy is {self.accuracy!r}; it must be above 0.5, which a coin has, and "
                "at most 1."
            )
        if not self.factor > 1:
            raise UsageError(f"the factor is {self.factor!r}; it must be above 1, such as 2.")
        if self.factor > FACTORS[-1]:
            raise UsageError(
                f"the factor is {self.factor:g}; it must be at most {FACTORS[-1]:g}, the largest "
                "for which results hold the power."
            )


@dataclass(frozen=True, slots=True)
class GateResult(Card):
    """What a gate says of one run: whether it passed, and why, in a sentence."""

    run: str
    outcome: Outcome
    why: str


class Rule(NamedTuple):
    """What a gate asks of a run, what the run has, and what follows where it fails, and why."""

    name: str
    value: str
    limit: str
    outcome: Outcome
    why: str


def check_gate(result: AuditResult, gate: Gate) -> GateResult:
    """Hold a finished run against a gate: a violation before inconclusive, before passed.

    No catalogue, data or model is read, and point estimates take no part.

    Raises:
        UsageError: If the gate asks for a power that is known against another claim only.
    """
    if failed := next((one for one in rules(result, gate) if one.why), None):
        return GateResult(result.name, failed.outcome, failed.why)
    bound = result.bound
    guessing = is_random_guessing(result.claim)
    open_ = unshown_sentence(result.guessing_power) if guessing else "Another attack might."
    if result.verdict == "no_violation" and result.use is not None:
        return GateResult(
            result.name, "passed",
            f"the lower bound {cut(bound.epsilon)} ({bound.method}, delta {result.claim.delta:g}) "
            f"is not above {gate.max_epsilon:g}, and {result.use.limit}",
        )  # fmt: skip
    could = "rejected the tested claim" if _by_claim(result, gate) else "shown more"
    shown = "" if gate.min_power is None else f": they {_power_words(result, gate)}"
    found = "".join(f" Found: {sentence}" for sentence in result.beside)
    return GateResult(
        result.name,
        "passed",
        f"the lower bound {cut(bound.epsilon)} ({bound.method}, delta {result.claim.delta:g}) is "
        f"not above {gate.max_epsilon:g}, and {_pairs(result)} could have {could}{shown}. "
        f"{open_}{found}",
    )


def power(result: AuditResult, factor: float) -> tuple[float, float] | None:
    """Least probability that the run's design rejects what it tests where the system leaks more.

    (factor, probability) at the largest factor of the result's table, in units of what is tested,
    that is not above the given one; None where the table has none.
    """
    return max((row for row in result.power if row[0] <= factor * (1 + 1e-9)), default=None)


def rules(result: AuditResult, gate: Gate) -> list[Rule]:
    """What decides, in its order; power is read where all else holds."""
    found = [*_rules(result, gate)]
    if gate.min_power is not None and not any(one.why for one in found):
        why, value = _weak(result, gate, gate.min_power), _power_words(result, gate)
        limit = f"at least {gate.min_power:g}"
        found.append(Rule("power", value or "not known", limit, "inconclusive", why))
    return found


def _rules(result: AuditResult, gate: Gate) -> Iterator[Rule]:
    claim, limit, verdict = result.claim, gate.max_epsilon, result.verdict
    by_claim, most = _by_claim(result, gate), result.largest_certifiable.epsilon
    needed = by_claim or gate.no_violation
    own, must = verdict.replace("_", " "), "no violation" + ", or too few trials" * (not needed)
    why = _first(result) if verdict == "violation" else ""
    yield Rule("verdict", own, must, "violation", why)
    each = "builds" in result.counts and result.spec.get("claim_for") == "answer"
    other = each and not _by_claim(result, gate)  # a bound of a whole run, a claim for an answer
    yield from _bounds(result, limit, other)
    if other:
        why = (
            f"The lower bound {cut(result.bound.epsilon)} is that of all "
            f"{result.counts['answers']} answers of a one_run design, and is held against no limit "
            "for one answer; audit with --claim-for run and gate on that claim, or audit with "
            "--design session."
        )
        yield Rule("claim", "for each answer", "for the whole run", "inconclusive", why)
    why = "" if claim.delta <= gate.max_delta else (
        f"The claim is at delta {claim.delta:g}: a system may give a record away so "
        f"often at any epsilon. The gate allows a delta of at most {gate.max_delta:g}; audit "
        "with a smaller --delta, or allow more with --max-delta."
    )  # fmt: skip
    most_delta = f"at most {gate.max_delta:g}"
    yield Rule("δ of the claim", f"{claim.delta:g}", most_delta, "inconclusive", why)
    if verdict != "violation":
        controls = result.controls  # with one canary, or, of a design without such, the full ones
        seen = controls is None or (
            controls.seen if controls.single is None else controls.seen_once
        )
        too_few = result.reason == "too_few_trials" and seen and not needed
        why = "" if verdict == "no_violation" or too_few else _first(result)
        yield Rule("verdict", own, must, "inconclusive", why)
    if not by_claim and verdict == "no_violation" and result.use is not None:
        why = (
            f"What changes of a rate were looked for follows from the claim {claim.epsilon:g}, and "
            f"the gate is {limit:g}; audit with --epsilon {limit:g}."
        )
        yield Rule("tested ε", f"{claim.epsilon:g}", f"{limit:g}", "inconclusive", why)
    if not by_claim:
        why = "" if most > limit else (
            f"{_pairs(result)} certify at most {cut(most)}, even with a perfect attack, and the "
            f"gate is {limit:g}; use more pairs."
        )  # fmt: skip
        yield Rule("largest certifiable ε", cut(most), f"above {limit:g}", "inconclusive", why)


def _bounds(result: AuditResult, limit: float, other: bool) -> Iterator[Rule]:
    known = [e for e in result.estimates if e.method == "exact" and e.kind == "lower_bound"]
    exact = known if result.guarantee.epsilon < math.inf else []
    for bound in (result.bound, *exact):
        value, most = beside(bound.epsilon, limit)
        above = not other and (bound.epsilon or 0.0) > limit
        why = f"The lower bound {value} ({bound.method}) is above {most}." if above else ""
        yield Rule(f"lower bound on ε ({bound.method})", value, f"at most {most}", "violation", why)


def _first(result: AuditResult) -> str:
    sentence = result.sentences[0]
    return sentence[0].upper() + sentence[1:]


def _by_claim(result: AuditResult, gate: Gate) -> bool:
    """Does the run's own verdict speak for the gate?"""
    claim = result.claim.epsilon  # of several outputs a product, which rounding may move
    return gate.max_epsilon >= claim or math.isclose(gate.max_epsilon, claim)


def _weak(result: AuditResult, gate: Gate, least: float) -> str:
    if is_random_guessing(result.claim):
        return _weak_test_of_guessing(result, gate, least)
    if not math.isclose(gate.max_epsilon, result.claim.epsilon):
        raise UsageError(
            f"the power of {result.name} is known against its claim {result.claim.epsilon:g}, and "
            f"max_epsilon is {gate.max_epsilon:g}; audit with --epsilon "
            f"{gate.max_epsilon * result.spec['epsilon'] / result.claim.epsilon:g}, or leave "
            "min_power out."
        )
    if not result.power:
        name = result.spec["estimator"]["kind"]
        return (
            f"No power is known for this design with {name}; run a pilot, and gate it without "
            "--min-power."
        )
    if _assume(result) == PERFECT:
        return (
            "The power is not known, because no rates of the model were given: a model that "
            "notices every canary and raises no false alarm is the best case. Run the audit again "
            "with --assume-hit and --assume-false-alarm, or with --pilot; it reuses the stored "
            "outputs."
        )
    found = power(result, gate.factor)
    if found is None:
        smallest = result.power[0][0]
        return (
            f"The power is known from {smallest:g} times what is tested on, and the factor is "
            f"{gate.factor:g}; use a factor of at least {smallest:g}."
        )
    if found[1] >= least:
        return ""
    pairs = _pairs(result)
    return f"{pairs} {_power_words(result, gate)}; the gate asks for {least:g}. Use more pairs."


def _weak_test_of_guessing(result: AuditResult, gate: Gate, least: float) -> str:
    """Why the power against an attack of the asked accuracy is too small; empty if it is not."""
    if gate.accuracy is None or gate.max_epsilon > 0:
        raise UsageError(
            f"the power of {result.name} is known against random guessing, by the accuracy of an "
            "attack; gate it with --max-epsilon 0 and --accuracy, such as 0.7, or leave min_power "
            "out."
        )
    found = accuracy_power_of(result, gate.accuracy)
    if found is None:
        return (
            f"No power is known for an attack that is right {gate.accuracy:.0%} of the time; ask "
            f"for an accuracy of {ACCURACIES[0]:.0%} or more of one answer of a system, or gate "
            "without --min-power."
        )
    if found[1] >= least:
        return ""
    return (
        f"{_pairs(result)} {_power_of_attack(found)}; the gate asks for {least:g}. Use more pairs."
    )


def accuracy_power_of(result: AuditResult, accuracy: float) -> tuple[float, float] | None:
    """Least probability that an attack of an accuracy in (0.5, 1] rejects random guessing.

    (accuracy, probability) at the largest accuracy of the result's table that is not above the
    given one; None where the table has none.
    """
    known = (row for row in result.guessing_power if row[0] <= accuracy * (1 + 1e-9))
    return max(known, default=None)


def _power_of_attack(found: tuple[float, float]) -> str:
    return (
        f"reject an attack that is right {found[0]:.0%} of the time with a probability of at "
        f"least {cut(found[1])}"
    )


def _power_words(result: AuditResult, gate: Gate) -> str:
    """Which leak is rejected, how probably, and with what model; empty where that is unknown."""
    if gate.accuracy is not None and (row := accuracy_power_of(result, gate.accuracy)):
        return _power_of_attack(row)
    found, assumed = power(result, gate.factor), _assume(result)
    if found is None:
        return ""
    return (
        f"reject a system that leaks {_factor(found[0], gate.factor)} with a probability of at "
        f"least {cut(found[1])}, if the model notices a canary with probability {assumed.hit:g} "
        f"and raises a false alarm with probability {assumed.false_alarm:g}"
    )


def _assume(result: AuditResult) -> Assumption:
    spec = result.spec
    return Assumption(spec.get("assume_hit", 1.0), spec.get("assume_false_alarm", 0.0))


def _factor(known: float, asked: float) -> str:
    """The factor of the table, and that it is another one than was asked for."""
    if math.isclose(known, asked):
        return f"{known:g} times as much as what is tested"
    return (
        f"{known:g} times as much as what is tested (the nearest below {asked:g} for which the "
        "result holds the power)"
    )


def _pairs(result: AuditResult) -> str:
    number = result.tested_pairs
    if "builds" in result.counts:
        return f"{number} canaries"
    return f"{number} tested pair{'' if number == 1 else 's'}"
