"""The e-process of a system that is read channel by channel: each apart, and all together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from leakbound.estimators.base import Bounds, Estimator, Observations, Reads, TrialDesign
from leakbound.estimators.e_process import EProcess, EValues, both_bounds
from leakbound.stats import Estimate, Kind, Power
from leakbound.stats.mixture import MixedEProcess
from leakbound.tasks import ANSWER

__all__ = ["ByChannel", "ChannelEValues", "channel_design"]

CONTAINED = (0.5,)  # threshold of the score of a text: the canary stands in it, or does not


@dataclass(frozen=True, slots=True)
class ByChannel(Estimator):
    """Tests every channel by an e-process of its own, and all together by their mean.

    With k channels, the e-value of a channel rejects at k/alpha, so that all statements on single
    channels hold together. The mean of the e-values rejects at 1/alpha: no later than any channel,
    and sooner where several leak.

    Guarantee: the bound of all channels holds with the stated confidence at any stopping time, and
        so do those of the single channels, all at once, however channels depend on each other.
    Reference: Vovk and Wang, "E-values: calibration, combination and applications" (Annals of
        Statistics 2021); Bonferroni.
    """

    name: ClassVar[str] = "by_channel"
    kind: ClassVar[Kind] = "lower_bound"
    anytime: ClassVar[bool] = True
    simultaneous: ClassVar[bool] = False
    reads: ClassVar[frozenset[Reads]] = frozenset({"trials", "chances", "replies", "channels"})

    def begin(self, design: TrialDesign) -> ChannelEValues:
        """E-processes before the first pair.

        Args:
            design: What is known beforehand.

        Returns:
            An observer; its bounds are those of all channels together.
        """
        return ChannelEValues(design)

    def largest_certifiable(self, design: TrialDesign, pairs: int) -> Bounds:
        """The bounds where every reply tells the contexts apart, in one channel alone.

        Args:
            design: What is known beforehand.
            pairs: Collected pairs.

        Returns:
            Bounds of one channel.
        """
        return EProcess().largest_certifiable(channel_design(design), pairs)

    def power(self, design: TrialDesign, pairs: int, leak: float) -> Power | None:
        """Probability of a rejection where the answer leaks, as `EProcess.power` states it.

        Args:
            design: What is known beforehand.
            pairs: Collected pairs.
            leak: True leakage in units of what is tested.

        Returns:
            A probability; None where no formula is known.
        """
        return EProcess().power(channel_design(design), pairs, leak)

    def pairs_needed(self, design: TrialDesign) -> int | None:
        """Fewest tested pairs with which a perfect attack on one channel rejects.

        Args:
            design: What is known beforehand.

        Returns:
            A number of pairs; None beyond a few thousand.
        """
        return EProcess().pairs_needed(channel_design(design))


def channel_design(design: TrialDesign, name: str = ANSWER) -> TrialDesign:
    """What is known beforehand of one channel.

    Args:
        design: What is known of all of them.
        name: The channel.

    Returns:
        A design with this channel's share of the error probability.
    """
    shares = max(1, len(design.channels))
    confidence = 1 - (1 - design.confidence) / shares
    own = replace(design, channels=(), replies=True, confidence=confidence)
    if name == ANSWER:
        return own
    return replace(own, levels=CONTAINED, noise_levels=(), known=None)


class ChannelEValues:
    """The e-processes of one audit, by channel.

    Args:
        design: What is known beforehand; without channels, the answer is the only one.

    Attributes:
        parts: The e-process of each channel, by its name.
    """

    def __init__(self, design: TrialDesign) -> None:
        self.design = design
        names = design.channels or (ANSWER,)
        self.parts = {name: EValues(channel_design(design, name)) for name in names}

    @property
    def process(self) -> MixedEProcess:
        """The mean of the e-values of all channels."""
        share = 1 / len(self.parts)
        parts = {name: (share, part.process) for name, part in self.parts.items()}
        return MixedEProcess(self.design.tested, parts, self.design.confidence)

    def observe(self, observations: Observations) -> None:
        """Let each channel see its side of the next pairs.

        Args:
            observations: Pairs in their order.
        """
        for name, part in self.parts.items():
            part.observe(observations.channels[name])

    @property
    def rejected(self) -> bool:
        """Has the mean of the e-values ever reached 1/alpha?"""
        return self.process.rejected

    def bounds(self) -> tuple[Estimate, Estimate]:
        """Lower bounds on epsilon(delta) and on mu of all channels together.

        Returns:
            Two bounds, each valid at any stopping time at the stated confidence.
        """
        return both_bounds(self.process, self.design.claim.delta)
