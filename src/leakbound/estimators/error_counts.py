"""Error counts of single outputs at one threshold, shared by the estimators of error rates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leakbound.errors import UsageError
from leakbound.estimators.base import Observations, PairedScores, TrialDesign
from leakbound.stats import BestOnSameData, Bonferroni, Fixed, best_threshold


@dataclass(frozen=True, slots=True)
class ErrorCounts:
    """Right and wrong guesses at one threshold."""

    tp: int
    fn: int
    fp: int
    tn: int
    threshold: str

    @property
    def cells(self) -> tuple[int, int, int, int]:
        """(tp, fn, fp, tn)."""
        return self.tp, self.fn, self.fp, self.tn

    @property
    def guesses(self) -> tuple[int, int]:
        """(right guesses, all guesses)."""
        return self.tp + self.tn, sum(self.cells)


class TrialLog:
    """The scores of all trials, and the simulated scores of the pairs that choose a threshold."""

    rejected = False

    def __init__(self, design: TrialDesign) -> None:
        self.design, self._choosing = design, design.threshold_pairs(design.pairs)
        self._trials: list[PairedScores] = []
        self._simulated: list[PairedScores] = []

    def observe(self, observations: Observations) -> None:
        """Keep the scores of the next pairs."""
        self._trials.append(observations.trials)
        left = self._choosing - observations.first
        if left > 0:
            self._simulated.append(observations.simulated.part(slice(left)))

    @property
    def trials(self) -> PairedScores:
        """(pairs,) scores of all trials so far."""
        return _joined(self._trials)

    @property
    def tested(self) -> PairedScores:
        """Scores of the trials after those that train the score or choose its threshold."""
        return self.trials.part(slice(self._first_tested(len(self.trials)), None))

    def counts(self) -> ErrorCounts | None:
        """Errors at the threshold of the design's rule."""
        rule, trials = self.design.rule, self.trials
        if isinstance(rule, BestOnSameData):
            tau = best_threshold(trials.member, trials.nonmember)
            return _count(trials, tau, f"{rule} (tau = {tau:g})")
        if isinstance(rule, Fixed):
            return _count(self.tested, rule.value, str(rule))
        chosen = self.design.threshold_pairs(len(trials))
        if chosen < 1:
            return None
        pilot = _joined(self._simulated).part(slice(chosen))
        tau = best_threshold(pilot.member, pilot.nonmember)
        return _count(self.tested, tau, f"{rule} (tau = {tau:g})")

    def _first_tested(self, pairs: int) -> int:
        return max(self.design.threshold_pairs(pairs), self.design.pilot)


def _joined(parts: list[PairedScores]) -> PairedScores:
    """Concatenate all parts, in place."""
    if len(parts) > 1:
        member = np.concatenate([part.member for part in parts])
        nonmember = np.concatenate([part.nonmember for part in parts])
        parts[:] = [PairedScores(member, nonmember)]
    return parts[0] if parts else PairedScores(np.zeros(0), np.zeros(0))


def _count(trials: PairedScores, tau: float, threshold: str) -> ErrorCounts | None:
    if not len(trials):
        return None
    tp, fp = int((trials.member >= tau).sum()), int((trials.nonmember >= tau).sum())
    return ErrorCounts(tp, len(trials) - tp, fp, len(trials) - fp, threshold)


def counted_pairs(design: TrialDesign, pairs: int) -> int:
    """Number of pairs that enter the counts."""
    return max(0, pairs - max(design.pilot, design.threshold_pairs(pairs)))


def require_one_threshold(name: str, design: TrialDesign) -> None:
    """Refuse a rule under which the counts at one threshold give no valid bound."""
    if isinstance(design.rule, Bonferroni):
        raise UsageError(
            f"{name} needs a single threshold, but the rule tries several; use --threshold split, "
            "or --estimator clopper_pearson."
        )
    require_separate_threshold(design)


def require_separate_threshold(design: TrialDesign) -> None:
    """Refuse a threshold that is chosen on the tested trials."""
    if isinstance(design.rule, BestOnSameData):
        raise UsageError(
            "a threshold chosen on the tested trials gives no valid bound; use --threshold split "
            "or bonferroni."
        )
