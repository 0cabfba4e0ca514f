"""Trials scored by any tool: how they were made, and which part of them chooses a threshold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from leakbound.errors import UsageError
from leakbound.estimators.base import PairedScores
from leakbound.stats import BestOnSameData, Bonferroni, Fixed, Split, best_threshold
from leakbound.stats.arrays import Floats
from leakbound.stats.counts.ranked import Ranked
from leakbound.stats.curves.curves import clean_scores

ScoreDesign = Literal["paired", "unpaired", "one_run"]
ScoreRule = Fixed | Split | Bonferroni | BestOnSameData | Ranked
FINITE = 1e300  # replaces infinite scores, between which there is no midpoint
MOST_LEVELS = 15  # thresholds of the e-process: quantiles that are about 6 % of the scores apart


@dataclass(frozen=True, slots=True, repr=False)
class ScoredTrials:
    """Scores of member and non-member trials, higher for members.

    Args:
        member: (n,) scores of trials with the record.
        nonmember: (m,) scores of trials without it; m = n in a paired design.
        design: "paired": trial i of both sides belongs to one pair, and pairs are independent.
            "unpaired": all trials are independent, and identically distributed on each side.
            "one_run": all scores come from one system, into which each record was put by an
            independent fair coin.
        in_order: Whether scores are in the order in which the trials were made. Otherwise they are
            shuffled, because tools may sort scores, and a sorted order reveals the next score.

    Raises:
        UsageError: If a side has no score, one is NaN, or paired sides differ in length.
    """

    member: Floats
    nonmember: Floats
    design: ScoreDesign = "unpaired"
    in_order: bool = False

    def __post_init__(self) -> None:
        if self.design not in get_args(ScoreDesign):
            known = ", ".join(get_args(ScoreDesign))
            raise UsageError(f"design is {self.design!r}; it must be one of {known}.")
        for name in ("member", "nonmember"):
            found = clean_scores(name, getattr(self, name)).clip(-FINITE, FINITE)
            object.__setattr__(self, name, found)
        if self.design == "paired" and len(self.member) != len(self.nonmember):
            raise UsageError(
                f"there are {len(self.member)} member and {len(self.nonmember)} non-member scores; "
                "paired trials have one of each per pair. Use --design unpaired if the trials are "
                "not paired."
            )
        if self.design == "one_run" and self.in_order:
            raise UsageError("one_run has no order of trials; remove --in-order.")

    def shuffled(self, seed: int) -> ScoredTrials:
        """The trials in an order that depends on no score. Pairs stay together in a paired design,
        and trials in order are unchanged."""
        if self.in_order:
            return self
        rng = np.random.default_rng(seed)
        member = rng.permutation(len(self.member))
        other = member if self.design == "paired" else rng.permutation(len(self.nonmember))
        return replace(self, member=self.member[member], nonmember=self.nonmember[other])

    def divided(self, fraction: float) -> tuple[ScoredTrials, ScoredTrials]:
        """Split each side into its first trials and all others.

        Args:
            fraction: Share of the first part, in (0, 1).

        Returns:
            Both parts.

        Raises:
            UsageError: If a part of a side would be empty.
        """
        first, other = (int(fraction * len(side)) for side in (self.member, self.nonmember))
        if not (first and other):
            raise UsageError(
                f"{len(self.member)} member and {len(self.nonmember)} non-member scores leave none "
                f"to choose a threshold on (a share of {fraction:g}); give --threshold, a number "
                "that was fixed beforehand."
            )
        held = replace(self, member=self.member[:first], nonmember=self.nonmember[:other])
        rest = replace(self, member=self.member[first:], nonmember=self.nonmember[other:])
        return held, rest

    @property
    def swapped(self) -> ScoredTrials:
        """The trials with members and non-members exchanged, as a two-sided test needs them."""
        return replace(self, member=self.nonmember, nonmember=self.member)

    @property
    def sizes(self) -> tuple[int, int]:
        """(member trials, non-member trials)."""
        return len(self.member), len(self.nonmember)

    @property
    def pairs(self) -> PairedScores:
        """One trial of each side per pair; as many pairs as the shorter side has trials."""
        most = min(self.sizes)
        return PairedScores(self.member[:most], self.nonmember[:most])


@dataclass(frozen=True, slots=True)
class ChosenThreshold:
    """The threshold that scores are compared with."""

    tau: float | None
    levels: tuple[float, ...]
    text: str


def choose_threshold(
    trials: ScoredTrials, rule: Fixed | Split | Bonferroni
) -> tuple[ChosenThreshold, ScoredTrials]:
    """Choose a threshold, and remove the trials that chose it.

    Guarantee: the threshold does not depend on any returned trial.
    """
    if isinstance(rule, Fixed):
        return ChosenThreshold(rule.value, (rule.value,), str(rule)), trials
    if isinstance(rule, Bonferroni):
        if not rule.values:
            raise UsageError("bonferroni needs its thresholds, such as --threshold 0.2,0.5,0.8.")
        return ChosenThreshold(None, tuple(sorted(rule.values)), str(rule)), trials
    held, rest = trials.divided(rule.fraction)
    tau = best_threshold(held.member, held.nonmember)
    text = (
        f"split: {tau:g}, chosen on {len(held.member)} member and {len(held.nonmember)} non-member "
        "scores, which enter no bound"
    )
    return ChosenThreshold(tau, _levels(held, tau), text), rest


def _levels(held: ScoredTrials, tau: float) -> tuple[float, ...]:
    """Thresholds between held-out scores, spaced by quantiles."""
    values = np.sort(np.concatenate([held.member, held.nonmember]))
    at = np.unique(np.linspace(0, values.size - 1, MOST_LEVELS + 1).astype(int))
    between = (values[at][1:] + values[at][:-1]) / 2
    return tuple(np.unique(np.append(between, tau)).tolist())
