"""What deciding bounds reject, in sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from leakbound.estimators import Estimator, TrialDesign
from leakbound.estimators.e_process import WITHOUT
from leakbound.estimators.random_guessing import is_random_guessing
from leakbound.privacy import Gaussian, NonPrivate, gdp_epsilon
from leakbound.stats import Estimate, beside

ROUNDING = 1e-6  # a calibrated guarantee equals the claim but for this share
LEAST_DELTA = 1e-12  # at which what mu implies is stated where the claim has delta 0
IN_ORDER = (
    "claim and guarantee are tested in order, and the first is not rejected, so this bound ends at "
    "the second"
)


def mu_bound(bounds: Sequence[Estimate]) -> Estimate | None:
    return next((bound for bound in bounds if bound.mu is not None), None)


def rejections(design: TrialDesign, estimator: Estimator, bounds: Sequence[Estimate]) -> list[str]:
    """What the deciding bounds reject, in sentences: claim and guarantee at once, or one by one in
    the order of `TrialDesign.hypotheses`; and any guarantee below the bound on epsilon."""
    if bounds[0].kind == "point_estimate":
        return []
    found, mu = [], mu_bound(bounds)
    for hypothesis in design.hypotheses if mu is not None else ("claim",):
        if hypothesis == "claim" or mu is None:
            above = _above_claim(design, bounds[0])
        else:
            above = _above_guarantee(design.guarantee_mu or 0.0, mu)
        if not above and not estimator.simultaneous:
            break
        found += above
    return found + _above_stated(design, bounds[0])


def as_tested(
    design: TrialDesign, estimator: Estimator, bounds: tuple[Estimate, ...]
) -> tuple[Estimate, ...]:
    """Bounds that hold together: what is tested second is not tested while the first stands, so its
    bound ends at that value."""
    mu, guaranteed, limit = mu_bound(bounds), design.guarantee_mu, design.claim.epsilon
    if mu is None or guaranteed is None or estimator.simultaneous:
        return bounds
    epsilon = bounds[0]
    if design.hypotheses[0] == "guarantee":
        if _above_guarantee(guaranteed, mu) or (epsilon.epsilon or 0.0) <= limit:
            return bounds
        low = replace(epsilon, epsilon=limit, assumptions=(*epsilon.assumptions, IN_ORDER))
        return (low, *bounds[1:])
    if _above_claim(design, epsilon) or (mu.mu or 0.0) <= guaranteed:
        return bounds
    implied = {"implied_epsilon": gdp_epsilon(guaranteed, max(design.claim.delta, LEAST_DELTA))}
    assumptions, details = (*mu.assumptions, IN_ORDER), {**mu.details, **implied}
    low = replace(mu, mu=guaranteed, assumptions=assumptions, details=details)
    return tuple(low if one is mu else one for one in bounds)


def _above_claim(design: TrialDesign, bound: Estimate) -> list[str]:
    claim = design.claim
    if bound.epsilon is None or bound.epsilon <= claim.epsilon:
        return []
    if is_random_guessing(claim) and not design.isolation:
        return [above_guessing(bound.epsilon, bound.method, 1 - (bound.confidence or 0))]
    shown, limit = beside(bound.epsilon, claim.epsilon)
    needs = bound.details.get(WITHOUT, math.inf) <= claim.epsilon
    which = " and answers to two contexts independent" if needs else ""
    return [
        f"the bound {shown}{_words_of(bound)} exceeds the claimed epsilon {limit}. If the claim "
        f"were true{which}, a result this extreme would occur at most "
        f"{100 * (1 - (bound.confidence or 0)):.2g}% of the time."
    ]


def _words_of(bound: Estimate) -> str:
    return "" if bound.reading is None else f", read from {bound.reading.words},"


def _above_guarantee(guaranteed: float, bound: Estimate) -> list[str]:
    if (bound.mu or 0.0) <= guaranteed:
        return []
    shown, limit = beside(bound.mu, guaranteed, 3)
    return [
        f"mu{_words_of(bound)} is at least {shown} with {bound.confidence:.0%} confidence, and "
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
        f"the bound {shown}{_words_of(bound)} exceeds epsilon {limit} at delta {claim.delta:g}, "
        f"which the declared guarantee ({guarantee.describe()}) states: the implementation does "
        "not satisfy its own guarantee."
    ]


def above_guessing(
    epsilon: float, method: str, error: float, found: str = "the attack tells the contexts apart"
) -> str:
    return (
        f"{found}, as random guessing does not: epsilon is at least {beside(epsilon, 0.0, 3)[0]} "
        f"({method}), and not 0. If answers depended on nothing private, a result this extreme "
        f"on either side would occur at most {100 * error:.2g}% of the time."
    )
