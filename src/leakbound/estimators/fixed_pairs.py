"""Error counts and whole replies together, for a number of pairs that is fixed beforehand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from leakbound.estimators.base import Bounds, Observations, Observer, Reads, TrialDesign
from leakbound.estimators.error_counts import Unconditional
from leakbound.estimators.witness import WitnessEvidence
from leakbound.stats import Estimate, Power
from leakbound.stats.e_values.mixture import MixedEProcess

SCORE = 0.8  # share of the error that counts of the score have where replies are read too
EQUAL = "all pairs have the same two rates, and their number was fixed before the first call"


@dataclass(frozen=True)
class FixedPairs(Unconditional):
    """Bounds for a number of pairs that is fixed beforehand, from error counts and whole replies.

    Four fifths of the error are spent on the counts of the score (`unconditional`), and a fifth on
    the learned witness; all of it on the counts where replies say no more than their answer. At
    high rates the bounds are larger than those of `e_process`, which hold at any time; no pair may
    be added later.

    Guarantee: the bound on epsilon holds with the stated confidence, for a number of pairs fixed
    beforehand and equal rates of all pairs.
    Reference: Barnard 1947; Buehler 1957; Ville 1939.
    """

    name: ClassVar[str] = "fixed_pairs"
    reads: ClassVar[frozenset[Reads]] = frozenset({"trials", "replies"})

    def begin(self, design: TrialDesign) -> Observer:  # type: ignore[override]
        counts = super().begin(_of_score(design))
        return _ScoreAndReplies(design, counts) if design.replies else counts

    def largest_certifiable(self, design: TrialDesign, pairs: int) -> Bounds:
        return super().largest_certifiable(_of_score(design), pairs)

    def power(self, design: TrialDesign, pairs: int, leak: float) -> Power | None:
        return super().power(_of_score(design), pairs, leak)

    def pairs_needed(self, design: TrialDesign) -> int | None:
        return super().pairs_needed(_of_score(design))


def _of_score(design: TrialDesign) -> TrialDesign:
    """The design with the share of the error that the score has."""
    error = (1 - design.confidence) * (SCORE if design.replies else 1.0)
    return replace(design, confidence=1 - error)


class _ScoreAndReplies:
    """Counts of the score, and the witness beside them."""

    process = None

    rejected = False

    def __init__(self, design: TrialDesign, counts: Observer) -> None:
        self.design, self._counts = design, counts
        self._witness = WitnessEvidence(design, design.tested, 1.0)
        error = (1 - SCORE) * (1 - design.confidence)
        self._replies = MixedEProcess(design.tested, {"witness": (1.0, self._witness)}, 1 - error)

    def observe(self, observations: Observations) -> None:
        self._counts.observe(observations)
        for replies, canary in (observations.reply_pairs or ())[
            observations.after(self.design.pilot)
        ]:
            self._witness.observe(replies, canary)

    def bounds(self) -> tuple[Estimate, ...]:
        """Those of what shows more."""
        found = self._counts.bounds()
        if not found:
            return ()
        epsilon, *others = found
        replies = self._replies.epsilon_lower_bound(self.design.claim.delta)
        if (replies.epsilon or 0.0) > (epsilon.epsilon or 0.0):
            epsilon = replace(replies, reading=self._witness.reading())
        epsilon = replace(epsilon, assumptions=(EQUAL, *epsilon.assumptions))
        return tuple(replace(one, confidence=self.design.confidence) for one in (epsilon, *others))
