"""SystemMechanism: a system as a mechanism, so that it can be audited from outside."""

from __future__ import annotations

import asyncio
import math
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Self, cast

import numpy as np

from leakbound.errors import LeakboundError, TargetError
from leakbound.mechanisms.parts.base import MechanismBase
from leakbound.mechanisms.parts.single import as_aggregate, one_vote, release_unchanged
from leakbound.models import Model
from leakbound.models.content import text_only
from leakbound.models.http.blocking import run_blocking
from leakbound.privacy import Guarantee, NonPrivate
from leakbound.systems.callable import (
    Answerer,
    AsyncCallableSystem,
    CallableSystem,
    as_system,
    says_stateful,
    session_of,
)
from leakbound.systems.calls import (
    Caller,
    CallOptions,
    NoAnswer,
    Paced,
    SystemFailed,
    interrupts,
    too_slow,
)
from leakbound.systems.channels import SECONDS, channels_of
from leakbound.systems.http.system import HttpSystem
from leakbound.systems.protocol import AsyncSession, AsyncSystem, Reply, Session, System
from leakbound.systems.replies import REPLY, as_reply, call_text, seen_seconds, together
from leakbound.systems.threads import ThreadedSystem
from leakbound.tasks import (
    Access,
    Aggregate,
    AnyRequest,
    CategoricalLaw,
    GeneratedText,
    Job,
    Outputs,
    Query,
    RequestKinds,
    Task,
    Vector,
)
from leakbound.tasks.mechanism import Exactness
from leakbound.witness import ReplyFacts

_Asked = tuple[Job, str, int]  # with the text of its query, and its draw
LOST = Reply("", finish_reason="error")  # what a user sees of a call without an answer
MOST_TEXT = 100_000  # bytes that are read in place of an answer


@dataclass(frozen=True, slots=True)
class SystemMechanism(MechanismBase):
    """Asks a system once for each trial, in a session of its own.

    Attributes:
        system: A system, or whatever `as_system` makes one of.
        name: Name for records and messages.
        guarantee: What the operator claims, to be tested; `NonPrivate()` if nothing.
        scored: Whether its scores leave it beside its text, to be read with white-box access.
        source: Hash of where the system comes from, so that a changed system is another run.
        calls: Pace, time and retries of its calls; a service behind HTTP brings its own.
        caller: What makes the calls, and counts them.
        channels: Channels of its replies that are kept, each apart; empty for an audit of whole
            replies.
        reads_rows: Whether answers may depend on the rows that are sent; False where nothing has
            shown it, and then seeing nothing of them is no reason to pass.
        shared: Whether trials share one store, which may be slower after an addition, whatever that
            tells of it: then time is read only where a channel names it.

    Guarantee:
        `guarantee` is a claim of the operator. Nothing here proves it.
    """

    needs: ClassVar[RequestKinds] = frozenset()
    exactness: ClassVar[Exactness] = "none"
    strongest_score: ClassVar[str | None] = "score_margin"
    answers_once: ClassVar[bool] = True
    system: System | Answerer = field(repr=False)
    name: str = "user_system"  # type: ignore[misc]  # a field here, of each system
    guarantee: Guarantee = field(default_factory=NonPrivate)
    scored: bool = False
    source: str = ""
    calls: CallOptions = field(default=CallOptions(), repr=False, compare=False)
    caller: Caller = field(init=False, repr=False, compare=False)
    application: SystemMechanism = field(init=False, repr=False, compare=False)  # type: ignore[misc]
    channels: tuple[str, ...] = ()
    reads_rows: bool = True
    shared: bool = False

    def __post_init__(self) -> None:
        system = as_system(self.system, self.name)
        caller = system.caller if isinstance(system, HttpSystem) else Caller(self.calls)
        object.__setattr__(self, "system", system)
        object.__setattr__(self, "caller", caller)
        object.__setattr__(self, "application", self)

    @property
    def access(self) -> frozenset[Access]:
        return frozenset({"black_box", "white_box"}) if self.scored else frozenset({"black_box"})

    @property
    def takes(self) -> str:
        """How a function of the user gets rows, in words with {n} for their number; "" of others,
        which say it themselves."""
        found = self.system
        if not isinstance(found, CallableSystem | AsyncCallableSystem):
            return ""
        return str(found.function.__dict__.get("takes", ""))

    @property
    def stateless(self) -> bool:
        """Whether the system says that it keeps no state: it takes several sessions at once."""
        return isinstance(self.system, AsyncSystem) and self.system.concurrency > 1

    @property
    def at_once(self) -> int:
        """Calls that are made at once where enough jobs are given."""
        system, options = cast(System, self.system), self.caller.options
        if isinstance(system, AsyncSystem):
            return options.at_once(system.concurrency, system.concurrency == 1)
        return options.at_once(1, says_stateful(system))

    def called(self, calls: CallOptions) -> Self:
        """The mechanism with its calls made in another way, by a caller of its own."""
        system = self.system
        if isinstance(system, Paced):
            system = system.called(calls)
        return replace(self, system=system, calls=calls)

    def recalibrated(self, epsilon: float, delta: float) -> Self:
        """The mechanism itself: nobody knows how to change the noise of a system."""
        return self

    def voters(self, shots: int) -> int:
        """Unknown: at most every example of the context counts."""
        return shots

    def noise_in_collect(self, task: Task, query: Query) -> bool:
        """Whatever noise the system draws does not depend on the claim."""
        return False

    def requests(self, task: Task, job: Job, draw: int) -> list[AnyRequest]:
        """None: the system asks its own model."""
        return []

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        """Ask the system, in a session for each job.

        Jobs of one draw are asked in their order. Sessions for different draws run together, as
        many as the system and `calls` allow. A call that gave no output is made again; one that
        ends without an answer is an outcome: an empty text, with the finish reason "error".
        """
        replies = self._replies(jobs, draws)
        return [self._aggregate(task, job, reply) for job, reply in zip(jobs, replies, strict=True)]

    def _replies(self, jobs: Sequence[Job], draws: Sequence[int]) -> list[Reply]:
        asked = [
            (job, text_only(job.query.text, self.name), draw)
            for job, draw in zip(jobs, draws, strict=True)
        ]
        found = self._ask_all(asked)
        self._require_answer(found)
        alone = [at for at, one in enumerate(found) if isinstance(one, NoAnswer) and one.alone]
        if alone:
            # calls were lost while no other was answered: one that was answered before shows
            # whether the system is down, which is not an outcome; its reply is not used
            known = max(at for at, one in enumerate(found) if isinstance(one, Reply))
            self._require_answer(self._ask_all([asked[known]]))
            again = self._ask_all([asked[at] for at in alone])
            for at, one in zip(alone, again, strict=True):
                self.caller.forget(cast(NoAnswer, found[at]))
                found[at] = one
        return [
            one if isinstance(one, Reply) else LOST if not one.body
            else replace(LOST, channels={REPLY: one.body[:MOST_TEXT].decode("utf-8", "replace")})
            for one in found
        ]  # fmt: skip

    def _ask_all(self, asked: Sequence[_Asked]) -> list[Reply | NoAnswer]:
        system, timeout = cast(System, self.system), self.caller.options.timeout
        if not isinstance(system, AsyncSystem) and (self.at_once > 1 or timeout is not None):
            system = ThreadedSystem(system, self.name, self.at_once, timeout, self._clocked)
        if isinstance(system, AsyncSystem):
            return run_blocking(self._ask_together(system, asked))
        return [self._ask(system, job, query) for job, query, _ in asked]

    def _require_answer(self, found: Sequence[Reply | NoAnswer]) -> None:
        """Calls without an answer count, unless there is no answer at all: then nobody answers."""
        lost = [one for one in found if isinstance(one, NoAnswer)]
        if lost and len(lost) == len(found):
            every = f" None of {len(lost)} calls had an answer." if len(lost) > 1 else ""
            raise TargetError(f"{lost[0]}{every}")

    def _ask(self, system: System, job: Job, query: str) -> Reply | NoAnswer:
        try:
            opening = partial(system.open, job.context)
            opened = self.caller.call(opening, counted=False, limited=True)
            session = session_of(opened, self.name)
            try:
                return together(
                    [
                        self.caller.call(partial(self._answer, session, one), limited=True)
                        for one in (query, *job.query.further)
                    ],
                    job.query,
                )
            finally:
                session.close()
        except BaseException as error:
            return self._outcome(error, query)

    def _answer(self, session: Session, query: str) -> Reply:
        began = time.perf_counter()
        answer = session.ask(query)
        return as_reply(answer, self.name, self._seconds_since(began))

    def _outcome(self, error: BaseException, query: str) -> NoAnswer:
        """A failure that counts; anything else ends the audit.

        An exit would end it as a success, and what is no Exception with the code of a violation.
        """
        if isinstance(error, NoAnswer) and error.counts:
            return error
        if isinstance(error, LeakboundError) or interrupts(error):
            raise error
        raise SystemFailed.of(error, self.name, query) from None

    async def _ask_together(
        self, system: AsyncSystem, asked: Sequence[_Asked]
    ) -> list[Reply | NoAnswer]:
        """Jobs of one draw follow each other in their order; those of different draws may not."""
        stateful = system.concurrency == 1
        free = asyncio.Semaphore(self.caller.options.at_once(system.concurrency, stateful))
        places: dict[int, list[int]] = defaultdict(list)
        for at, (_, _, draw) in enumerate(asked):
            places[0 if stateful else draw].append(at)

        async def in_order(group: list[int]) -> list[tuple[int, Reply | NoAnswer]]:
            found = []
            for at in group:
                async with free:
                    found.append((at, await self._ask_async(system, *asked[at][:2])))
            return found

        found = await asyncio.gather(*map(in_order, places.values()))
        replies = dict(one for group in found for one in group)
        return [replies[at] for at in range(len(asked))]

    async def _ask_async(self, system: AsyncSystem, job: Job, query: str) -> Reply | NoAnswer:
        try:
            session = await self._opened(system, job)
            try:
                every = (query, *job.query.further)
                return together([await self._reply(system, session, one) for one in every],
                                 job.query)  # fmt: skip
            finally:
                await session.close()
        except BaseException as error:
            return self._outcome(error, query)

    async def _opened(self, system: AsyncSystem, job: Job) -> AsyncSession:
        opening = partial(system.open_async, job.context)
        if isinstance(system, HttpSystem):  # makes each of its requests by its caller
            self.caller.options.require_time()
            return await opening()
        return await self.caller.call_async(opening, counted=False, limited=True)

    async def _reply(self, system: AsyncSystem, session: AsyncSession, query: str) -> Reply:
        if isinstance(system, HttpSystem):
            return await self._answer_async(session, query, None)
        own = isinstance(system, ThreadedSystem)  # keeps the time in its threads
        limit = None if own else self.caller.options.timeout
        asking = partial(self._answer_async, session, query, limit)
        return await self.caller.call_async(asking, limited=True)

    async def _answer_async(self, session: AsyncSession, query: str, limit: float | None) -> Reply:
        began, timer = time.perf_counter(), asyncio.timeout(limit)
        try:
            async with timer:
                answer = await session.ask(query)
        except TimeoutError:
            if limit is None or not timer.expired():
                raise
            raise too_slow(self.name, limit) from None
        return as_reply(answer, self.name, self._seconds_since(began))

    @property
    def _clocked(self) -> bool:
        """Whether the time of a call is read: in this process, where nobody outside sees
        microseconds that follow the length of the context, only if the operator names it."""
        return SECONDS in self.channels

    def _seconds_since(self, began: float) -> float | None:
        return seen_seconds(began) if self._clocked else None

    def _aggregate(self, task: Task, job: Job, reply: Reply) -> Aggregate:
        if self.shared and not self._clocked and replace(reply, channels=None) != LOST:
            reply = replace(reply, seconds=None)
        answers, seen = task.answers(job.query), self._seen(reply)
        if not (self.scored and answers):
            found = as_aggregate(task, job.query, reply.text if answers else self._read(reply))
            return replace(found, reply=seen, channels=self._channels(reply))
        votes = one_vote(reply.text, answers).counts
        values = (*self._scores(reply, answers), *map(float, votes))
        return Vector(values, reply=seen, channels=self._channels(reply))

    def _read(self, reply: Reply) -> str:
        """All that a user sees of a reply: where no channels are kept, sources beside its answer
        and tool calls, too."""
        if self.channels:
            return reply.text
        told = (reply.channels or {}).get(REPLY, reply.text)
        return "\n".join([told, *map(call_text, reply.tool_calls or ())])

    def _channels(self, reply: Reply) -> dict[str, GeneratedText]:
        return channels_of(reply, self.channels) if self.channels else {}

    def _seen(self, reply: Reply) -> ReplyFacts:
        """What a user sees of a reply: its scores only with white-box access, and its seconds and
        tool calls where they are not channels of their own."""
        whole = not self.channels
        return ReplyFacts(
            text=self._read(reply),
            seconds=reply.seconds if whole else None,
            tokens=reply.tokens,
            finish_reason=reply.finish_reason,
            tool_calls=(reply.tool_calls or ()) if whole else (),
            scores=reply.scores if self.scored else None,
        )

    def _scores(self, reply: Reply, answers: Sequence[str]) -> list[float]:
        """A finite number for each answer, in their order; a call without an answer has zeros."""
        if replace(reply, channels=None) == LOST:
            return [0.0] * len(answers)
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
        """The answer that was given, with its scores if there are any."""
        if not isinstance(aggregate, Vector):
            return release_unchanged(aggregate, draws)
        values, answers = np.asarray(aggregate.values), len(aggregate.values) // 2
        return Outputs(
            np.full(draws, values[answers:].argmax()), np.tile(values[:answers], (draws, 1))
        )

    def output_distribution(self, aggregate: Aggregate) -> CategoricalLaw | None:
        return None
