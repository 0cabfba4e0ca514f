"""Private votings whose noise is broken in the way it is served, beside a correct reference.

Most add noise of the declared scale, and averages over many outputs of one call may look right.
None of this is a mechanism that anyone should use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, ClassVar

import numpy as np

from leakbound.mechanisms import ReportNoisyMax
from leakbound.mechanisms.parts.base import PartitionedMechanism
from leakbound.models import Model
from leakbound.privacy import NonPrivate
from leakbound.stats.arrays import Floats
from leakbound.tasks import Aggregate, Job, Outputs, Query, Task, Votes


@dataclass(frozen=True, slots=True)
class FreshNoise(ReportNoisyMax):
    """The correct reference: fresh noise from the generator that was handed over."""

    name: ClassVar[str] = "fresh_noise"
    exactness = PartitionedMechanism.exactness
    vote_noise = ReportNoisyMax.vote_noise

    def draw_noise(self, shape: tuple[int, int], votes: Votes, rng: np.random.Generator) -> Floats:
        return rng.normal(0.0, self.sigma, shape)

    def release(self, aggregate: Votes, draws: int, rng: np.random.Generator) -> Outputs:
        counts = np.asarray(aggregate.counts, float)
        noisy = counts + self.draw_noise((draws, counts.size), aggregate, rng)
        return Outputs(noisy.argmax(1), noisy)


@dataclass(frozen=True, slots=True)
class ConstantNoise(FreshNoise):
    """Seeds its own generator with a constant at every call."""

    name: ClassVar[str] = "constant_noise"

    def draw_noise(self, shape: tuple[int, int], votes: Votes, rng: np.random.Generator) -> Floats:
        return np.random.default_rng(42).normal(0.0, self.sigma, shape)


@dataclass(frozen=True, slots=True)
class _ReseededNoise(FreshNoise):
    """Seeds the generator of the process before each answer, "for reproducibility"."""

    name: ClassVar[str] = "reseeded_noise"

    def draw_noise(self, shape: tuple[int, int], votes: Votes, rng: np.random.Generator) -> Floats:
        state = np.random.RandomState(7)
        return np.asarray(state.normal(0.0, self.sigma, shape))


@dataclass(frozen=True, slots=True)
class CachedNoise(FreshNoise):
    """Draws noise for the first answer and keeps it."""

    name: ClassVar[str] = "cached_noise"
    kept: list[Floats] = field(default_factory=list, repr=False, compare=False)

    def draw_noise(self, shape: tuple[int, int], votes: Votes, rng: np.random.Generator) -> Floats:
        if not self.kept:
            self.kept.append(rng.normal(0.0, self.sigma, (1, shape[1])))
        return np.repeat(self.kept[0], shape[0], 0)


@dataclass(frozen=True, slots=True)
class ReusedNoise(FreshNoise):
    """Uses each noise for two answers."""

    name: ClassVar[str] = "reused_noise"
    kept: list[Floats] = field(default_factory=list, repr=False, compare=False)

    def draw_noise(self, shape: tuple[int, int], votes: Votes, rng: np.random.Generator) -> Floats:
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

    def draw_noise(self, shape: tuple[int, int], votes: Votes, rng: np.random.Generator) -> Floats:
        return np.random.default_rng(votes.counts).normal(0.0, self.sigma, shape)


@dataclass(frozen=True, slots=True)
class TruncatedNoise(FreshNoise):
    """Cuts noise off at a third of its scale, so that answers "stay plausible"."""

    name: ClassVar[str] = "truncated_noise"

    def draw_noise(self, shape: tuple[int, int], votes: Votes, rng: np.random.Generator) -> Floats:
        limit = self.sigma / 3
        return np.clip(rng.normal(0.0, self.sigma, shape), -limit, limit)


@dataclass(frozen=True, slots=True)
class CleanMajority(ReportNoisyMax):
    """Declares noise, and releases the majority without any."""

    name: ClassVar[str] = "clean_majority"
    vote_noise = ReportNoisyMax.vote_noise

    def release(self, aggregate: Votes, draws: int, rng: np.random.Generator) -> Outputs:
        counts = np.tile(np.asarray(aggregate.counts, float), (draws, 1))
        return Outputs(counts.argmax(1), counts)

    def output_distribution(self, aggregate: Votes) -> None:  # type: ignore[override]
        return None


@dataclass(frozen=True, slots=True)
class UndeclaredMajority(CleanMajority):
    """The same without a guarantee."""

    name: ClassVar[str] = "undeclared_majority"

    @property
    def guarantee(self) -> NonPrivate:  # type: ignore[override]
        return NonPrivate()


class NoiseBeforeRelease(ReportNoisyMax):
    """Draws its noise while collecting, and says that it does not."""

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        found = ReportNoisyMax.collect(self, task, jobs, draws, model)
        return [self._chosen(one, draw) for one, draw in zip(found, draws, strict=True)]

    def _chosen(self, votes: Any, draw: int) -> Votes:
        noisy = np.random.default_rng(draw).normal(votes.counts, self.sigma)
        return Votes(tuple(int(i == noisy.argmax()) for i in range(len(votes.counts))))

    def release(self, aggregate: Votes, draws: int, rng: np.random.Generator) -> Outputs:
        return Outputs(np.full(draws, int(np.argmax(aggregate.counts))))


@dataclass(frozen=True, slots=True)
class EarlyNoise(NoiseBeforeRelease):
    """Draws its noise while it collects, so what is stored holds noise of one epsilon."""

    name: ClassVar[str] = "early_noise"

    def noise_in_collect(self, task: Task, query: Query) -> bool:
        return True

    def output_distribution(self, aggregate: Votes) -> None:  # type: ignore[override]
        return None


SERVED_DEFECTS: tuple[type[FreshNoise], ...] = (
    ConstantNoise,
    _ReseededNoise,
    CachedNoise,
    ReusedNoise,
    DataSeededNoise,
    TruncatedNoise,
)
for kind, name in product(SERVED_DEFECTS, ("exactness", "vote_noise")):
    setattr(kind, name, vars(FreshNoise)[name])  # each states of itself what it does not keep
