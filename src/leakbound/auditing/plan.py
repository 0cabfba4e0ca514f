"""What an audit will cost and what it can show, known before any model call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from leakbound.auditing.estimate import each_confidence
from leakbound.auditing.prepare import Prepared
from leakbound.auditing.verdict import ceiling
from leakbound.estimators.votes import vote_reach
from leakbound.models import Request
from leakbound.privacy import Gaussian
from leakbound.stats import clopper_pearson_power, pairs_to_reject

__all__ = ["Plan", "plan", "predicted_calls", "predicted_cost"]

FACTORS = (1.0, 1.5, 2.0, 4.0)


@dataclass(frozen=True, slots=True)
class Plan:
    """Calls and what they cost at most; the ceiling of each bound; pairs a flawless attack needs to
    refute the promise; power at true leakages.

    promise: what is tested, in words; power: (factor, probability that the audit refutes the
    promise of a system that leaks so many
    times what it promises); None where no formula is known.
    """

    pairs: int
    model_calls: int
    cost: float | None
    estimator: str
    promise: str
    epsilon_ceiling: float
    mu_ceiling: float
    guarantee_mu: float | None
    pairs_needed: int | None
    power: tuple[tuple[float, float], ...]


def predicted_calls(prepared: Prepared) -> int:
    """Distinct asks of every batch: exactly what `collect` will send."""
    if not prepared.mechanism.needs:
        return 2 * len(prepared.pairs)
    return sum(len(requests) for requests in _batches(prepared))


def predicted_cost(prepared: Prepared) -> float | None:
    """US dollars that these calls cost at most, without retries; None where no price is known."""
    most = getattr(prepared.model, "most_cost", lambda requests: None)
    costs: list[float | None] = [most(requests) for requests in _batches(prepared)]
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None


def _batches(prepared: Prepared) -> Iterator[list[Request[Any]]]:
    """The distinct asks of each batch."""
    spec = prepared.spec
    for start in range(0, len(prepared.pairs), spec.batch_pairs):
        batch = prepared.pairs[start : start + spec.batch_pairs]
        jobs = [(job, pair.draw) for pair in batch for job in (pair.member, pair.nonmember)]
        yield list(
            dict.fromkeys(
                a
                for job, draw in jobs
                for a in prepared.mechanism.requests(prepared.task, job, draw)
            )
        )


def plan(prepared: Prepared) -> Plan:
    """The plan of a prepared audit, for the estimator that decides it."""
    spec, guarantee = prepared.spec, prepared.mechanism.guarantee
    reach, needed, power = {"e_process": _by_bet, "clopper_pearson": _by_counts}.get(
        spec.estimator, _by_votes
    )(prepared)
    return Plan(
        pairs=spec.pairs, model_calls=predicted_calls(prepared), cost=predicted_cost(prepared), estimator=spec.estimator,
        promise=prepared.bet.promise.describe(), epsilon_ceiling=reach[0], mu_ceiling=reach[1],
        guarantee_mu=guarantee.mu if isinstance(guarantee, Gaussian) else None, pairs_needed=needed, power=power,
    )  # fmt: skip


Parts = tuple[tuple[float, float], int | None, tuple[tuple[float, float], ...]]


def _by_bet(prepared: Prepared) -> Parts:
    bet, pairs = prepared.bet, prepared.spec.pairs - prepared.pilot
    return (
        bet.ceiling(pairs),
        bet.pairs_to_reject(),
        tuple((f, bet.power(pairs, f)) for f in FACTORS),
    )


def _by_counts(prepared: Prepared) -> Parts:
    """Pairs that choose a threshold, or teach the score, count as cost, not as evidence."""
    spec, claim = prepared.spec, prepared.claim
    tested = spec.pairs - max(
        prepared.pilot, int(spec.pairs * getattr(prepared.rule, "fraction", 0.0))
    )
    each = each_confidence(prepared.rule, prepared.bet.levels, spec.confidence)
    needed = pairs_to_reject(claim.epsilon, claim.delta, each) if claim.epsilon <= 12 else None
    power = tuple(
        (f, clopper_pearson_power(tested, f * claim.epsilon, claim.epsilon, claim.delta, each))
        for f in FACTORS
    )
    return ceiling(tested, claim.delta, each), needed, power


def _by_votes(prepared: Prepared) -> Parts:
    """Votes are taken as counted and noise as declared:

    a promise that is derived from both is never refuted by them.
    """
    spec, sigma = prepared.spec, prepared.mechanism.sigma  # type: ignore[attr-defined]
    return (
        vote_reach(spec.estimator, sigma, spec.partitions, spec.pairs, spec.delta, spec.confidence),
        None,
        (),
    )
