"""The e-process of a system that is read channel by channel: each channel, and all together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from leakbound.estimators.base import Observations, Reads, TrialDesign
from leakbound.estimators.e_process import EValues, PairedEValues, Replayed, SequentialTest
from leakbound.stats import BoundReading
from leakbound.stats.e_values.mixture import MixedEProcess
from leakbound.tasks import ANSWER

CONTAINED = (0.5,)  # threshold of the score of a text, which is whether it contains the canary


@dataclass(frozen=True, slots=True)
class ByChannel(SequentialTest):
    """Tests every channel with a separate e-process, and all channels together by their mean.

    With k channels, the e-value of a single channel rejects at k/alpha, so the statements about
    all single channels hold together. The mean of the e-values rejects at 1/alpha. It rejects no
    later than any channel, and earlier if several channels leak.

    Guarantee: the bound for all channels holds with the stated confidence at any stopping time, and
        so do the bounds for the single channels simultaneously, for any dependence between
        channels.
    Reference: Vovk and Wang, "E-values: calibration, combination and applications" (Annals of
        Statistics 2021); Bonferroni.
    """

    name: ClassVar[str] = "by_channel"
    reads: ClassVar[frozenset[Reads]] = SequentialTest.reads | {"channels"}

    def begin(self, design: TrialDesign) -> ChannelEValues:
        """E-processes before the first pair."""
        return ChannelEValues(design)

    def single(self, design: TrialDesign) -> TrialDesign:
        """Design of the trials of one channel: that of the answer."""
        return channel_design(design)


def channel_design(design: TrialDesign, name: str = ANSWER) -> TrialDesign:
    """Design of the trials for one channel."""
    shares = max(1, len(design.channels))
    confidence = 1 - (1 - design.confidence) / shares
    own = replace(design, channels=(), replies=True, confidence=confidence)
    if name == ANSWER:
        return own
    return replace(own, levels=CONTAINED, noise_levels=(), known=None)


class ChannelEValues(PairedEValues):
    """The e-processes of one audit, by channel."""

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
        """Update each channel with its part of the next pairs."""
        for name, part in self.parts.items():
            part.observe(observations.channels[name])

    def reading(self, replay: Replayed) -> BoundReading:
        """What carries the evidence against one claim, in the channel that carries most of it."""
        name = self.process.leading(replay)
        return replace(self.parts[name].reading(replay), channel=name)
