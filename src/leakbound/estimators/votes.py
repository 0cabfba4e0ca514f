"""Bounds from vote counts before noise, with known noise. No noise is sampled (internal access).

The statistic of a pair is the margin "votes for the canary-in answer minus those for the canary-out
answer". It sees votes, not the sampler, so it assumes that the noise is as declared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from leakbound.errors import UsageError
from leakbound.estimators.base import (
    Bounds,
    Estimator,
    Observations,
    PairedScores,
    Reads,
    TrialDesign,
    require_fixed_size,
)
from leakbound.privacy import gdp_epsilon
from leakbound.stats import Estimate, Kind, cut, vote_band
from leakbound.stats.noise.votes import epsilon_in_reach

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class VoteBand(Estimator):
    """Bounds on epsilon and mu from simultaneous limits of P(votes >= j).

    Guarantee: both bounds hold together with the stated confidence, for a number of pairs fixed
    beforehand, if the noise is Gaussian with the declared scale.
    Reference: leakbound; Clopper and Pearson 1934 for each limit.
    """

    name: ClassVar[str] = "vote_band"
    kind: ClassVar[Kind] = "lower_bound"
    anytime: ClassVar[bool] = False
    simultaneous: ClassVar[bool] = True
    reads: ClassVar[frozenset[Reads]] = frozenset({"votes"})

    def check(self, design: TrialDesign) -> None:
        """Refuse designs without votes for two answers under known noise, and early stopping.

        Args:
            design: Design of the trials.

        Raises:
            UsageError: If the design has several outputs per trial or no votes, or if no votes
                could exceed the guarantee.
        """
        require_fixed_size(self, design)
        _require_votes(self.name, design)

    def begin(self, design: TrialDesign) -> _Margins:
        """An observer that keeps the vote margins.

        Args:
            design: Design of the trials.

        Returns:
            An observer with a single estimate, which bounds epsilon and mu.
        """
        return _Margins(design)

    def tested_pairs(self, design: TrialDesign, pairs: int) -> int:
        """All pairs, because votes need no threshold and train no score.

        Args:
            design: Design of the trials.
            pairs: Number of collected pairs.

        Returns:
            The same number.
        """
        return pairs

    def largest_certifiable(self, design: TrialDesign, pairs: int) -> Bounds:
        """The bounds if all votes flip with the canary, as in a system without partitions.

        In a correct mechanism the canary can move only one vote, and the bound from one vote
        approaches the guarantee from below. A violation moves more votes.

        Args:
            design: Design of the trials.
            pairs: Number of collected pairs.

        Returns:
            Bounds of votes that are all for the canary-in answer or all against it.
        """
        return _perfect(design, pairs)


class _Margins:
    """The vote margins of one audit."""

    rejected = False

    def __init__(self, design: TrialDesign) -> None:
        self._design = design
        self._seen: list[PairedScores] = []

    def observe(self, observations: Observations) -> None:
        """Keep the margins of the next pairs."""
        self._seen.append(observations.votes)

    def bounds(self) -> tuple[Estimate, ...]:
        """Bounds on epsilon and mu, in one estimate."""
        if not self._seen:
            return ()
        member = np.concatenate([part.member for part in self._seen])
        nonmember = np.concatenate([part.nonmember for part in self._seen])
        return (_estimate(member, nonmember, self._design),)


def _estimate(member: Floats, nonmember: Floats, design: TrialDesign) -> Estimate:
    voters, sigma = _votes_of(design)
    return vote_band(
        member + voters, nonmember + voters, 2 * voters, sigma * math.sqrt(2),
        design.claim.delta, design.confidence,
    )  # fmt: skip


def _perfect(design: TrialDesign, pairs: int) -> Bounds:
    if pairs < 1:
        return Bounds(0.0, 0.0)
    voters, _ = _votes_of(design)
    all_for, none_for = np.full(pairs, float(voters)), np.full(pairs, -float(voters))
    found = _estimate(all_for, none_for, design)
    return Bounds(found.epsilon or 0.0, found.mu or 0.0)


def _votes_of(design: TrialDesign) -> tuple[int, float]:
    """(voters, noise on one count)."""
    if design.voters is None or design.sigma is None:
        raise UsageError("the design has no votes under known noise; use --estimator e_process.")
    return design.voters, design.sigma


def _require_votes(name: str, design: TrialDesign) -> None:
    if design.answers > 1:
        raise UsageError(
            f"{name} needs one output per trial; use --answers 1, or --estimator e_process."
        )
    if design.sigma is None or design.voters is None or not design.two_answers:
        raise UsageError(
            f"{name} needs votes under Gaussian noise and a query with two answers; use it with "
            "the mechanism report_noisy_max and the query membership or if_then_explicit, or use "
            "--estimator e_process."
        )
    _require_a_crowd(name, design, design.voters * math.sqrt(2) / design.sigma)


def _require_a_crowd(name: str, design: TrialDesign, most: float) -> None:
    """`most` is mu if all votes flip. The guarantee is derived from the flip of one vote."""
    delta, claim = design.claim.delta, design.claim.epsilon
    if delta == 0:
        _require_reach(name, claim, epsilon_in_reach(most))
        return
    known = gdp_epsilon(most, delta)
    margin = 1 + 1e-9  # a calibrated guarantee equals the claim up to rounding
    if known <= claim * margin and most <= (design.guarantee_mu or 0.0) * margin:
        raise UsageError(
            f"{name} assumes the declared noise, under which no vote of {design.voters} can exceed "
            "the guarantee; use more partitions, or --estimator e_process."
        )


def _require_reach(name: str, claim: float, most: float) -> None:
    """`most` is the largest epsilon at delta 0 that any number of pairs certifies if all flip."""
    if most <= claim:
        raise UsageError(
            f"{name} certifies at most epsilon {cut(most)} at delta 0 under this noise, with any "
            f"number of pairs, and the claim is {claim:g}; give a delta above 0, or use "
            "--estimator e_process."
        )
