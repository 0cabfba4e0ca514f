"""The verdict: lower bounds against the claim, and against the mechanism's own guarantee.

Point estimates take no part.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from leakbound.auditing.observe.rejections import ROUNDING, rejections
from leakbound.estimators import Bounds, Estimator, TrialDesign
from leakbound.estimators.base import exceeds
from leakbound.privacy import NonPrivate
from leakbound.stats import BoundReading, Estimate, beside, cut

Verdict = Literal["violation", "no_violation", "inconclusive"]
Reason = Literal[
    "too_few_trials", "attack_blind", "stateful_system", "unreadable_answers", "declared_noise",
    "untested_channels", "seen_only_in_bulk", "context_unused", "context_digest",
]  # fmt: skip
Obstacle = tuple[Reason, str]
GUARANTEED = "the guarantee, which implies the claim"


@dataclass(frozen=True, slots=True)
class Conclusion:
    verdict: Verdict
    reason: Reason | None
    sentences: tuple[str, ...]
    by_exact: bool = False


def conclude(
    design: TrialDesign, estimator: Estimator, bounds: Sequence[Estimate], exact: Estimate | None,
    tested: int, largest: Bounds, obstacles: Sequence[Obstacle] = (), by_replies: bool = False,
    shown: Sequence[Estimate] = (), after: Sequence[Obstacle] = (),
) -> Conclusion:  # fmt: skip
    """The verdict of an audit; `shown` are all estimates that its result shows, and `after` is what
    matters once there are enough pairs.

    The exact loss of a pair is certain where outputs are distributed as declared, so it is compared
    beside the bounds and spends no error.
    """
    by_bounds, exactly = rejections(design, estimator, bounds), _exactly_above(design, exact)
    if by_bounds or exactly:
        return Conclusion("violation", None, (*by_bounds, *exactly), by_exact=not by_bounds)
    few = () if exceeds(largest, design) else (_too_few(design, tested, largest, by_replies),)
    against = without_blindness(above_zero((*bounds, *shown)), (*obstacles, *few, *after))
    if against:
        return Conclusion("inconclusive", against[0][0], tuple(why for _, why in against))
    limit = GUARANTEED if design.hypotheses[0] == "guarantee" else "the claim"
    sentence = (
        f"no bound exceeds {limit}; {_pairs(tested)} could have certified up to "
        f"{_largest(largest)}. This attack found no violation; another might."
    )
    return Conclusion("no_violation", None, (sentence,))


def above_zero(estimates: Iterable[Estimate]) -> Estimate | None:
    """The first lower bound above 0: of epsilon, and else of mu."""
    bounds = [one for one in estimates if one.kind == "lower_bound"]
    epsilon = (one for one in bounds if (one.epsilon or 0.0) > 0)
    return next(epsilon, None) or next((one for one in bounds if (one.mu or 0.0) > 0), None)


def sees_something(bound: Estimate) -> Obstacle:
    """Too few trials, of an attack whose controls did not show that it sees anything."""
    what, value = ("epsilon", bound.epsilon) if bound.epsilon else ("mu", bound.mu)
    how = ", if outputs are distributed as declared" if bound.method == "exact" else ""
    return (
        "too_few_trials",
        f"{what} is at least {beside(value, 0.0)[0]} ({bound.method}{how}), above 0, so the attack "
        "may see something of the canary. What decides does not exceed what is claimed, and these "
        "trials do not show whether the true value does. Use more trials.",
    )


def blind_unless(bound: Estimate | None, why: str) -> Obstacle:
    """Nothing shows that an attack sees anything, unless a bound above 0 does."""
    return ("attack_blind", why) if bound is None else sees_something(bound)


def without_blindness(bound: Estimate | None, against: Sequence[Obstacle]) -> tuple[Obstacle, ...]:
    """No attack is blind beside a bound above 0: what is said there is that trials are too few."""
    blind = [at for at, (code, _) in enumerate(against) if code == "attack_blind"]
    if bound is None or not blind:
        return tuple(against)
    instead, first = sees_something(bound), blind[0]
    rest = (one for one in against[first:] if one != instead)
    return (*against[:first], instead, *rest)


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


def score_reading(estimates: Iterable[Estimate]) -> BoundReading:
    by_method = {estimate.method: estimate.counts for estimate in estimates}
    if counts := by_method.get("one_run"):
        return BoundReading("score", "", counts["correct"], counts["guesses"])
    if counts := by_method.get("clopper_pearson"):
        return BoundReading("score", "", counts["tp"] + counts["tn"], sum(counts.values()))
    return BoundReading("score")


UNREJECTED = "Random guessing is not rejected, which does not show that no attack does better"
GOOD = 0.8  # power from which a plan is usually called sufficient


def unshown_sentence(powers: Sequence[tuple[float, float]]) -> str:
    """What a test that has not rejected random guessing leaves open."""
    if not powers:
        return f"{UNREJECTED}: the power of this test is not known for this design."
    weak = [row for row in powers if row[1] < GOOD]
    strong = [row for row in powers if row[1] >= GOOD]
    told = [_chance(*row) for row in (*weak[-1:], *strong[:1])]
    return f"{UNREJECTED}: so many trials reject {', and '.join(told)}."


def _chance(accuracy: float, power: float) -> str:
    return (
        f"an attack that is right {accuracy:.0%} of the time with a probability of at least "
        f"{cut(power)}"
    )
