"""What could have been certified, as a whole and by channel, and what is said of each channel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from leakbound.attacks import Attack
from leakbound.auditing.decide.obstacles import blind_sentence, only_in_bulk, unread
from leakbound.auditing.decide.verdict import Obstacle, Reason, Verdict, above_zero, conclude
from leakbound.auditing.observe.controls import ControlCheck, StoredBatch, replies_in
from leakbound.auditing.observe.one_pass import OnePass
from leakbound.auditing.observe.reply_separation import Separations, separates_alone
from leakbound.estimators import Bounds, EProcess, Estimator, TrialDesign
from leakbound.estimators.base import exceeds
from leakbound.estimators.e_process import ChannelEValues, channel_design
from leakbound.estimators.witness import reach_of_replies
from leakbound.stats import Estimate
from leakbound.tasks import ANSWER

# A few replies that come again are known by heart, and those of other pairs vary: a witness learns
# from twice as many what it learns from these.
LEARNED = 2
REPLIES = (
    "only measurements of whole replies (their length, wording, failures) showed the control "
    "canaries, and the score of the attack did not. What could be certified is what they certify "
    "if the replies of every pair differ as those of the controls do."
)
TOLD = (
    "measurements of whole replies (their length, wording, failures) tell the contexts of the "
    "pairs apart better than the score of the attack does. What could be certified is no more than "
    "what they certify if the replies of every pair differ as those of the controls do, and than "
    "what half as many pairs certify that differ as those that they tell apart."
)


def reach_sentence(verdict: Verdict, controls: ControlCheck, told: Separations) -> tuple[str, ...]:
    """What a verdict says of replies that show more than the score of the attack."""
    if verdict == "violation":
        return ()
    return (REPLIES,) if controls.by_replies_alone else (TOLD,) if separates_alone(told) else ()


def must_learn(seen: OnePass, controls: ControlCheck) -> bool:
    """Is there a channel whose control no score showed, so that a witness has to learn it?"""
    each = seen.channel_controls().values() if seen.design.channels else (controls,)
    return any(one.by_replies_alone for one in each)


def largest_of(
    seen: OnePass, controls: ControlCheck, told: Separations, bounds: Sequence[Estimate]
) -> Bounds:
    """The largest bounds that the pairs of an audit can certify; no less than they do certify, as
    replies may show more than a perfect score."""
    batch, design, estimator = seen.control_batch(), seen.design, seen.prepared.estimator
    if design.channels and batch:
        # that of the channel which can certify least, since a leak may be in it; 0 if none showed
        # the control or told the pairs apart
        each = [
            largest_seen(
                channel_design(design, name), EProcess(), seen.seen, check, batch, told, name
            )
            for name, check in seen.channel_controls().items()
            if check.seen or name in told
        ]
        found = min(each, key=lambda one: one.epsilon, default=Bounds(0.0, 0.0))
    else:
        found = largest_seen(design, estimator, seen.seen, controls, batch, told)
    epsilon = max([found.epsilon, *(one.epsilon or 0.0 for one in bounds)])
    mu = None if found.mu is None else max([found.mu, *(one.mu or 0.0 for one in bounds)])
    return Bounds(epsilon, mu)


def largest_seen(
    design: TrialDesign, estimator: Estimator, pairs: int, check: ControlCheck, batch: StoredBatch,
    told: Separations, name: str = ANSWER,
) -> Bounds:  # fmt: skip
    """The largest bounds that so many pairs can certify."""
    perfect = estimator.largest_certifiable(design, pairs)
    shown = told[name].shown if name in told else None
    reads = design.replies and "replies" in estimator.reads
    if not (reads and (check.by_replies_alone or shown is not None)):
        return perfect
    controls, found = replies_in(batch, name), list[Bounds]()
    if controls:
        found.append(reach_of_replies(design, estimator, pairs, controls))
    if shown is not None:
        fewer = pairs // LEARNED
        found.append(reach_of_replies(replace(design, pairs=fewer), estimator, fewer, shown))
    known = found if check.by_replies_alone else [perfect, *found]
    return min(known, key=lambda one: one.epsilon)


def channel_results(
    design: TrialDesign, seen: ChannelEValues, checks: Mapping[str, ControlCheck],
    batch: StoredBatch, tested: int, attack: Attack, against: Sequence[Obstacle],
    told: Separations,
) -> tuple[ChannelResult, ...]:  # fmt: skip
    """What is said of each channel."""
    own, estimator = channel_design(design), EProcess()
    found = []
    for name, part in seen.parts.items():
        check = checks.get(name, ControlCheck(0, None))
        # the bound on mu costs as much as that on epsilon, and few systems state a mu
        bounds = (
            (part.process.epsilon_lower_bound(own.claim.delta),)
            if own.guarantee_mu is None
            else part.bounds()
        )
        its = channel_design(design, name)
        largest = largest_seen(its, estimator, tested, check, batch, told, name)
        its_told = {name: told[name]} if name in told else {}
        why = (
            *against,
            *blind_sentence(attack, check, above_zero(bounds)),
            *unread(its_told, estimator, its.replies, exceeds(largest, own)),
            *only_in_bulk(attack, check, separates_alone(its_told)),
        )
        slow = check.by_replies_alone or separates_alone(its_told)
        said = conclude(own, estimator, bounds, None, tested, largest, why, by_replies=slow)
        at = part.process.rejected_at
        found.append(ChannelResult(name, said.verdict, said.reason, bounds[0], at, check))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class ChannelResult:
    """What one channel of a system shows."""

    name: str
    verdict: Verdict
    reason: Reason | None
    bound: Estimate
    rejected_at: int | None
    controls: ControlCheck
