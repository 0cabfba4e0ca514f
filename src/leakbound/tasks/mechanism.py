"""What can be audited. A System answers queries over contexts; a Mechanism also splits the slow
from the cheap side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from leakbound.models.model import Model
from leakbound.models.request import Request
from leakbound.privacy import Guarantee
from leakbound.stats import CategoricalLaw, GaussianLaw
from leakbound.tasks.example import Context
from leakbound.tasks.task import Query, Task

__all__ = [
    "Access", "CategoricalLaw", "Aggregate", "GaussianLaw", "Job", "Mechanism", "Outputs", "Spoken", "System", "Vector", "Votes",
]  # fmt: skip

Floats = npt.NDArray[np.float64]
Access = Literal["black_box", "white_box"]


@dataclass(frozen=True, slots=True, repr=False)
class Job:
    """One query over one private context."""

    context: Context
    query: Query

    def __repr__(self) -> str:
        return "Job(<private>)"


@dataclass(frozen=True, slots=True, repr=False)
class Votes:
    """Clean aggregate (PRIVATE):

    votes for each answer, the last class being "none of them" (unparsable).
    """

    counts: tuple[int, ...]

    def __repr__(self) -> str:
        return "Votes(<private>)"


@dataclass(frozen=True, slots=True, repr=False)
class Vector:
    """Clean aggregate (PRIVATE): a mean embedding, mean keyword counts, probabilities, or summed
    log-probabilities.

    values: (dim,) floats. choices: the public texts that a release chooses from. points: (choices,
    dim) public embeddings of
    the choices, where the values live in their space.
    """

    values: tuple[float, ...]
    choices: tuple[str, ...] = ()
    points: tuple[tuple[float, ...], ...] = ()

    def __repr__(self) -> str:
        return "Vector(<private>)"


@dataclass(frozen=True, slots=True, repr=False)
class Spoken:
    """What a mechanism that decides token by token has already released:

    its noise was drawn while collecting.
    """

    text: str

    def __repr__(self) -> str:
        return "Spoken(<text>)"


Aggregate = Votes | Vector | Spoken


@dataclass(frozen=True, slots=True)
class Outputs:
    """What leaves a mechanism (PUBLIC), for several independent draws.

    answers: (draws,) index of the released choice; len(choices) means none of them. choices: what
    the index speaks of, empty
    for the query's own answers. noisy: (draws, dim) noisy aggregate where the guarantee covers it,
    else None. points: (choices, dim)
    public embeddings. scale: how many answers the noisy aggregate is the mean of. picked: (draws,
    k) indices where several
    choices are released together.
    """

    answers: npt.NDArray[np.int64]
    noisy: Floats | None = None
    choices: tuple[str, ...] = ()
    points: Floats | None = None
    scale: float = 1.0
    picked: npt.NDArray[np.int64] | None = None


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
    def needs(self) -> frozenset[type[Request[Any]]]: ...
    @property
    def guarantee(self) -> Guarantee: ...
    def requests(self, task: Task, job: Job, draw: int) -> list[Request[Any]]:
        """The first asks of a job: what the model must be able to take."""

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        """Slow: ask the model, return aggregates.

        `draws` name the random draws of sampled answers and noise.
        """

    def release(self, aggregate: Any, draws: int, rng: np.random.Generator) -> Outputs:
        """Cheap: noise and decoding, `draws` independent releases of one aggregate."""

    def output_distribution(self, aggregate: Any) -> GaussianLaw | CategoricalLaw | None:
        """The exact law of a release, where it is known."""

    def decode(self, task: Task, query: Query, outputs: Outputs, model: Model) -> list[str]:
        """Public: the text of each release.

        Asks the model at most about what was released and the query.
        """

    def cost(self, task: Task, query: Query) -> Guarantee:
        """What one answer to this query costs:

        `guarantee`, or its composition over the tokens of a free answer.
        """
