"""UserSystem: any Python callable (context, query) -> answer is a system, auditable from outside."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np

from leakbound.errors import LeakboundError, TargetError
from leakbound.mechanisms.base import MechanismBase
from leakbound.mechanisms.single import as_aggregate, one_vote, release_unchanged
from leakbound.models import Model, Request
from leakbound.models.content import text_only
from leakbound.privacy import Guarantee, NonPrivate
from leakbound.tasks import (
    Access,
    Aggregate,
    CategoricalLaw,
    Context,
    Job,
    Outputs,
    Query,
    Task,
    Vector,
)

__all__ = ["UserSystem", "answerer"]

Answerer = Callable[[Context, str], Any]
R = TypeVar("R")
# async calls at once: each may hold a connection, and a process may open about a thousand files
TOGETHER = 64


@dataclass(frozen=True, slots=True)
class UserSystem(MechanismBase):
    """Calls `function(context, query_text)` once per trial (sync or async); the operator states the
    guarantee, if any.

    It returns the answer: a text, or a mapping or object with `text`, and for `scored` systems also
    `scores`, a number for every
    answer of the query. The scores are what leaves the system beside its text, read by a white-box
    attack. source: a hash of where
    the function comes from, so that a changed system is another run.
    """

    needs: ClassVar[frozenset[type[Request[Any]]]] = frozenset()
    white_box_score: ClassVar[str | None] = "score_margin"
    function: Answerer = field(repr=False)
    name: str = "user_system"
    guarantee: Guarantee = field(default_factory=NonPrivate)
    scored: bool = False
    source: str = ""

    def __post_init__(self) -> None:
        _require_two_arguments(self.function, self.name)

    @property
    def access(self) -> frozenset[Access]:
        """Text for all; scores where they are asked for."""
        return frozenset({"black_box", "white_box"}) if self.scored else frozenset({"black_box"})

    def voters(self, shots: int) -> int:
        """Unknown: at most every example of the context counts.

        Args:
            shots: Number of examples in the context.

        Returns:
            `shots`.
        """
        return shots

    def noise_in_collect(self, task: Task, query: Query) -> bool:
        """Whatever noise the callable draws does not depend on the claim.

        Args:
            task: The task of the context.
            query: The query that is answered.

        Returns:
            False.
        """
        return False

    def requests(self, task: Task, job: Job, draw: int) -> list[Request[Any]]:
        """None: the callable asks its own model."""
        return []

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        """One call a job; async callables run together, 64 at most, unless they say that they are
        `stateful`.
        """
        replies = self._replies(jobs)
        return [self._clean(task, job, reply) for job, reply in zip(jobs, replies, strict=True)]

    def _replies(self, jobs: Sequence[Job]) -> list[Any]:
        """What the callable raises is told by its type only: its message may hold private text."""
        try:
            if _is_async(self.function):
                return _run(self._all(jobs))
            return [
                self.function(job.context, text_only(job.query.text, self.name)) for job in jobs
            ]
        except LeakboundError:
            raise
        except (
            Exception,
            SystemExit,
        ) as error:  # whoever exits would end the audit with a status of its own
            raised = type(error).__name__
            raise TargetError(
                f"the system {self.name!r} raised {raised}; call it by itself to see why."
            ) from None

    async def _all(self, jobs: Sequence[Job]) -> list[Any]:
        together = asyncio.Semaphore(TOGETHER)

        async def call(job: Job) -> Any:
            async with together:
                return await self.function(job.context, text_only(job.query.text, self.name))

        if getattr(self.function, "stateful", False):
            return [await call(job) for job in jobs]
        return list(await asyncio.gather(*map(call, jobs)))

    def _clean(self, task: Task, job: Job, reply: Any) -> Aggregate:
        text, answers = self._part(reply, "text"), task.answers(job.query)
        if not isinstance(text, str):
            raise TargetError(
                f"the system {self.name!r} returned {type(text).__name__}; it must return the "
                "answer as str."
            )
        if not (self.scored and answers):
            return as_aggregate(task, job.query, text)
        return Vector((*self._scores(reply, answers), *map(float, one_vote(text, answers).counts)))

    def _part(self, reply: Any, name: str) -> Any:
        """A named part of a rich reply; a plain one is its own text."""
        if isinstance(reply, Mapping):
            return reply.get(name)
        return getattr(reply, name, reply if name == "text" else None)

    def _scores(self, reply: Any, answers: Sequence[str]) -> list[float]:
        """A finite number for each answer, in their order."""
        found = self._part(reply, "scores")
        scores = [found.get(answer) if isinstance(found, Mapping) else None for answer in answers]
        if not all(isinstance(score, int | float) and math.isfinite(score) for score in scores):
            raise TargetError(
                f"the system {self.name!r} gave no scores to read; with white_box access it must "
                "return "
                f"{{'text': ..., 'scores': {{...}}}} with a finite number for each of "
                f"{', '.join(answers)}. Or use --access black_box."
            )
        return [float(score) for score in scores]  # type: ignore[arg-type]

    def release(self, aggregate: Aggregate, draws: int, rng: np.random.Generator) -> Outputs:
        """The answer that was given, with its scores where there are any; a callable has one
        release per call.
        """
        if not isinstance(aggregate, Vector):
            return release_unchanged(aggregate, draws)
        values, answers = np.asarray(aggregate.values), len(aggregate.values) // 2
        return Outputs(
            np.full(draws, values[answers:].argmax()), np.tile(values[:answers], (draws, 1))
        )

    def output_distribution(self, aggregate: Aggregate) -> CategoricalLaw | None:
        """Unknown."""
        return None


def answerer(thing: Any, name: str) -> Answerer:
    """What to call: a function, an object that can be called, or one with a method `answer`; a
    class is made first.
    """
    if inspect.isclass(thing):
        try:
            thing = thing()
        except LeakboundError:
            raise
        except (Exception, SystemExit) as error:
            raised = type(error).__name__
            raise TargetError(
                f"the system {name!r} could not be made: its class raised {raised} without "
                "arguments."
            ) from None
    found = thing if callable(thing) else getattr(thing, "answer", None)
    if not callable(found):
        raise TargetError(
            f"the system {name!r} cannot be called; it must be callable or have a method "
            "answer(context, query)."
        )
    return found  # type: ignore[no-any-return]


def _run(work: Coroutine[Any, Any, R]) -> R:
    """The result, from a loop of its own; in a thread where a loop runs already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def _is_async(function: Answerer) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        type(function).__call__
    )


def _require_two_arguments(function: Answerer, name: str) -> None:
    """Refuse, before any call, what cannot take (context, query)."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # some built-in callables do not tell
        return
    try:
        signature.bind((), "")
    except TypeError:
        raise TargetError(
            f"the system {name!r} takes {signature}; it must take (context, query)."
        ) from None
