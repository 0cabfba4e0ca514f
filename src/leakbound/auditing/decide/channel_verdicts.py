"""What an audit says of each channel of a system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leakbound.attacks import Attack
from leakbound.auditing.decide.largest_certifiable import largest_seen
from leakbound.auditing.decide.obstacles import blind_sentence, only_in_bulk, unread
from leakbound.auditing.decide.verdict import Obstacle, Reason, Verdict, above_zero, conclude
from leakbound.auditing.observe.channels import StoredBatch
from leakbound.auditing.observe.controls import ControlCheck
from leakbound.auditing.observe.reply_separation import Separations, separates_alone
from leakbound.estimators import EProcess, TrialDesign
from leakbound.estimators.base import exceeds
from leakbound.estimators.by_channel import ChannelEValues, channel_design
from leakbound.stats import Estimate


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
