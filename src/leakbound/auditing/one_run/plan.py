"""What one run will cost and can show; no store is opened."""

from __future__ import annotations

from functools import partial

from leakbound.auditing.one_run.prepare import PreparedOneRun
from leakbound.auditing.plan import FACTORS, GUESSING, Plan
from leakbound.auditing.result.sentences import Subject
from leakbound.estimators import Claim
from leakbound.estimators.random_guessing import of_one_side, power_against_guessing
from leakbound.stats import Assumption, Power, canaries_to_reject, one_run, one_run_power
from leakbound.stats.counts.ranked import Ranked


def plan_one_run(prepared: PreparedOneRun) -> Plan:
    claim, canaries = prepared.claim(), len(prepared.design.canaries)
    confidence = confidence_of_side(prepared)
    made = _guesses(prepared, canaries)
    largest = one_run(canaries, made, made, claim.delta, confidence)
    chances = [(factor, power_of_run(prepared, claim, factor)) for factor in FACTORS]
    each, source = prepared.spec.decision.each[0], prepared.spec.claim_source
    shown = None if each == claim.epsilon else each
    return Plan(
        pairs=canaries,
        model_calls=prepared.answers,
        cost=None,
        estimator=largest.method,
        tested=_test(prepared, claim),
        largest_epsilon=largest.epsilon or 0.0,
        largest_mu=None,
        guarantee_mu=None,
        pairs_needed=canaries_to_reject(
            partial(_claim_with, prepared), confidence, partial(_guesses, prepared)
        ),
        power=tuple((factor, power) for factor, power in chances if power is not None),
        assumption=_assumption(prepared),
        builds=1,
        guessing_power=accuracies_of_run(prepared),
        subject=Subject(prepared.mechanism.name, None, claim.epsilon, claim.delta, source, shown),
    )


def confidence_of_side(prepared: PreparedOneRun) -> float:
    """Confidence of a bound on one side: more than that of the test where it has two sides."""
    decision = prepared.spec.decision
    return decision.confidence if decision.claim is None else of_one_side(decision.confidence)


def accuracies_of_run(prepared: PreparedOneRun) -> tuple[tuple[float, Power], ...]:
    """How probably guesses of known accuracies reject random guessing."""
    decision = prepared.spec.decision
    if decision.claim is None:
        return ()
    guesses = _guesses(prepared, len(prepared.design.canaries))
    return power_against_guessing("one_run", guesses, decision.confidence)


def power_of_run(prepared: PreparedOneRun, claim: Claim, factor: float) -> Power | None:
    """Probability that the run rejects its claim where the store leaks so many times as much."""
    decision = prepared.spec.decision
    if decision.claim is not None or Ranked.named(decision.threshold) is not None:
        return None
    hit, false_alarm = _assumption(prepared).rates(factor * claim.epsilon)
    right = (hit + 1 - false_alarm) / 2  # a fair coin decides which of the two errors is possible
    canaries, confidence = len(prepared.design.canaries), prepared.spec.decision.confidence
    return Power(one_run_power(canaries, right, claim.epsilon, claim.delta, confidence))


def _guesses(prepared: PreparedOneRun, canaries: int) -> int:
    """How many of so many canaries are guessed."""
    ranked = Ranked.named(prepared.spec.decision.threshold)
    return canaries if ranked is None else 2 * ranked.each(canaries)


def _assumption(prepared: PreparedOneRun) -> Assumption:
    decision = prepared.spec.decision
    return Assumption(decision.assume_hit, decision.assume_false_alarm)


def _claim_with(prepared: PreparedOneRun, canaries: int) -> tuple[float, float]:
    """(epsilon, delta) of the whole run, were there another number of canaries."""
    decision, design = prepared.spec.decision, prepared.design
    epsilon, delta = decision.each
    if decision.claim_for == "run":
        return epsilon, delta
    answers = prepared.answers / len(design.every) * (canaries + len(design.controls))
    return answers * epsilon, answers * delta


def _test(prepared: PreparedOneRun, claim: Claim) -> str:
    """The claim in words."""
    if prepared.spec.decision.claim is not None:
        return GUESSING
    if prepared.spec.decision.claim_for == "run":
        return f"epsilon {claim.epsilon:g} at delta {claim.delta:g} of the whole run"
    return (
        f"epsilon {prepared.spec.decision.epsilon:g} of an answer, which is {claim.epsilon:g} of "
        f"the {prepared.answers} answers of the run"
    )
