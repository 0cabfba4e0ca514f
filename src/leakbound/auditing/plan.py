"""What an audit will cost and what it can show, known before any model call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leakbound._records import Card
from leakbound.auditing.collect.collect import CollectionPlan
from leakbound.auditing.prepare.prepared import Prepared, wanted_change
from leakbound.auditing.result.sentences import GUESSING as GUESSING_NOTE
from leakbound.auditing.result.sentences import Subject, full_name
from leakbound.estimators.random_guessing import is_random_guessing
from leakbound.models import Priced
from leakbound.stats.power import PERFECT, Assumption, Power

GUESSING = "random guessing (epsilon 0 at delta 0, on both sides)"
FACTORS = (1.0, 1.5, 2.0, 4.0)  # of what is tested; 1 shows how often a true claim is rejected


@dataclass(frozen=True, slots=True)
class OtherCalls:
    """Other attacks, asked where the audit's own sees nothing, and how many pairs at most."""

    attacks: tuple[str, ...]
    pairs: int
    model_calls: int
    cost: float | None
    change: float


@dataclass(frozen=True, slots=True)
class Plan(Card):
    pairs: int
    model_calls: int
    cost: float | None
    estimator: str
    tested: str
    largest_epsilon: float
    largest_mu: float | None
    guarantee_mu: float | None
    pairs_needed: int | None
    power: tuple[tuple[float, Power], ...]
    assumption: Assumption = PERFECT
    background_copies: int = 0
    builds: int | None = None
    guessing_power: tuple[tuple[float, Power], ...] = ()
    subject: Subject | None = None
    others: OtherCalls | None = None


def plan(prepared: Prepared) -> Plan:
    """The plan of a prepared audit, for the estimator that decides it."""
    design, estimator = prepared.trial_design, prepared.estimator
    asked = CollectionPlan.of(prepared)
    calls, cost = _predict(prepared, asked, [*asked.batches(), *asked.late_batches()])
    largest = estimator.largest_certifiable(design, design.pairs)
    guessing = estimator.accuracy_power(design, design.pairs)
    factors = () if is_random_guessing(design.claim) else FACTORS
    chances = [(factor, estimator.power(design, design.pairs, factor)) for factor in factors]
    claim, spec, mechanism = prepared.trial_design.claim, prepared.spec, prepared.mechanism
    each = spec.decision.each[0]
    zero, tested = GUESSING_NOTE, GUESSING
    if (staged := prepared.pairs.staged) is not None and not spec.decision.claim:
        zero, tested = staged.zero, f"{staged.zero} (epsilon 0 at delta 0)"
    return Plan(
        pairs=design.pairs,
        model_calls=calls,
        cost=cost,
        estimator=estimator.name,
        tested=tested if is_random_guessing(design.claim) else design.tested.describe(),
        largest_epsilon=largest.epsilon,
        largest_mu=largest.mu,
        guarantee_mu=design.guarantee_mu,
        pairs_needed=estimator.pairs_needed(design),
        power=tuple((factor, power) for factor, power in chances if power is not None),
        assumption=design.assumption,
        background_copies=prepared.pairs.copies.count,
        builds=1 if prepared.spec.design.layout == "session" else None,
        guessing_power=guessing,
        others=_others(prepared, asked),
        subject=Subject(
            system=full_name(mechanism.name, spec.flat()["mechanism"]),
            model=prepared.model.name if mechanism.needs else None,
            epsilon=claim.epsilon,
            delta=claim.delta,
            claim_source=spec.claim_source,
            each=None if each == claim.epsilon else each,
            zero=zero,
        ),
    )


def _others(prepared: Prepared, asked: CollectionPlan) -> OtherCalls | None:
    if not prepared.others:
        return None
    if prepared.mechanism.needs:
        predicted = _predict(prepared, asked, asked.other_batches(asked.others))
    else:  # each pair of an attack takes as many calls
        predicted = sum(len(one) * one[0].calls for one in asked.others), None
    names, change = tuple(one.name for one in prepared.others), wanted_change(prepared.spec)
    return OtherCalls(names, sum(map(len, asked.others)), *predicted, change)


def _predict(
    prepared: Prepared, asked: CollectionPlan, batches: Sequence[int]
) -> tuple[int, float | None]:
    if not prepared.mechanism.needs:
        return sum(pair.calls for first in batches for pair in asked.pairs_of(first)), None
    model = prepared.model
    calls, dollars = 0, 0.0
    known = isinstance(model, Priced)
    for requests in map(asked.requests_of, batches):
        cost = model.most_cost(requests) if isinstance(model, Priced) else None
        known = known and cost is not None
        calls, dollars = calls + len(requests), dollars + (cost or 0.0)
    return calls, dollars if known else None
