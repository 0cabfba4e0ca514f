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

__all__ = ["METHODS", "Claim", "Decision", "Verdict", "ceiling", "decide", "estimate", "pilot_pairs"]

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


METHODS = {"clopper_pearson": ("clopper_pearson", "gdp"), "e_process": ("e_process", "e_process_mu")}


def ceiling(pairs: int, delta: float, confidence: float) -> tuple[float, float]:
    """(epsilon, mu) that a flawless attack certifies with so many pairs, by Clopper-Pearson limits."""
    return clopper_pearson_ceiling(pairs, delta, confidence), gdp(pairs, 0, 0, pairs, delta, confidence).mu or 0.0


def decide(
    claim: Claim,
    guarantee: Guarantee,
    estimates: Sequence[Estimate],
    pairs: int,
    reach: tuple[float, float],
    estimator: str = "clopper_pearson",
) -> Decision:
    """Compare the estimator's lower bounds with the claim, and with the mechanism's own guarantee where that is Gaussian.

    `reach` is the ceiling of both bounds: "consistent" is said only where a flawless attack would have been caught.
    Clopper-Pearson: both comparisons rest on one pair of confidence limits, so together they err with probability
    1 - confidence. E-process: the claim is compared only where there is no Gaussian guarantee. Point estimates take no part.
    """
    by_name = {e.method: e for e in estimates}
    epsilon, mu = (by_name[name] for name in METHODS[estimator])
    both = estimator == "clopper_pearson" or not isinstance(guarantee, Gaussian)
    reasons = [*(_refuted_claim(claim, epsilon) if both else []), *_refuted_guarantee(guarantee, mu)]
    if reasons:
        return Decision("violation", tuple(reasons))
    if reach[0] > claim.epsilon or (isinstance(guarantee, Gaussian) and reach[1] > guarantee.mu):
        said = f"no bound exceeds the promise; {pairs} pairs could have certified up to epsilon {cut(reach[0])} or mu {cut(reach[1])}"
        return Decision("consistent", (said + ". This attack found no violation; another might.",))
    said = f"{pairs} pairs certify at most epsilon {cut(reach[0])}, even with a flawless attack; the claim is {claim.epsilon:g}"
    return Decision("inconclusive", (said + ". Use more pairs.",))


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
