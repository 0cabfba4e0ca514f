"""Stores put to use: records planted while a session lasts, and one store for many contexts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from leakbound.errors import TargetError
from leakbound.systems.calls import CallOptions
from leakbound.systems.http_store import HttpStore
from leakbound.systems.left_records import PlantedRecord, left_in_store
from leakbound.systems.protocol import Reply, Session, Store
from leakbound.tasks import Context, Example

__all__ = ["OneSession", "SharedStore", "filled_store", "require_store"]


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


@contextmanager
def filled_store(store: Store, records: Iterable[Example], documents: Context) -> Iterator[Session]:
    """A session over a store that holds some records beside its documents.

    Args:
        store: The store.
        records: Records that are planted (PRIVATE).
        documents: What the session puts into the store (PRIVATE).

    Yields:
        The session. Whatever happens, every planted record is removed at the end.

    Raises:
        TargetError: If a record could not be removed; it names the ids of those that stay.
    """
    with _planted(store, records):
        session = store.open(documents)
        try:
            yield session
        finally:
            session.close()


@contextmanager
def _planted(store: Store, records: Iterable[Example]) -> Iterator[None]:
    """Records that are in a store for the length of a `with`."""
    planted = Records()
    try:
        _plant(store, records, planted)
        yield
    except BaseException as error:
        _remove(store, planted, error)
        raise
    _remove(store, planted)


def _plant(store: Store, records: Iterable[Example], planted: Records) -> None:
    for record in records:
        one = PlantedRecord(store.plant(record), record)
        planted[one.id] = one


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
    """

    stateful: ClassVar[bool] = True  # each context is in the store while it is asked about
    store: Store
    documents: Context
    _session: Session | None = None

    def open(self, context: Context) -> Session:
        """Plant a few records in the store.

        Args:
            context: The records beside the documents (PRIVATE).

        Returns:
            A session; closing it removes the records.
        """
        if self._session is None:
            self._session = self.store.open(self.documents)
        planted = Records()
        try:
            _plant(self.store, context, planted)
        except BaseException as error:
            _remove(self.store, planted, error)
            raise
        return _Visit(self.store, self._session, planted)

    def called(self, calls: CallOptions) -> SharedStore:
        """Itself, over a store that is called in another way if it makes its own calls.

        Args:
            calls: Pace, time and retries of its calls.

        Returns:
            This store: whoever has it closes its session.
        """
        if isinstance(self.store, HttpStore):
            self.store = self.store.called(calls)
        return self

    def close(self) -> None:
        """Take the documents away; the next session puts them in again."""
        session, self._session = self._session, None
        if session is not None:
            session.close()


@dataclass(frozen=True, slots=True, repr=False)
class _Visit:
    """A session of a shared store, with its own records."""

    store: Store
    session: Session
    planted: Records

    def ask(self, query: str) -> Reply:
        return self.session.ask(query)

    def close(self) -> None:
        _remove(self.store, self.planted)


def _remove(store: Store, planted: Records, because: BaseException | None = None) -> None:
    """Remove what can be removed, the last one first; then say what stays."""
    number, stay, cause = len(planted), list[PlantedRecord](), None
    while planted:
        _, one = planted.popitem()
        try:
            store.remove(one.id)
        except Exception as error:
            cause = cause or error
            stay.append(one)
    if cause is not None:
        raise left_in_store(stay, number, cause, because) from None
