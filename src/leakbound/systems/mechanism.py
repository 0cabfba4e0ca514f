"""SystemMechanism: a system as a mechanism, so that it can be audited from outside."""

from __future__ import annotations

import asyncio
import math
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self, cast

import numpy as np

from leakbound.errors import LeakboundError, TargetError
from leakbound.mechanisms.base import MechanismBase
from leakbound.mechanisms.single import as_aggregate, one_vote, release_unchanged
from leakbound.models import Model
from leakbound.models.blocking import run_blocking
from leakbound.models.content import text_only
from leakbound.privacy import Guarantee, NonPrivate
from leakbound.stats.witness import ReplyFacts
from leakbound.systems.callable import Answerer, as_system
from leakbound.systems.protocol import AsyncSystem, Reply, System
from leakbound.systems.replies import as_reply
from leakbound.tasks import (
    Access,
    Aggregate,
    AnyRequest,
    CategoricalLaw,
    Job,
    Outputs,
    Query,
    RequestKinds,
    Task,
    Vector,
)

__all__ = ["SystemMechanism"]


@dataclass(frozen=True, slots=True)
class SystemMechanism(MechanismBase):
    """Asks a system once for each trial, in a session of its own.

    Attributes:
        system: A system, or whatever `as_system` makes one of.
        name: Name for records and messages.
        guarantee: What the operator claims, to be tested; `NonPrivate()` if nothing.
        scored: Whether its scores leave it beside its text, to be read with white-box access.
        source: Hash of where the system comes from, so that a changed system is another run.

    Guarantee:
        `guarantee` is a claim of the operator. Nothing here proves it.
    """

    needs: ClassVar[RequestKinds] = frozenset()
    white_box_score: ClassVar[str | None] = "score_margin"
    system: System | Answerer = field(repr=False)
    name: str = "user_system"  # type: ignore[misc]  # a field here, of each system
    guarantee: Guarantee = field(default_factory=NonPrivate)
    scored: bool = False
    source: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "system", as_system(self.system, self.name))

    @property
    def access(self) -> frozenset[Access]:
        """Text for all; scores where they are asked for."""
        return frozenset({"black_box", "white_box"}) if self.scored else frozenset({"black_box"})

    @property
    def stateless(self) -> bool:
        """Whether the system says that it keeps no state: it takes several sessions at once."""
        return isinstance(self.system, AsyncSystem) and self.system.concurrency > 1

    def recalibrated(self, epsilon: float, delta: float) -> Self:
        """The mechanism itself: nobody knows how to change the noise of a system.

        Args:
            epsilon: Not used.
            delta: Not used.

        Returns:
            This mechanism.
        """
        return self

    def voters(self, shots: int) -> int:
        """Unknown: at most every example of the context counts.

        Args:
            shots: Number of examples in the context.

        Returns:
            `shots`.
        """
        return shots

    def noise_in_collect(self, task: Task, query: Query) -> bool:
        """Whatever noise the system draws does not depend on the claim.

        Args:
            task: The task of the context.
            query: The query that is answered.

        Returns:
            False.
        """
        return False

    def requests(self, task: Task, job: Job, draw: int) -> list[AnyRequest]:
        """None: the system asks its own model.

        Args:
            task: Not used.
            job: Not used.
            draw: Not used.

        Returns:
            An empty list.
        """
        return []

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        """Ask the system, in a session for each job.

        Jobs of one draw are asked in their order. Sessions of an `AsyncSystem` for different draws
        run together, as many as it allows; others one after the other.

        Args:
            task: The task of the contexts.
            jobs: Contexts (PRIVATE) and queries.
            draws: Equal numbers name jobs that are asked one after the other; a system draws as it
                likes.
            model: Not used: a system asks its own model.

        Returns:
            A vote or a text for each job; for a scored system with given answers the scores, then
            the vote. Each holds the reply as a user sees it.

        Raises:
            TargetError: If the system raises an error, or answers with something else than it
                must. An error is named by its type only: its message may hold private text.
        """
        replies = self._replies(jobs, draws)
        return [self._aggregate(task, job, reply) for job, reply in zip(jobs, replies, strict=True)]

    def _replies(self, jobs: Sequence[Job], draws: Sequence[int]) -> list[Reply]:
        system = cast(System, self.system)
        asked = [(job, text_only(job.query.text, self.name)) for job in jobs]
        try:
            if isinstance(system, AsyncSystem):
                return run_blocking(self._ask_together(system, asked, draws))
            return [self._ask(system, job, query) for job, query in asked]
        except LeakboundError:
            raise
        except (Exception, SystemExit) as error:  # an exit here would end the audit as a success
            raised = type(error).__name__
            raise TargetError(
                f"the system {self.name!r} raised {raised}; call it by itself to see why."
            ) from None

    def _ask(self, system: System, job: Job, query: str) -> Reply:
        session = system.open(job.context)
        try:
            began = time.perf_counter()
            answer = session.ask(query)
            return as_reply(answer, self.name, time.perf_counter() - began)
        finally:
            session.close()

    async def _ask_together(
        self, system: AsyncSystem, asked: Sequence[tuple[Job, str]], draws: Sequence[int]
    ) -> list[Reply]:
        """Jobs of one draw follow each other in their order; those of different draws may not."""
        free = asyncio.Semaphore(system.concurrency)
        places: dict[int, list[int]] = defaultdict(list)
        for at, draw in enumerate(draws):
            places[0 if system.concurrency == 1 else draw].append(at)

        async def ask(job: Job, query: str) -> Reply:
            async with free:
                session = await system.open_async(job.context)
                try:
                    began = time.perf_counter()
                    answer = await session.ask(query)
                    return as_reply(answer, self.name, time.perf_counter() - began)
                finally:
                    await session.close()

        async def in_order(group: list[int]) -> list[tuple[int, Reply]]:
            return [(at, await ask(*asked[at])) for at in group]

        found = await asyncio.gather(*map(in_order, places.values()))
        replies = dict(one for group in found for one in group)
        return [replies[at] for at in range(len(asked))]

    def _aggregate(self, task: Task, job: Job, reply: Reply) -> Aggregate:
        answers, seen = task.answers(job.query), self._seen(reply)
        if not (self.scored and answers):
            return replace(as_aggregate(task, job.query, reply.text), reply=seen)
        votes = one_vote(reply.text, answers).counts
        return Vector((*self._scores(reply, answers), *map(float, votes)), reply=seen)

    def _seen(self, reply: Reply) -> ReplyFacts:
        """What a user sees of a reply: its scores only with white-box access."""
        return ReplyFacts(
            text=reply.text,
            seconds=reply.seconds,
            tokens=reply.tokens,
            finish_reason=reply.finish_reason,
            tool_calls=reply.tool_calls or (),
            scores=reply.scores if self.scored else None,
        )

    def _scores(self, reply: Reply, answers: Sequence[str]) -> list[float]:
        """A finite number for each answer, in their order."""
        scores = [None if reply.scores is None else reply.scores.get(name) for name in answers]
        found = [float(s) for s in scores if isinstance(s, int | float) and math.isfinite(s)]
        if len(found) < len(answers):
            raise TargetError(
                f"the system {self.name!r} gave no scores to read; with white_box access it must "
                "return {'text': ..., 'scores': {...}} with a finite number for each of "
                f"{', '.join(answers)}. Or use --access black_box."
            )
        return found

    def release(self, aggregate: Aggregate, draws: int, rng: np.random.Generator) -> Outputs:
        """The answer that was given, with its scores where there are any.

        Args:
            aggregate: What `collect` returned for one job (PRIVATE).
            draws: Number of outputs.
            rng: Not used: a call of a system has one output.

        Returns:
            `draws` equal outputs.
        """
        if not isinstance(aggregate, Vector):
            return release_unchanged(aggregate, draws)
        values, answers = np.asarray(aggregate.values), len(aggregate.values) // 2
        return Outputs(
            np.full(draws, values[answers:].argmax()), np.tile(values[:answers], (draws, 1))
        )

    def output_distribution(self, aggregate: Aggregate) -> CategoricalLaw | None:
        """Not known.

        Args:
            aggregate: What `collect` returned for one job (PRIVATE).

        Returns:
            None.
        """
        return None
