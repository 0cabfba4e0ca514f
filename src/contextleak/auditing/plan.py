"""What an audit will cost and what it can show, known before any model call."""

from __future__ import annotations

from dataclasses import dataclass

from contextleak.auditing.run import Prepared
from contextleak.privacy import Gaussian
from contextleak.stats import clopper_pearson_ceiling, clopper_pearson_power, gdp, pairs_to_refute

__all__ = ["Plan", "plan", "predicted_calls"]


@dataclass(frozen=True, slots=True)
class Plan:
    """Calls; the ceiling of each bound; pairs a flawless attack needs to refute the claim; power at true leakages.

    `power`: (true epsilon, probability that the audit refutes the claim), for a system that leaks like randomised response.
    """

    pairs: int
    model_calls: int
    epsilon_ceiling: float
    mu_ceiling: float
    guarantee_mu: float | None
    pairs_needed: int | None
    power: tuple[tuple[float, float], ...]


def predicted_calls(prepared: Prepared) -> int:
    """Distinct asks of every batch: exactly what `collect` will send."""
    spec = prepared.spec
    if not prepared.mechanism.needs:
        return 2 * len(prepared.pairs)
    total = 0
    for start in range(0, len(prepared.pairs), spec.batch_pairs):
        batch = prepared.pairs[start : start + spec.batch_pairs]
        jobs = [(job, pair.draw) for pair in batch for job in (pair.member, pair.nonmember)]
        total += len({ask for job, draw in jobs for ask in prepared.mechanism.asks(prepared.task, job, draw)})
    return total


def plan(prepared: Prepared) -> Plan:
    """The plan of a prepared audit. Pairs that choose a threshold count as cost, not as evidence."""
    spec, guarantee = prepared.spec, prepared.mechanism.guarantee
    tested = spec.pairs - int(spec.pairs * getattr(prepared.rule, "fraction", 0.0))
    mu = gdp(tested, 0, 0, tested, spec.delta, spec.confidence).mu or 0.0
    return Plan(
        pairs=spec.pairs, model_calls=predicted_calls(prepared),
        epsilon_ceiling=clopper_pearson_ceiling(tested, spec.delta, spec.confidence), mu_ceiling=mu,
        guarantee_mu=guarantee.mu if isinstance(guarantee, Gaussian) else None,
        pairs_needed=pairs_to_refute(spec.epsilon, spec.delta, spec.confidence) if spec.epsilon <= 12 else None,
        power=tuple(
            (true, clopper_pearson_power(tested, true, spec.epsilon, spec.delta, spec.confidence))
            for true in (spec.epsilon, 1.5 * spec.epsilon, 2 * spec.epsilon, 4 * spec.epsilon)
        ),
    )  # fmt: skip
