"""The e-process of a system that is read channel by channel: each channel, and all together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from leakbound.estimators.base import Bounds, Estimator, Observations, Reads, TrialDesign
from leakbound.estimators.e_process import EProcess, EValues, Replayed, both_bounds
from leakbound.stats import BoundReading, Estimate, Kind, Power
from leakbound.stats.e_values.mixture import MixedEProcess
from leakbound.tasks import ANSWER

CONTAINED = (0.5,)  # threshold of the score of a text, which is whether it contains the canary


@dataclass(frozen=True, slots=True)
class ByChannel(Estimator):
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
    kind: ClassVar[Kind] = "lower_bound"
    anytime: ClassVar[bool] = True
    simultaneous: ClassVar[bool] = False
    reads: ClassVar[frozenset[Reads]] = frozenset({"trials", "chances", "replies", "channels"})

    def begin(self, design: TrialDesign) -> ChannelEValues:
        """E-processes before the first pair."""
        return ChannelEValues(design)

    def largest_certifiable(self, design: TrialDesign, pairs: int) -> Bounds:
        """The bounds if every reply tells the contexts apart, in one channel only."""
        return EProcess().largest_certifiable(channel_design(design), pairs)

    def power(self, design: TrialDesign, pairs: int, leak: float) -> Power | None:
        """Probability of a rejection if the answer leaks, as given by `EProcess.power`."""
        return EProcess().power(channel_design(design), pairs, leak)

    def pairs_needed(self, design: TrialDesign) -> int | None:
        """Smallest number of tested pairs for which a perfect attack on one channel rejects."""
        return EProcess().pairs_needed(channel_design(design))


def channel_design(design: TrialDesign, name: str = ANSWER) -> TrialDesign:
    """Design of the trials for one channel."""
    shares = max(1, len(design.channels))
    confidence = 1 - (1 - design.confidence) / shares
    own = replace(design, channels=(), replies=True, confidence=confidence)
    if name == ANSWER:
        return own
    return replace(own, levels=CONTAINED, noise_levels=(), known=None)


class ChannelEValues:
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

    @property
    def rejected(self) -> bool:
        """Whether the mean of the e-values has ever reached 1/alpha."""
        return self.process.rejected

    def bounds(self) -> tuple[Estimate, Estimate]:
        """Lower bounds on epsilon(delta) and on mu for all channels together."""
        return both_bounds(self)

    def reading(self, replay: Replayed) -> BoundReading:
        """What carries the evidence against one claim, in the channel that carries most of it."""
        name = self.process.leading(replay)
        return replace(self.parts[name].reading(replay), channel=name)
