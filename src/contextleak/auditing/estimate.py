"""From trials to statements: threshold, error counts, bounds, and the verdict on the claim."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from contextleak.auditing.release import Trials
from contextleak.errors import UsageError
from contextleak.privacy import Gaussian, Guarantee
from contextleak.stats import (
    BestOnSameData,
    Estimate,
    Split,
    ThresholdRule,
    accuracy_bound,
    accuracy_log_odds,
    best_threshold,
    clopper_pearson,
    clopper_pearson_ceiling,
    cut,
    gdp,
)

__all__ = ["Claim", "Decision", "Verdict", "decide", "estimate", "pilot_pairs"]

Verdict = Literal["violation", "consistent", "inconclusive"]


@dataclass(frozen=True, slots=True)
class Claim:
    """What the operator promises: (epsilon, delta) under replacing one exemplar."""

    epsilon: float
    delta: float
    relation: Literal["replace_one"] = "replace_one"


@dataclass(frozen=True, slots=True)
class Decision:
    """The verdict and the sentences that carry it."""

    verdict: Verdict
    reasons: tuple[str, ...]


def estimate(
    simulated: Callable[[slice], Trials], trials: Trials, rule: ThresholdRule, claim: Claim, confidence: float
) -> list[Estimate]:
    """All estimates of one score. `simulated` gives releases for choosing a threshold on pilot pairs."""
    pilot = pilot_pairs(rule, len(trials.member))
    tau = _threshold(rule, pilot, simulated, trials)
    tested = trials.first(slice(0 if pilot is None else pilot.stop, None))
    tp, fp = int((tested.member >= tau).sum()), int((tested.nonmember >= tau).sum())
    n = len(tested.member)
    chosen = f"{rule} (tau = {tau:g})" if isinstance(rule, Split) else str(rule)
    cells = (tp, n - tp, fp, n - fp)
    return [
        clopper_pearson(*cells, claim.delta, confidence, chosen),
        gdp(*cells, claim.delta, confidence, chosen),
        accuracy_bound(tp + n - fp, 2 * n, claim.delta, confidence, chosen),
        accuracy_log_odds(tp + n - fp, 2 * n, claim.delta, chosen),
    ]


def pilot_pairs(rule: ThresholdRule, pairs: int) -> slice | None:
    """The pairs that choose the threshold; refused where they are too few."""
    if not isinstance(rule, Split):
        return None
    size = int(pairs * rule.fraction)
    if size < 1:
        raise UsageError(
            f"{pairs} pairs leave none to choose a threshold on ({rule}); use at least {int(1 / rule.fraction)} pairs, "
            "or give --threshold."
        )
    return slice(0, size)


def _threshold(rule: ThresholdRule, pilot: slice | None, simulated: Callable[[slice], Trials], trials: Trials) -> float:
    if isinstance(rule, BestOnSameData):
        return best_threshold(trials.member, trials.nonmember)
    if pilot is None:
        return float(rule.value)  # type: ignore[union-attr]
    drawn = simulated(pilot)
    return best_threshold(drawn.member, drawn.nonmember)


def decide(claim: Claim, guarantee: Guarantee, estimates: Sequence[Estimate]) -> Decision:
    """Compare lower bounds with the claim, and with the mechanism's own guarantee where that is Gaussian.

    Both comparisons rest on the same pair of confidence limits, so together they err with probability 1 - confidence.
    A point estimate takes no part. "consistent" is said only where a flawless attack would have been caught.
    """
    by_name = {e.method: e for e in estimates}
    cp, mu = by_name["clopper_pearson"], by_name["gdp"]
    reasons = [*_refuted_claim(claim, cp), *_refuted_guarantee(guarantee, mu)]
    if reasons:
        return Decision("violation", tuple(reasons))
    n = sum(cp.counts.values()) // 2
    confidence = cp.confidence or 0.95
    ceiling = clopper_pearson_ceiling(n, claim.delta, confidence)
    mu_ceiling = gdp(n, 0, 0, n, claim.delta, confidence).mu or 0.0
    if ceiling > claim.epsilon or (isinstance(guarantee, Gaussian) and mu_ceiling > guarantee.mu):
        said = f"no bound exceeds the claim; {n} pairs could have certified up to epsilon {cut(ceiling)} or mu {cut(mu_ceiling)}"
        return Decision("consistent", (said + ". This attack found no violation; another might.",))
    return Decision(
        "inconclusive",
        (
            f"{n} pairs certify at most epsilon {cut(ceiling)}, even with a flawless attack; the claim is {claim.epsilon:g}. Use more pairs.",
        ),
    )


def _refuted_claim(claim: Claim, cp: Estimate) -> list[str]:
    if cp.epsilon is None or cp.epsilon <= claim.epsilon:
        return []
    return [
        f"the bound {cut(cp.epsilon)} exceeds the claimed epsilon {claim.epsilon:g}: a system that kept the claim would "
        f"have shown this with a probability of at most {1 - (cp.confidence or 0):.2g}."
    ]


def _refuted_guarantee(guarantee: Guarantee, mu: Estimate) -> list[str]:
    if not isinstance(guarantee, Gaussian) or mu.mu is None or mu.mu <= guarantee.mu:
        return []
    return [
        f"mu is at least {cut(mu.mu, 3)} with {mu.confidence:.0%} confidence, and the mechanism's noise promises "
        f"{guarantee.mu:.3f}: the implementation does not keep its own guarantee."
    ]
