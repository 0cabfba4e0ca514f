"""Stores put to use: records planted while a session lasts, and one store for many contexts."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from leakbound.errors import TargetError
from leakbound.systems.adapters.index_store import IndexStore
from leakbound.systems.calls import Caller, CallOptions
from leakbound.systems.failures import failure_of
from leakbound.systems.http_store import HttpStore
from leakbound.systems.left_records import PlantedRecord, left_in_store
from leakbound.systems.protocol import Reply, Session, Store
from leakbound.tasks import Context, Example

__all__ = ["OneSession", "SharedStore", "filled_store", "require_absent", "require_store"]

LOG = logging.getLogger("leakbound.systems")


# by id, in their order: a store may know equal records by one id, and removes them once
Records = dict[str, PlantedRecord]


def require_store(system: object, name: str) -> Store:
    """A system that records can be planted in.

    Args:
        system: Any system.
        name: For messages.

    Returns:
        The system.

    Raises:
        TargetError: If it lacks a method of a store.
    """
    missing = [part for part in ("open", "plant", "remove") if not hasattr(system, part)]
    if missing:
        raise TargetError(
            f"the system {name!r} has no {missing[0]}, so no canary can be planted in it; it must "
            "have open(context), plant(record) -> id and remove(id), or be a store that an "
            "adapter knows (docs/rag.md). Or leave --design out."
        )
    return system  # type: ignore[return-value]  # a store by its methods


def require_absent(store: Store, records: Sequence[Example]) -> None:
    """Refuse records that a store holds already, where a search of its own can tell.

    Args:
        store: The store.
        records: What may be put into it (PRIVATE).

    Raises:
        UsageError: If it holds one of them: to take it out again could delete its owner's.
    """
    if isinstance(store, IndexStore):
        store.require_absent(records)


@contextmanager
def filled_store(
    store: Store, records: Iterable[Example], documents: Context, calls: CallOptions | None = None
) -> Iterator[Session]:
    """A session over a store that holds some records beside its documents.

    Args:
        store: The store.
        records: Records that are planted (PRIVATE).
        documents: What the session puts into the store (PRIVATE).
        calls: Retries of what puts records in and takes them out.

    Yields:
        The session. Whatever happens, every planted record is removed at the end.

    Raises:
        TargetError: If a record could not be removed; it names the ids of those that stay.
    """
    caller = Caller(calls or CallOptions())
    with _planted(store, records, caller):
        session = caller.call(partial(store.open, documents))
        try:
            yield session
        finally:
            session.close()


@contextmanager
def _planted(store: Store, records: Iterable[Example], caller: Caller) -> Iterator[None]:
    """Records that are in a store for the length of a `with`."""
    planted = Records()
    try:
        for record in records:
            caller.call(partial(_plant, store, record, planted))
        yield
    except BaseException as error:
        _remove(store, planted, caller, error)
        raise
    _remove(store, planted, caller)


def _plant(store: Store, record: Example, planted: Records) -> None:
    try:
        found: object = store.plant(record)
    except Exception as error:
        _warn_of_copy(error)
        raise
    if not isinstance(found, str | int) or isinstance(found, bool) or found == "":
        raise TargetError(
            f"plant returned {type(found).__name__}; it must return the id of the record, a text "
            "that remove takes. The record may be in the store; take it out by hand."
        )
    planted[found] = PlantedRecord(found, record)  # type: ignore[index, arg-type]  # or a number


def _warn_of_copy(error: Exception) -> None:
    """A record whose call was lost may have been added; it is planted again."""
    failure = failure_of(error)
    if failure is not None and failure.passes and not failure.kind.startswith("status "):
        LOG.warning(
            "plant ended with %s, and is tried again: if the store had added the record, a copy "
            "stays in it under an id that nobody was told.",
            failure.kind,
        )


@dataclass(frozen=True, slots=True, repr=False)
class OneSession:
    """A system whose context is in place already: whatever is opened is that session.

    Attributes:
        session: The session, which somebody else closes.
    """

    stateful: ClassVar[bool] = True  # of one store: asked by one thread
    session: Session

    def open(self, context: Context) -> Session:
        """The session, whatever context is asked for.

        Args:
            context: Not used.

        Returns:
            A session that closing leaves open.
        """
        return _Kept(self.session)


@dataclass(frozen=True, slots=True, repr=False)
class _Kept:
    session: Session

    def ask(self, query: str) -> Reply:
        return self.session.ask(query)

    def close(self) -> None:
        """Nothing to do: it stays open."""


@dataclass(slots=True, repr=False)
class SharedStore:
    """One store for many contexts, which are its documents and a few records each.

    So an index is built once, whatever the number of contexts. Its sessions are opened one after
    the other.

    Attributes:
        store: The store, empty or filled by its owner.
        documents: What is put into it once, before the first session (PRIVATE).
        canaries: Rows that are planted as they are, if any (PRIVATE): the store must hold none.
        calls: Retries of what takes records out.
    """

    stateful: ClassVar[bool] = True  # each context is in the store while it is asked about
    store: Store
    documents: Context
    canaries: Context = ()
    calls: CallOptions = CallOptions()
    _session: Session | None = None

    def open(self, context: Context) -> Session:
        """Plant a few records in the store.

        Args:
            context: The records beside the documents (PRIVATE).

        Returns:
            A session; closing it removes the records.
        """
        if self._session is None:
            require_absent(self.store, (*self.documents, *self.canaries))
            self._session = self.store.open(self.documents)
        planted, caller = Records(), Caller(self.calls)
        try:
            for record in context:
                _plant(self.store, record, planted)
        except BaseException as error:
            _remove(self.store, planted, caller, error)
            raise
        return _Visit(self.store, self._session, planted, caller)

    def called(self, calls: CallOptions) -> SharedStore:
        """Itself, over a store that is called in another way if it makes its own calls.

        Args:
            calls: Pace, time and retries of its calls.

        Returns:
            This store: whoever has it closes its session.
        """
        self.calls = calls
        if isinstance(self.store, HttpStore | IndexStore):
            self.store = self.store.called(calls)
        return self

    def close(self) -> None:
        """Take the documents away; the next session puts them in again."""
        if self._session is not None:
            self._session.close()
            self._session = None


@dataclass(frozen=True, slots=True, repr=False)
class _Visit:
    """A session of a shared store, with its own records."""

    store: Store
    session: Session
    planted: Records
    caller: Caller

    def ask(self, query: str) -> Reply:
        return self.session.ask(query)

    def close(self) -> None:
        _remove(self.store, self.planted, self.caller)


def _remove(
    store: Store, planted: Records, caller: Caller, because: BaseException | None = None
) -> None:
    """Remove what can be removed, the last one first; then say what stays."""
    number, cause = len(planted), None
    for record_id in reversed(list(planted)):
        try:
            caller.call(partial(store.remove, record_id))
            del planted[record_id]
        except Exception as error:
            cause = cause or error
    if cause is not None:
        raise left_in_store([*planted.values()][::-1], number, cause, because) from None
