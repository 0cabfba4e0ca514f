"""What could have been certified, by what showed the control canaries: the score, or replies."""

from __future__ import annotations

from collections.abc import Mapping

from leakbound.auditing.channels import StoredBatch, replies_in
from leakbound.auditing.controls import ControlCheck
from leakbound.estimators import Bounds, EProcess, Estimator, TrialDesign
from leakbound.estimators.by_channel import channel_design
from leakbound.estimators.reach import reach_of_replies
from leakbound.tasks import ANSWER

__all__ = ["largest_by_channel", "largest_seen"]


def largest_seen(
    design: TrialDesign, estimator: Estimator, pairs: int, check: ControlCheck, batch: StoredBatch,
    name: str = ANSWER,
) -> Bounds:  # fmt: skip
    """The largest bounds that so many pairs can certify.

    Args:
        design: What was known beforehand.
        estimator: What decides.
        pairs: Number of collected pairs.
        check: What the control pairs showed.
        batch: These pairs with their aggregates (PRIVATE).
        name: The channel.

    Returns:
        What a perfect attack certifies; where replies alone showed the control and its score did
        not, what they certify if those of every pair differ as those of the controls do.
    """
    if not check.by_replies_alone:
        return estimator.largest_certifiable(design, pairs)
    return reach_of_replies(design, estimator, pairs, replies_in(batch, name))


def largest_by_channel(
    design: TrialDesign, pairs: int, checks: Mapping[str, ControlCheck], batch: StoredBatch
) -> Bounds:
    """The largest bounds that so many pairs can certify in each channel that shows the control.

    Args:
        design: What was known beforehand, with its channels.
        pairs: Number of collected pairs.
        checks: What the control pairs showed in each channel.
        batch: These pairs with their aggregates (PRIVATE).

    Returns:
        Bounds of the channel that can certify least, since a leak may be in that one; 0 if no
        channel showed the control.
    """
    found = [
        largest_seen(channel_design(design, name), EProcess(), pairs, check, batch, name)
        for name, check in checks.items()
        if check.seen
    ]
    return min(found, key=lambda one: one.epsilon, default=Bounds(0.0, 0.0))
