"""The verdict: lower bounds against the claim, and against the mechanism's own guarantee.

Point estimates take no part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from leakbound.auditing.guessing import above_guessing
from leakbound.estimators import Bounds, Claim, Estimator, TrialDesign
from leakbound.estimators.base import exceeds
from leakbound.estimators.random_guessing import is_random_guessing
from leakbound.privacy import Gaussian, NonPrivate
from leakbound.stats import Estimate, beside, cut

__all__ = [
    "Claim",
    "Conclusion",
    "Obstacle",
    "Reason",
    "Verdict",
    "above_zero",
    "conclude",
    "mu_bound",
    "rejections",
    "sees_something",
    "sighted",
]

Verdict = Literal["violation", "no_violation", "inconclusive"]
Reason = Literal[
    "too_few_trials", "attack_blind", "stateful_system", "unreadable_answers", "declared_noise",
    "untested_channels", "seen_only_in_bulk",
]  # fmt: skip
Obstacle = tuple[Reason, str]
GUARANTEED = "the guarantee, which implies the claim"
ROUNDING = 1e-6  # a calibrated guarantee equals the claim but for this share


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What an audit says of its claim."""

    verdict: Verdict
    reason: Reason | None
    sentences: tuple[str, ...]
    by_exact: bool = False


def mu_bound(bounds: Sequence[Estimate]) -> Estimate | None:
    """The estimate of mu among the bounds of one estimator."""
    return next((bound for bound in bounds if bound.mu is not None), None)


def rejections(design: TrialDesign, estimator: Estimator, bounds: Sequence[Estimate]) -> list[str]:
    """What the deciding bounds reject, in sentences.

    Bounds that hold together are compared with claim and guarantee at once. Others hold one by one:
    claim and guarantee are tested in the order of `TrialDesign.hypotheses`, the second only if the
    first is rejected. A bound on epsilon speaks against every smaller value at once, so it is also
    compared with what a guarantee that is not Gaussian states at the delta of the claim.
    """
    found, mu = [], mu_bound(bounds)
    for hypothesis in design.hypotheses if mu is not None else ("claim",):
        if hypothesis == "claim":
            above = _above_claim(design.claim, bounds[0])
        else:
            above = _above_guarantee(design.guarantee_mu, mu)
        if not above and not estimator.simultaneous:
            break
        found += above
    return found + _above_stated(design, bounds[0])


def conclude(
    design: TrialDesign, estimator: Estimator, bounds: Sequence[Estimate], exact: Estimate | None,
    tested: int, largest: Bounds, obstacles: Sequence[Obstacle] = (), by_replies: bool = False,
) -> Conclusion:  # fmt: skip
    """The verdict of an audit.

    The exact loss of a pair is certain where outputs are distributed as declared, so it is compared
    beside the bounds and spends no error.
    """
    by_bounds, exactly = rejections(design, estimator, bounds), _exactly_above(design, exact)
    if by_bounds or exactly:
        return Conclusion("violation", None, (*by_bounds, *exactly), by_exact=not by_bounds)
    few = () if exceeds(largest, design) else (_too_few(design, tested, largest, by_replies),)
    against = sighted(above_zero(bounds), (*obstacles, *few))
    if against:
        return Conclusion("inconclusive", against[0][0], tuple(why for _, why in against))
    limit = GUARANTEED if design.hypotheses[0] == "guarantee" else "the claim"
    sentence = (
        f"no bound exceeds {limit}; {_pairs(tested)} could have certified up to "
        f"{_largest(largest)}. This attack found no violation; another might."
    )
    return Conclusion("no_violation", None, (sentence,))


def above_zero(bounds: Sequence[Estimate]) -> float:
    """How far above 0 any bound is."""
    known = (one for one in bounds if one.kind != "point_estimate")
    return max((one.epsilon or one.mu or 0.0 for one in known), default=0.0)


def sees_something(bound: float) -> Obstacle:
    """Too few trials, of an attack whose controls did not show that it sees anything."""
    return (
        "too_few_trials",
        f"the bound {cut(bound)} is above 0, so the attack sees something, and it does not exceed "
        "what is claimed; these trials do not show whether the true value does. Use more trials.",
    )


def sighted(bound: float, against: Sequence[Obstacle]) -> tuple[Obstacle, ...]:
    """No attack is blind beside a bound above 0."""
    return tuple(
        ("too_few_trials" if bound > 0 and code == "attack_blind" else code, why)
        for code, why in against
    )


def _too_few(design: TrialDesign, tested: int, largest: Bounds, by_replies: bool) -> Obstacle:
    how = "by what replies tell" if by_replies else "even with a perfect attack"
    return (
        "too_few_trials",
        f"{_pairs(tested)} can certify at most epsilon {cut(largest.epsilon)}, {how}; the claim is "
        f"{design.claim.epsilon:g}. Use more pairs.",
    )


def _largest(largest: Bounds) -> str:
    mu = "" if largest.mu is None else f" or mu {cut(largest.mu)}"
    return f"epsilon {cut(largest.epsilon)}{mu}"


def _pairs(number: int) -> str:
    return f"{number} tested pair{'' if number == 1 else 's'}"


def _above_claim(claim: Claim, bound: Estimate) -> list[str]:
    if bound.epsilon is None or bound.epsilon <= claim.epsilon:
        return []
    if is_random_guessing(claim):
        return [above_guessing(bound.epsilon, bound.method, 1 - (bound.confidence or 0))]
    shown, limit = beside(bound.epsilon, claim.epsilon)
    return [
        f"the bound {shown}{_read_from(bound)} exceeds the claimed epsilon {limit}: a system "
        "that satisfies the claim shows this with a probability of at most "
        f"{1 - (bound.confidence or 0):.2g}."
    ]


def _read_from(bound: Estimate) -> str:
    return "" if bound.reading is None else f", read from {bound.reading.words},"


def _above_guarantee(guaranteed: float | None, bound: Estimate | None) -> list[str]:
    if guaranteed is None or bound is None or (bound.mu or 0.0) <= guaranteed:
        return []
    shown, limit = beside(bound.mu, guaranteed, 3)
    return [
        f"mu{_read_from(bound)} is at least {shown} with {bound.confidence:.0%} confidence, and "
        f"the noise of the mechanism guarantees {limit}: the implementation does not satisfy its "
        "own guarantee."
    ]


def _above_stated(design: TrialDesign, bound: Estimate) -> list[str]:
    """Of a guarantee that is not Gaussian, and states something else than the claim."""
    claim, guarantee = design.claim, design.guarantee
    if isinstance(guarantee, Gaussian | NonPrivate) or bound.epsilon is None:
        return []
    stated = guarantee.epsilon(claim.delta)
    same = abs(stated - claim.epsilon) <= claim.epsilon * ROUNDING
    if same or bound.epsilon <= stated * (1 + ROUNDING):
        return []
    shown, limit = beside(bound.epsilon, stated)
    return [
        f"the bound {shown}{_read_from(bound)} exceeds epsilon {limit} at delta {claim.delta:g}, "
        f"which the declared guarantee ({guarantee.describe()}) states: the implementation does "
        "not satisfy its own guarantee."
    ]


def _exactly_above(design: TrialDesign, exact: Estimate | None) -> list[str]:
    """Of a mechanism with a guarantee: the loss of one pair beyond the claim or the guarantee."""
    claim, guarantee = design.claim, design.guarantee
    if exact is None or exact.epsilon is None or isinstance(guarantee, NonPrivate):
        return []
    limit = min(claim.epsilon, guarantee.epsilon(claim.delta))
    if exact.epsilon <= limit * (1 + ROUNDING):
        return []
    what = "claimed" if limit == claim.epsilon else "guaranteed by the mechanism"
    shown, other = beside(exact.epsilon, limit, 3)
    return [
        f"the output distributions of one pair have epsilon {shown} at delta {claim.delta:g}, "
        f"exactly; {other} is {what}."
    ]
