"""The verdict: lower bounds against the claim, and against the mechanism's own guarantee.

Point estimates take no part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from leakbound.privacy import Gaussian, Guarantee, NonPrivate, Relation
from leakbound.stats import Estimate, largest_certifiable_epsilon, cut, gdp

__all__ = ["BY", "METHODS", "Claim", "Decision", "Verdict", "ceiling", "decide"]

Verdict = Literal["violation", "consistent", "inconclusive"]
METHODS = {
    "e_process": ("e_process", "e_process_mu"),
    "clopper_pearson": ("clopper_pearson", "gdp"),
    "vote_band": ("vote_band", "vote_band"),
    "joint_votes": ("joint_votes", "joint_votes"),
}  # what decides: the estimate of epsilon, and of mu
BY = tuple(METHODS)


@dataclass(frozen=True, slots=True)
class Claim:
    """What the operator promises: (epsilon, delta) under a neighbouring relation."""

    epsilon: float
    delta: float
    relation: Relation = "replace_one"


@dataclass(frozen=True, slots=True)
class Decision:
    """The verdict and the sentences that carry it."""

    verdict: Verdict
    reasons: tuple[str, ...]


def ceiling(pairs: int, delta: float, confidence: float) -> tuple[float, float]:
    """(epsilon, mu) that a flawless attack certifies with so many pairs, by Clopper-Pearson limits."""
    return largest_certifiable_epsilon(pairs, delta, confidence), gdp(
        pairs, 0, 0, pairs, delta, confidence
    ).mu or 0.0


def decide(
    claim: Claim,
    guarantee: Guarantee,
    estimates: Sequence[Estimate],
    pairs: int,
    reach: tuple[float, float],
    estimator: str = "e_process",
) -> Decision:
    """Compare the estimator's lower bounds with the claim, and with the mechanism's own guarantee
    where that is Gaussian.

    `reach` is the ceiling of both bounds: "consistent" is said only where a flawless attack would
    have been caught.
    Both comparisons of Clopper-Pearson and of votes rest on one set of confidence limits, so
    together they err with
    probability 1 - confidence; the e-process compares the claim only where there is no Gaussian
    guarantee. The exact loss
    of a pair is certain where the release law is as declared, and spends no error.
    """
    by_name = {e.method: e for e in estimates}
    epsilon, mu = (by_name[name] for name in METHODS[estimator])
    both = estimator != "e_process" or not isinstance(guarantee, Gaussian)
    reasons = [
        *(_refuted_claim(claim, epsilon) if both else []),
        *_refuted_guarantee(guarantee, mu),
        *_refuted_exactly(claim, guarantee, by_name.get("exact")),
    ]
    if reasons:
        return Decision("violation", tuple(reasons))
    if reach[0] > claim.epsilon or (isinstance(guarantee, Gaussian) and reach[1] > guarantee.mu):
        said = f"no bound exceeds the promise; {_pairs(pairs)} could have certified up to epsilon {cut(reach[0])} or mu {cut(reach[1])}"
        return Decision("consistent", (said + ". This attack found no violation; another might.",))
    said = f"{_pairs(pairs)} can certify at most epsilon {cut(reach[0])}, even with a flawless attack; the claim is {claim.epsilon:g}"
    return Decision("inconclusive", (said + ". Use more pairs.",))


def _pairs(number: int) -> str:
    return f"{number} pair{'' if number == 1 else 's'}"


def _refuted_claim(claim: Claim, bound: Estimate) -> list[str]:
    if bound.epsilon is None or bound.epsilon <= claim.epsilon:
        return []
    return [
        f"the bound {cut(bound.epsilon)} exceeds the claimed epsilon {claim.epsilon:g}: a system "
        "that kept the claim would "
        f"have shown this with a probability of at most {1 - (bound.confidence or 0):.2g}."
    ]


def _refuted_guarantee(guarantee: Guarantee, mu: Estimate) -> list[str]:
    if not isinstance(guarantee, Gaussian) or mu.mu is None or mu.mu <= guarantee.mu:
        return []
    return [
        f"mu is at least {cut(mu.mu, 3)} with {mu.confidence:.0%} confidence, and the mechanism's "
        "noise promises "
        f"{guarantee.mu:.3f}: the implementation does not keep its own guarantee."
    ]


def _refuted_exactly(claim: Claim, guarantee: Guarantee, exact: Estimate | None) -> list[str]:
    """Of a mechanism that promises something:

    its own law, for one of the pairs, beyond the claim or the guarantee.
    """
    if exact is None or exact.epsilon is None or isinstance(guarantee, NonPrivate):
        return []
    limit = min(claim.epsilon, guarantee.epsilon(claim.delta))
    if exact.epsilon <= limit * (1 + 1e-6):
        return []
    what = "claimed" if limit == claim.epsilon else "guaranteed by the mechanism"
    return [
        f"the release law of one pair has epsilon {exact.epsilon:.4g} at delta {claim.delta:g}, "
        f"exactly; {limit:.4g} is {what}."
    ]
