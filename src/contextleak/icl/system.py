"""What can be audited. A System answers queries over contexts; a Mechanism also splits the slow from the cheap side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from contextleak.icl.exemplar import Context
from contextleak.icl.task import Query, Task
from contextleak.models.asks import Ask
from contextleak.models.model import Model
from contextleak.privacy import Guarantee
from contextleak.stats import CategoricalLaw, GaussianLaw

__all__ = ["Access", "CategoricalLaw", "GaussianLaw", "Job", "Mechanism", "Releases", "System", "Votes"]

Floats = npt.NDArray[np.float64]
Access = Literal["black_box", "white_box"]


@dataclass(frozen=True, slots=True, repr=False)
class Job:
    """One query over one private context."""

    context: Context
    query: Query

    def __repr__(self) -> str:
        return "Job(<private>)"


@dataclass(frozen=True, slots=True)
class Votes:
    """Clean aggregate (PRIVATE): votes for each answer, the last class being "none of them" (unparsable)."""

    counts: tuple[int, ...]

    def __repr__(self) -> str:
        return "Votes(<private>)"


@dataclass(frozen=True, slots=True)
class Releases:
    """What leaves a mechanism, for several independent draws.

    answers: (draws,) index of the released answer, len(answers) meaning none of them; noisy: (draws, classes) noisy
    aggregate where the guarantee covers it, else None.
    """

    answers: npt.NDArray[np.int64]
    noisy: Floats | None = None


class System(Protocol):
    """Anything that answers queries from contexts and makes a promise (perhaps none)."""

    @property
    def name(self) -> str: ...
    @property
    def guarantee(self) -> Guarantee: ...
    def respond(self, jobs: Sequence[Job], rng: np.random.Generator) -> list[str]:
        """One released text a job."""


class Mechanism(Protocol):
    """A frozen recipe of public parameters; private data arrives only as an argument."""

    @property
    def name(self) -> str: ...
    @property
    def access(self) -> frozenset[Access]: ...
    @property
    def needs(self) -> frozenset[type[Ask[Any]]]: ...
    @property
    def guarantee(self) -> Guarantee: ...
    def asks(self, task: Task, job: Job, draw: int) -> list[Ask[Any]]:
        """The first asks of a job: what the model must be able to take."""

    def collect(self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model) -> list[Votes]:
        """Slow: ask the model, return clean aggregates. `draws` name the random draws of sampled answers."""

    def release(self, clean: Votes, draws: int, rng: np.random.Generator) -> Releases:
        """Cheap: noise and decoding, `draws` independent releases of one aggregate."""

    def law(self, clean: Votes) -> GaussianLaw | CategoricalLaw | None:
        """The exact law of a release, where it is known."""
