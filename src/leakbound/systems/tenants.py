"""Two tenants of one application: one plants a record and uses it, the other one asks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, cast

from leakbound.errors import TargetError, UsageError
from leakbound.models.content import Private
from leakbound.systems.callable import session_of
from leakbound.systems.calls import Caller, CallOptions, Paced
from leakbound.systems.planted import Records, settle
from leakbound.systems.protocol import FunctionSession, Session, Store
from leakbound.systems.replies import as_reply, finish
from leakbound.systems.stores import plant_record, remove_records
from leakbound.tasks import Context, Example

TENANTS = ("a", "b")
PARTS = ("plant", "remove")
MUST = "open_tenant(tenant) must open a session with plant(record) -> id, ask(query) and remove(id)"


class TenantContext(Private, tuple[Example, ...]):  # the records of one of two tenants
    owner: int  # which tenant plants the records, 0 or 1
    asker: int  # who asks the query; of a control, the owner
    first: int  # whose session is opened first
    before: tuple[str, ...]  # what the owner asks before, so that caches and memories know them

    @classmethod
    def of(
        cls, records: Context, owner: int, asker: int, first: int, before: Sequence[str] = ()
    ) -> TenantContext:
        found = cls(records)
        found.owner, found.asker, found.first, found.before = owner, asker, first, (*before,)
        return found


@dataclass(frozen=True, slots=True, repr=False)
class _TenantSession:
    session: Session
    plant: Callable[[Example], Any]
    remove: Callable[[str], Any]


@dataclass(slots=True, repr=False)
class TenantSystem:
    stateful: ClassVar[bool] = True  # whatever both tenants share is in place while one asks
    application: Any
    name: str = "system"
    calls: CallOptions = CallOptions()

    @property
    def tenants(self) -> tuple[str, str]:
        named = tuple(map(str, getattr(self.application, "tenants", TENANTS)))
        if len(set(named)) == len(named) == len(TENANTS):
            return cast("tuple[str, str]", named)
        raise UsageError(
            f"the system {self.name!r} names the tenants {', '.join(named) or 'none'}; a tenant "
            "audit is of two, with different names."
        )

    def open(self, context: Context) -> Session:
        # Fresh sessions: the owner plants its records and uses them, and closing removes them.
        if not isinstance(context, TenantContext):
            raise UsageError(f"the system {self.name!r} opens sessions of tenants; {ADVICE}")
        self.calls.require_disposable(self.name)
        journal = self.calls.journal
        planted = Records(journal and journal.of(self.tenants[context.owner]))
        caller = Caller(self.calls)
        self.remove_left()
        with ExitStack() as ending:
            sessions = self._sessions(context, ending)
            owner, asker = sessions[context.owner], sessions[context.asker]
            store = cast(Store, owner)
            ending.push(lambda _, error, __: remove_records(store, planted, caller, error))
            began = time.monotonic()
            for record in context:
                caller.call(partial(plant_record, store, record, planted))
            settle(time.monotonic() - began)
            for question in context.before:
                self._use(owner.session, question, caller)
            closing = ending.pop_all()
        return FunctionSession(asker.session.ask, closing.close)

    def _sessions(self, context: TenantContext, ending: ExitStack) -> dict[int, _TenantSession]:
        wanted = sorted({context.owner, context.asker}, key=lambda one: one != context.first)
        opened, found = list[object](), dict[int, _TenantSession]()
        for at in wanted:
            opened.append(finish(self.application.open_tenant(self.tenants[at])))
            found[at] = _tenant_session(opened[-1], self.name)
            ending.callback(found[at].session.close)
        if len(opened) > 1 and opened[0] is opened[1]:
            raise TargetError(
                f"the system {self.name!r} opened one session for both tenants; each tenant needs "
                "a session of its own."
            )
        return found

    def remove_left(self) -> None:
        # what a process that was killed had planted
        if self.calls.journal is None or not self.calls.journal.left():
            return
        with ExitStack() as ending:

            def remover(tenant: str) -> Callable[[str], object]:
                found = _tenant_session(finish(self.application.open_tenant(tenant)), self.name)
                ending.callback(found.session.close)
                return lambda record: finish(found.remove(record))

            self.calls.journal.remove_left(self.name, remover)

    def _use(self, session: Session, question: str, caller: Caller) -> None:
        # at the pace of the calls that the other tenant makes
        rest = 0.0 if self.calls.rate is None else 1 / self.calls.rate
        time.sleep(rest)
        caller.call(lambda: as_reply(session.ask(question), self.name), limited=True)
        time.sleep(rest)

    def called(self, calls: CallOptions) -> TenantSystem:
        found = self.application
        return replace(
            self,
            calls=calls,
            application=found.called(calls) if isinstance(found, Paced) else found,
        )


ADVICE = "audit it with --between tenants."


def _tenant_session(opened: object, name: str) -> _TenantSession:
    lacking = [part for part in PARTS if not callable(getattr(opened, part, None))]
    if lacking:
        raise TargetError(
            f"the system {name!r} opened {type(opened).__name__} for a tenant, which has no "
            f"{lacking[0]}; {MUST}."
        )
    thing = cast(Any, opened)
    return _TenantSession(session_of(opened, name), thing.plant, thing.remove)


def as_tenants(system: object, name: str, calls: CallOptions) -> TenantSystem:
    found = system.application if isinstance(system, TenantSystem) else system
    if not callable(getattr(found, "open_tenant", None)):
        raise TargetError(
            f"the system {name!r} has no open_tenant, so no tenant of it can plant a record; "
            f"{MUST}, and a YAML file needs `plant`, `remove` and `tenants` (docs/rag.md)."
        )
    made = TenantSystem(found, name, calls)
    made.tenants  # noqa: B018  # refused here, before any call
    return made
