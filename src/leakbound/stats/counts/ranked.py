"""Guesses by rank: the ranks of the scores decide which canaries are guessed, with no threshold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from leakbound._check import within
from leakbound.errors import UsageError
from leakbound.stats.arrays import Ints


@dataclass(frozen=True, slots=True)
class Ranked:
    """Guess that the highest-scoring canaries are in, and that equally many lowest-scoring are out.

    The number of guesses is fixed before any score is seen. No guess is made about the other
    canaries.

    Guarantee: `one_run` holds for guesses that depend on all scores in any way.
    Reference: Steinke, Nasr and Jagielski, "Privacy auditing with one (1) training run" (NeurIPS
    2023), Algorithm 1.
    """

    fraction: float = 0.5

    def __post_init__(self) -> None:
        within("fraction", self.fraction, 0.01, 1.0)

    @classmethod
    def named(cls, text: object) -> Self | None:
        """The rule that a setting names."""
        name, _, fraction = str(text).partition(":")
        if name != "rank":
            return None
        try:
            return cls(float(fraction)) if fraction else cls()
        except ValueError:
            raise UsageError(
                f"threshold is {text!r}; it must be rank, or rank with a share, such as rank:0.5."
            ) from None

    def guesses(self, scores: npt.ArrayLike) -> Ints:
        """Guesses about canaries. Among equal scores, the earlier one ranks higher."""
        order = np.argsort(-np.asarray(scores, float), kind="stable")
        each = self.each(len(order))
        found = np.zeros(len(order), np.int64)
        found[order[:each]], found[order[len(order) - each :]] = 1, -1
        return found

    def each(self, canaries: int) -> int:
        """Number of canaries guessed to be in, which equals the number guessed to be out."""
        return max(1, int(self.fraction * canaries) // 2)

    def describe(self, canaries: int) -> str:
        each = self.each(canaries)
        return f"none: the {each} highest and the {each} lowest of {canaries} scores are guessed"
