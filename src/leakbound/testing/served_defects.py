"""Private votings whose noise is broken in the way it is served, beside a correct reference.

Each adds noise of the declared scale, and averages over many outputs of one call may look right.
None of this is a mechanism that anyone should use.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from leakbound.mechanisms import ReportNoisyMax
from leakbound.tasks import Outputs, Votes

__all__ = [
    "SERVED_DEFECTS",
    "CachedNoise",
    "ConstantNoise",
    "DataSeededNoise",
    "FreshNoise",
    "ReseededNoise",
    "ReusedNoise",
    "TruncatedNoise",
]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class FreshNoise(ReportNoisyMax):
    """The correct reference: fresh noise from the generator that was handed over."""

    name: ClassVar[str] = "fresh_noise"

    def noise(self, shape: tuple[int, int], votes: Votes, rng: np.random.Generator) -> Floats:
        """Noise of some outputs.

        Args:
            shape: (draws, classes).
            votes: The votes (PRIVATE).
            rng: The generator that was handed over.

        Returns:
            Noise of that shape.
        """
        return rng.normal(0.0, self.sigma, shape)

    def release(self, aggregate: Votes, draws: int, rng: np.random.Generator) -> Outputs:
        """Noisy counts and the largest of them.

        Args:
            aggregate: Votes of one job (PRIVATE).
            draws: Number of outputs.
            rng: Source of the noise, as far as it is used.

        Returns:
            `draws` outputs.
        """
        counts = np.asarray(aggregate.counts, float)
        noisy = counts + self.noise((draws, counts.size), aggregate, rng)
        return Outputs(noisy.argmax(1), noisy)


@dataclass(frozen=True, slots=True)
class ConstantNoise(FreshNoise):
    """Seeds its own generator with a constant at every call."""

    name: ClassVar[str] = "constant_noise"

    def noise(self, shape: tuple[int, int], votes: Votes, rng: np.random.Generator) -> Floats:
        """The same noise at every call, of any `shape`, `votes` and `rng`."""
        return np.random.default_rng(42).normal(0.0, self.sigma, shape)


@dataclass(frozen=True, slots=True)
class ReseededNoise(FreshNoise):
    """Seeds the generator of the process before each answer, "for reproducibility"."""

    name: ClassVar[str] = "reseeded_noise"

    def noise(self, shape: tuple[int, int], votes: Votes, rng: np.random.Generator) -> Floats:
        """The same noise at every call, of any `shape`, `votes` and `rng`."""
        state = np.random.RandomState(7)
        return np.asarray(state.normal(0.0, self.sigma, shape))


@dataclass(frozen=True, slots=True)
class CachedNoise(FreshNoise):
    """Draws noise for the first answer and keeps it."""

    name: ClassVar[str] = "cached_noise"
    kept: list[Floats] = field(default_factory=list, repr=False, compare=False)

    def noise(self, shape: tuple[int, int], votes: Votes, rng: np.random.Generator) -> Floats:
        """Noise of `shape` from `rng` once, whatever the `votes`."""
        if not self.kept:
            self.kept.append(rng.normal(0.0, self.sigma, (1, shape[1])))
        return np.repeat(self.kept[0], shape[0], 0)


@dataclass(frozen=True, slots=True)
class ReusedNoise(FreshNoise):
    """Uses each noise for two answers."""

    name: ClassVar[str] = "reused_noise"
    kept: list[Floats] = field(default_factory=list, repr=False, compare=False)

    def noise(self, shape: tuple[int, int], votes: Votes, rng: np.random.Generator) -> Floats:
        """Noise of `shape` from `rng`, or what is left of the last one, whatever the `votes`."""
        if shape[0] > 1:
            return rng.normal(0.0, self.sigma, shape)
        if self.kept:
            return self.kept.pop()
        self.kept.append(rng.normal(0.0, self.sigma, shape))
        return self.kept[0]


@dataclass(frozen=True, slots=True)
class DataSeededNoise(FreshNoise):
    """Seeds the noise with the votes: equal votes always give equal outputs."""

    name: ClassVar[str] = "data_seeded_noise"

    def noise(self, shape: tuple[int, int], votes: Votes, rng: np.random.Generator) -> Floats:
        """Noise of `shape` from the `votes` alone; `rng` is not used."""
        return np.random.default_rng(votes.counts).normal(0.0, self.sigma, shape)


@dataclass(frozen=True, slots=True)
class TruncatedNoise(FreshNoise):
    """Cuts noise off at a third of its scale, so that answers "stay plausible"."""

    name: ClassVar[str] = "truncated_noise"

    def noise(self, shape: tuple[int, int], votes: Votes, rng: np.random.Generator) -> Floats:
        """Noise of `shape` from `rng`, whatever the `votes`."""
        limit = self.sigma / 3
        return np.clip(rng.normal(0.0, self.sigma, shape), -limit, limit)


SERVED_DEFECTS: tuple[type[FreshNoise], ...] = (
    ConstantNoise,
    ReseededNoise,
    CachedNoise,
    ReusedNoise,
    DataSeededNoise,
    TruncatedNoise,
)
