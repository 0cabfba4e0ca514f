"""Records that an application's sessions plant, use and remove before a question is asked."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar, cast

from leakbound.errors import TargetError
from leakbound.models.content import Private
from leakbound.models.http.blocking import LoopThread
from leakbound.systems.callable import session_of
from leakbound.systems.calls import Caller, CallOptions, Paced
from leakbound.systems.planted import Records, settle
from leakbound.systems.protocol import FunctionSession, Reply, Session, Store
from leakbound.systems.replies import REPLY, as_reply, finish, together
from leakbound.systems.stores import (
    TENANTS,
    open_over,
    plant_record,
    remove_records,
    require_parts,
    require_store,
)
from leakbound.tasks import Context, Example, Query

MUST = "open_tenant(tenant) must open a session with plant(record) -> id, ask(query) and remove(id)"


@dataclass(frozen=True, slots=True, repr=False)  # questions are PRIVATE
class Steps:
    owner: int = 0  # which tenant plants the records, 0 or 1
    asker: int = 0
    first: int = 0  # whose session is opened first
    uses: tuple[str, ...] = ()  # what the owner asks, so that caches and memories know the records
    removed: bool = False  # whether the records are removed before the question
    afresh: bool = False  # whether the session that asks is opened after all that
    clients: int = 1  # of each tenant that ask at once; what those who ask are told is one reply


class StagedContext(Private, tuple[Example, ...]):  # the records of a trial
    steps: Steps

    @classmethod
    def of(cls, records: Context, steps: Steps) -> StagedContext:
        found = cls(records)
        found.steps = steps
        return found


@dataclass(frozen=True, slots=True, repr=False)
class StagedSystem:
    stateful: ClassVar[bool] = True  # whatever sessions share is in place while one asks
    application: Any
    name: str = "system"
    calls: CallOptions = CallOptions()
    # of all that the application awaits: its locks and clients belong to one event loop
    loop: LoopThread = field(default_factory=partial(LoopThread, "leakbound-tenants"))

    def open(self, context: Context) -> Session:
        # Fresh sessions: the owner plants its records and uses them, and closing removes them.
        steps = cast(StagedContext, context).steps
        self.calls.require_disposable(self.name)
        caller = Caller(self.calls.of_tenant(TENANTS[steps.owner]))
        planted = Records(caller.options.journal)
        self.remove_left()
        with ExitStack() as ending:
            sessions = self._sessions(steps, ending)
            owner = sessions[steps.owner]
            removing = ExitStack()  # records are removed once
            removing.push(lambda _, error, __: remove_records(owner, planted, caller, error))
            ending.push(removing)
            began = time.monotonic()
            for record in context:
                caller.call(partial(plant_record, owner, record, planted))
            settle(time.monotonic() - began)
            for question in steps.uses:
                self._use(owner, question, caller)
            if steps.removed:
                removing.close()
            asker = self._open(steps.asker, ending) if steps.afresh else sessions[steps.asker]
            ask: Callable[[str], Reply] = asker.ask
            if steps.clients > 1 and steps.uses:
                # whose is opened and asks first takes turns
                turns = (
                    replace(steps, first=(steps.first + at) % 2) for at in range(1, steps.clients)
                )
                clients = [sessions, *(self._sessions(turn, ending) for turn in turns)]
                ask = partial(self._together, clients, steps)
            closing = ending.pop_all()
        return FunctionSession(ask, closing.close)

    def _together(self, clients: Sequence[dict[int, Any]], steps: Steps, question: str) -> Reply:
        # A client of each tenant asks at the same moment, then two of each, then four, so that both
        # what was asked often and what meets a crowd shows. Clients of one tenant compare their
        # replies, so all of them are one.
        def ask(opened: Any, questions: Sequence[str]) -> list[Reply]:
            return [as_reply(opened.ask(one), self.name) for one in questions]

        replies, left = list[Reply](), [*clients]
        with ThreadPoolExecutor(2 * len(clients)) as pool:
            while left:
                many = len(clients) - len(left) + 1
                group, left = [one for pair in left[:many] for one in pair.items()], left[many:]
                time.sleep(0.0 if self.calls.rate is None else len(group) / self.calls.rate)
                told = [
                    pool.submit(ask, one, (question,) if tenant == steps.asker else steps.uses)
                    for tenant, one in group
                ]
                wait(told)
                for (tenant, _), one in zip(group, told, strict=True):
                    replies += one.result() * (tenant == steps.asker)  # or what it raised
        for at, reply in enumerate(replies):
            shown = {REPLY: reply.text} | dict(reply.channels or {})
            shown[REPLY] += f"\n{json.dumps(dict(reply.scores))}" if reply.scores else ""
            replies[at] = replace(reply, channels=shown)
        return replace(together(replies, Query("-")), text="\n".join(one.text for one in replies))

    def _sessions(self, steps: Steps, ending: ExitStack) -> dict[int, Any]:
        wanted = sorted({steps.owner, steps.asker}, key=lambda one: one != steps.first)
        found = {at: self._open(at, ending) for at in wanted}
        if len({id(one.of) for one in found.values()}) < len(found):
            raise TargetError(
                f"the system {self.name!r} opened one session for both tenants; each tenant needs "
                "a session of its own."
            )
        return found

    def _open(self, tenant: int, ending: ExitStack) -> Any:
        opened: Any = finish(self.application.open_tenant(TENANTS[tenant]), self.loop.run)
        require_parts(
            opened, ("plant", "remove"),
            f"the system {self.name!r} opened {type(opened).__name__} for a tenant, which has no "
            f"{{}}; {MUST}.",
        )  # fmt: skip
        session = session_of(opened, self.name, self.loop.run)
        ending.callback(session.close)
        return SimpleNamespace(
            of=opened,
            ask=session.ask,
            plant=lambda record: finish(opened.plant(record), self.loop.run),
            remove=lambda record_id: finish(opened.remove(record_id), self.loop.run),
        )

    def remove_left(self) -> None:
        # what a process that was killed had planted
        if self.calls.journal is None or not self.calls.journal.left():
            return
        with ExitStack() as ending:
            self.calls.journal.remove_left(
                self.name, lambda tenant: self._open(TENANTS.index(tenant), ending).remove
            )

    def _use(self, session: Session, question: str, caller: Caller) -> None:
        # at the pace of the calls that are made after it
        rest = 0.0 if self.calls.rate is None else 1 / self.calls.rate
        time.sleep(rest)
        caller.call(lambda: as_reply(session.ask(question), self.name), limited=True)
        time.sleep(rest)

    def called(self, calls: CallOptions) -> StagedSystem:
        found = self.application
        return replace(
            self,
            calls=calls,
            application=found.called(calls) if isinstance(found, Paced) else found,
        )


@dataclass(frozen=True, slots=True, repr=False)
class _OneUser:  # of a store, whose records whoever asks may read
    store: Store
    name: str
    calls: CallOptions = CallOptions()

    def open_tenant(self, tenant: str) -> object:
        # a store that makes its own calls begins anew: it keeps the cookies of a session
        calls = self.calls.of_tenant(tenant)
        own = self.store.called(calls) if isinstance(self.store, Paced) else self.store
        return open_over(own, self.name)

    def called(self, calls: CallOptions) -> _OneUser:
        return replace(self, calls=calls)


def as_staged(system: object, name: str, calls: CallOptions, *, store: bool) -> StagedSystem:
    """Sessions of tenants; where a `store` will do, of one whose records anyone may read."""
    if store and not callable(getattr(system, "open_tenant", None)):
        return StagedSystem(_OneUser(require_store(system, name), name, calls), name, calls)
    require_parts(
        system, ("open_tenant",),
        f"the system {name!r} has no {{}}, so no tenant of it can plant a record; {MUST}, and a "
        "YAML file needs `plant`, `remove` and `tenants` (docs/rag.md).",
    )  # fmt: skip
    return StagedSystem(system, name, calls)
