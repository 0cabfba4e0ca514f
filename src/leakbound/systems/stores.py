"""Records in stores for the length of a session, and one store for many contexts."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import ClassVar, cast

from leakbound.errors import TargetError, UsageError
from leakbound.systems.callable import session_of
from leakbound.systems.calls import Caller, CallOptions, Paced
from leakbound.systems.planted import (
    PlantedRecord,
    Records,
    orphan_error,
    remove_left,
    settle,
    warn_of_copy,
)
from leakbound.systems.protocol import FunctionSession, PreparedStore, Session, Store
from leakbound.systems.replies import finish
from leakbound.tasks import Context, Example

TENANTS = ("a", "b")  # as an application is told of them


def require_done(deleted: object) -> None:
    if deleted is False:
        raise TargetError("the store was asked to delete records and returned False.")


def require_parts(thing: object, parts: Sequence[str], sentence: str) -> None:
    """Refuse an object of a user that lacks a method, which the sentence names at {}."""
    lacking = [part for part in parts if not callable(getattr(thing, part, None))]
    if lacking:
        raise TargetError(sentence.replace("{}", lacking[0]))


def require_store(system: object, name: str) -> Store:
    """A system, named in the message, that records can be planted in.

    Raises:
        TargetError: If it lacks a method of a store.
    """
    require_parts(
        system, ("open", "plant", "remove"),
        f"the system {name!r} has no {{}}, so no canary can be planted in it; it must have "
        "plant(record) -> id, remove(id), and open(context) or ask(query), or be a store that an "
        "adapter knows (docs/rag.md). Or choose another --design.",
    )  # fmt: skip
    return cast(Store, system)


def require_contexts(system: object, name: str) -> None:
    if not callable(getattr(system, "open", None)):
        raise UsageError(
            f"the system {name!r} opens sessions of tenants, and no context can be put in place; "
            "add --between tenants or --deleted, or name what takes (context, query)."
        )


def open_over(store: Store, name: str) -> SimpleNamespace:
    """A session of a store over its own records, which plants and removes them, too."""
    session = session_of(finish(store.open(())), name)
    return SimpleNamespace(
        plant=store.plant, ask=session.ask, remove=store.remove, close=session.close
    )


@contextmanager
def fill_store(
    store: Store, records: Iterable[Example], documents: Context,
    calls: CallOptions = CallOptions(), name: str = "store",  # noqa: B008
) -> Iterator[Session]:  # fmt: skip
    """A session over a store that holds some records beside its documents.

    A store of the user gets the records first, as it may build its index when it is opened; a
    service is set up first.

    Args:
        store: The store.
        records: Records that are planted (PRIVATE).
        documents: What the session puts into the store (PRIVATE).
        calls: Retries of what puts records in and takes them out, and whether the store is
            disposable.

    Yields:
        The session. Whatever happens, every planted record is removed at the end.

    Raises:
        TargetError: If a record could not be removed; it names the ids of those that stay.
        UsageError: If nobody has said that the store is disposable; no record was added.
    """
    calls.require_disposable(name)
    remove_left(store, calls.journal, name)
    caller = Caller(calls)
    opened = partial(caller.call, partial(store.open, documents))
    if isinstance(store, PreparedStore):
        with closing(opened()) as session, _records(store, records, caller):
            yield session
    else:
        with _records(store, records, caller), closing(opened()) as session:
            yield session


@contextmanager
def _records(store: Store, records: Iterable[Example], caller: Caller) -> Iterator[None]:
    planted = Records(caller.options.journal)
    try:
        for record in records:
            caller.call(partial(plant_record, store, record, planted))
        yield
    except BaseException as error:
        remove_records(store, planted, caller, error)
        raise
    remove_records(store, planted, caller)


def plant_record(store: Store, record: Example, planted: Records) -> None:
    try:
        found = finish(store.plant(record))
    except Exception as error:
        warn_of_copy(error)
        raise
    if not isinstance(found, str | int) or isinstance(found, bool) or found == "":
        raise TargetError(
            f"plant returned {type(found).__name__}; it must return the id of the record, a text "
            "that remove takes. The record may be in the store; take it out by hand."
        )
    planted[found] = PlantedRecord(found, record)  # type: ignore[index, arg-type]  # or a number


@dataclass(frozen=True, slots=True, repr=False)
class OneSession:
    """A system whose context is in place already: whatever is opened is that session.

    Attributes:
        session: The session, which somebody else closes.
    """

    stateful: ClassVar[bool] = True  # of one store: asked by one thread
    session: Session

    def open(self, context: Context) -> Session:
        """The session, whatever context is asked for; closing it leaves it open."""
        return FunctionSession(self.session.ask)


@dataclass(slots=True, repr=False)
class SharedStore:
    """One store for many contexts, which are its documents and a few records each.

    So an index is built once, whatever the number of contexts. Its sessions are opened one after
    the other.

    Attributes:
        store: The store, empty or filled by its owner.
        documents: What is put into it once, before the first session (PRIVATE).
        copies: Records that a control plants one after the other: when it is asked about, the first
            has been there as long as it takes to plant so many. A store may show new records late,
            so a session with fewer records waits for longer than that.
        calls: Retries of what takes records out, and whether the store is disposable.
    """

    stateful: ClassVar[bool] = True  # each context is in the store while it is asked about
    store: Store
    documents: Context
    copies: int = 1
    calls: CallOptions = CallOptions()
    name: str = "store"
    _session: Session | None = None
    _each: float = 0.0  # seconds that it took to plant a record

    def open(self, context: Context) -> Session:
        """Plant a few records (PRIVATE) beside the documents; closing the session removes them.

        Raises:
            UsageError: If nobody has said that the store is disposable.
        """
        self.calls.require_disposable(self.name)
        if self._session is None:
            remove_left(self.store, self.calls.journal, self.name)
            self._session = self.store.open(self.documents)
        planted, caller = Records(self.calls.journal), Caller(self.calls)
        try:
            self._plant_all(context, planted)
        except BaseException as error:
            remove_records(self.store, planted, caller, error)
            raise
        removing = partial(remove_records, self.store, planted, caller)
        return FunctionSession(self._session.ask, removing)

    def _plant_all(self, context: Context, planted: Records) -> None:
        """Waits whether there is a record or not: an answer after a pause takes longer."""
        began = time.monotonic()
        for record in context:
            plant_record(self.store, record, planted)
        if context:
            self._each = (time.monotonic() - began) / len(context)
        settle((1 + 1.5 * max(0, self.copies - len(context))) * self._each)

    def called(self, calls: CallOptions) -> SharedStore:
        """This store, over one that is called in another way if it makes its own calls."""
        self.calls = calls
        if isinstance(self.store, Paced):
            self.store = self.store.called(calls)
        return self

    def close(self) -> None:
        """Take the documents away; the next session puts them in again."""
        if self._session is not None:
            self._session.close()
            self._session = None


def remove_records(
    store: Store, planted: Records, caller: Caller, because: BaseException | None = None
) -> None:
    """Remove what can be removed, the last one first; then say what stays."""
    number, cause = len(planted), None  # type: int, BaseException | None
    for record_id in reversed(list(planted)):
        failed = _try_remove(store, record_id, planted, caller)
        if isinstance(failed, KeyboardInterrupt):
            _try_remove(store, record_id, planted, caller)
        cause = cause or failed
    if planted and cause is not None:
        raise orphan_error([*planted.values()][::-1], number, cause, because) from None
    if isinstance(cause, KeyboardInterrupt):
        raise cause


def _try_remove(
    store: Store, record_id: str, planted: Records, caller: Caller
) -> BaseException | None:
    """The error, if any: the others are taken out, and a lost reply may have left nothing."""
    tries = count()

    def attempt() -> None:
        first = not next(tries)
        deleted = finish(store.remove(record_id))  # type: ignore[func-returns-value]
        if first:
            require_done(deleted)

    try:
        caller.call(attempt)
    except BaseException as error:
        return error
    del planted[record_id]
    return None
