"""A verdict from scores of any tool: one bound, chosen beforehand, against a claim."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from leakbound.auditing.decide.verdict import (
    Conclusion,
    Obstacle,
    above_zero,
    sees_something,
    unshown_sentence,
)
from leakbound.auditing.observe.controls import LEVEL
from leakbound.auditing.observe.rejections import above_guessing
from leakbound.estimators import Claim
from leakbound.estimators.random_guessing import is_random_guessing, random_guessing
from leakbound.estimators.score_bounds import DecidingName, ScoreBounds, ScoredTrials
from leakbound.stats import Estimate, beside, cut, rank_test


@dataclass(frozen=True, slots=True)
class Seen:
    """Whether anything shows that an attack sees a leak where there is one."""

    p_value: float
    controls: bool = False


def seen_by(
    trials: ScoredTrials, controls: ScoredTrials | None = None, two_sided: bool = False
) -> Seen:
    """Test whether an attack sees anything."""
    asked = trials if controls is None else controls
    p_value = rank_test(asked.member.tolist(), asked.nonmember.tolist(), two_sided)
    return Seen(p_value, controls is not None)


def conclude_scores(
    found: ScoreBounds, method: DecidingName, claim: Claim, seen: Seen
) -> Conclusion:
    """Hold the bound of one method against a claim."""
    bound, most = found.estimate(method), found.largest(method)
    epsilon = bound.epsilon or 0.0
    if epsilon > claim.epsilon:
        return Conclusion("violation", None, (_above(epsilon, method, claim, found.confidence),))
    against = (*_few(most, claim, found), *_blind(seen, above_zero((bound, *found.estimates))))
    if against:
        return Conclusion("inconclusive", against[0][0], tuple(why for _, why in against))
    sentence = (
        f"the bound {cut(epsilon)} ({method}) does not exceed {_name_of(claim)}; these trials "
        f"could have certified up to epsilon {cut(most)}. This attack found no violation; another "
        "might."
    )
    return Conclusion("no_violation", None, (sentence,))


def conclude_guessing(
    sides: tuple[ScoreBounds, ScoreBounds],
    method: DecidingName,
    seen: Seen,
    powers: Sequence[tuple[float, float]] = (),
) -> Conclusion:
    """Is an attack better, or worse, than random guessing?"""
    claim = random_guessing()
    for side, found in zip(("higher", "lower"), sides, strict=True):
        epsilon = found.estimate(method).epsilon or 0.0
        if epsilon > 0:
            error = 2 * (1 - found.confidence)
            what = above_guessing(epsilon, method, error, f"members score {side}")
            return Conclusion("violation", None, (what,))
    said = conclude_scores(sides[0], method, claim, seen)
    if said.verdict != "no_violation":
        return said
    return replace(said, sentences=(*said.sentences, unshown_sentence(powers)))


def _name_of(claim: Claim) -> str:
    if is_random_guessing(claim):
        return "epsilon 0, which is random guessing"
    return f"the claimed epsilon {claim.epsilon:g}"


def _above(epsilon: float, method: str, claim: Claim, confidence: float) -> str:
    shown, _ = beside(epsilon, claim.epsilon)
    return (
        f"the bound {shown} ({method}) exceeds {_name_of(claim)}: a system that satisfies the "
        f"claim shows this with a probability of at most {1 - confidence:.2g}."
    )


def _few(most: float, claim: Claim, found: ScoreBounds) -> Iterator[Obstacle]:
    if most <= claim.epsilon:
        counts = found.counts
        yield (
            "too_few_trials",
            f"{counts['tested_member']} member and {counts['tested_nonmember']} non-member trials "
            f"can certify at most epsilon {cut(most)}, even with a perfect attack; the claim is "
            f"{claim.epsilon:g}. Use more trials.",
        )


def _blind(seen: Seen, bound: Estimate | None) -> Iterator[Obstacle]:
    if seen.p_value <= LEVEL:
        return
    if bound is not None:
        yield sees_something(bound)
        return
    advice = (
        "The controls do not differ either: use another attack."
        if seen.controls
        else "Give the scores of a positive control, a system that leaks for certain, with "
        "--controls."
    )
    yield (
        "attack_blind",
        "nothing shows that this attack sees anything: members and non-members do not clearly "
        f"differ (p = {seen.p_value:.2g}). {advice}",
    )
