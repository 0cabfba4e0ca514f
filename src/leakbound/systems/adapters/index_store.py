"""A store made of three functions: add records, delete them, ask."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial

from leakbound.errors import TargetError
from leakbound.models.content import text_only
from leakbound.systems.calls import Caller, CallOptions
from leakbound.systems.left_records import PlantedRecord, left_in_store, warn_of_copy
from leakbound.systems.protocol import Reply
from leakbound.systems.replies import as_reply
from leakbound.systems.settling import settle
from leakbound.tasks import Context, Example

__all__ = ["IndexRecord", "IndexStore", "require_done", "texts_of", "undone"]

BLOCK = 256  # records that are added at once: an embedder takes them together
PLANTED = "planted"  # who adds single records


@dataclass(frozen=True, slots=True, repr=False)
class IndexRecord:
    """What a framework is to hold of an example (PRIVATE).

    Attributes:
        text: The input.
        label: The label; "" for a plain document.
    """

    text: str
    label: str

    @classmethod
    def of(cls, example: Example, name: str) -> IndexRecord:
        """The record of an example.

        Args:
            example: An example (PRIVATE).
            name: Of the store, for messages.

        Returns:
            Its input and its label.

        Raises:
            UsageError: If the input holds an image.
        """
        return cls(text_only(example.input, name), example.label)


@dataclass(frozen=True, slots=True)
class IndexStore:
    """A store of a framework. What it holds beside the records of an audit stays as it is.

    Attributes:
        name: For messages.
        add: Adds records and returns an id for each; where it is a generator, an id as soon as it
            is known, so that records are taken out again if a later one fails.
        delete: Deletes records by their ids.
        ask: Answers a query; what it returns is read as that of any system.
        stateful: True: sessions are opened one after the other.
        calls: Retries of the calls that delete, and whether the index is disposable.
    """

    name: str
    add: Callable[[Sequence[IndexRecord]], Iterable[str]] = field(repr=False)
    delete: Callable[[list[str]], None] = field(repr=False)
    ask: Callable[[str], object] = field(repr=False)
    stateful: bool = True
    calls: CallOptions = field(default=CallOptions(), repr=False, compare=False)
    # who put a record there, by its id: an index may know equal records by one id
    _uses: dict[str, set[object]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def called(self, calls: CallOptions) -> IndexStore:
        """The same store, called in another way.

        Args:
            calls: Pace, time and retries.

        Returns:
            A new object, which knows nothing of what this one has added.
        """
        return replace(self, calls=calls)

    def plant(self, record: Example) -> str:
        """Add a record.

        Args:
            record: The record (PRIVATE).

        Returns:
            Its id in the index.
        """
        return self.add_all((record,))[0].id

    def remove(self, record_id: str) -> None:
        """Delete a record, unless a document of the session has the same id.

        Args:
            record_id: What `plant` returned.
        """
        self._release([record_id], PLANTED)

    def add_all(self, context: Sequence[Example], owner: object = PLANTED) -> list[PlantedRecord]:
        """Add records, a few hundred at once; all of them or none.

        Args:
            context: The records (PRIVATE).
            owner: Who will take them out again.

        Returns:
            The records with their ids.

        Raises:
            TargetError: If the index does not return an id for each, or keeps some of them though
                others could not be added.
        """
        records, added = [IndexRecord.of(one, self.name) for one in context], list[PlantedRecord]()
        try:
            for at in range(0, len(records), BLOCK):
                block = slice(at, at + BLOCK)
                self._add_block(context[block], records[block], owner, added)
        except BaseException as error:
            warn_of_copy(error)
            self.take_out(added, owner, error)
            raise
        return added

    def _add_block(
        self, block: Sequence[Example], records: Sequence[IndexRecord], owner: object,
        added: list[PlantedRecord],
    ) -> None:  # fmt: skip
        number = 0
        for number, one in enumerate(self.add(records), 1):
            added.append(PlantedRecord(str(one), block[min(number, len(block)) - 1]))
            self._uses.setdefault(str(one), set()).add(owner)
        if number != len(block):
            raise TargetError(
                f"the store {self.name!r} returned {number} ids for {len(block)} records; it must "
                "return one for each, so that they can be removed."
            )

    def take_out(
        self, added: list[PlantedRecord], owner: object, because: BaseException | None = None
    ) -> None:
        """Delete records, all at once or, where that fails, one by one.

        Args:
            added: What `add_all` returned; it keeps those that could not be deleted.
            owner: Who added them.
            because: What ended the use of the store, if that was an error.

        Raises:
            TargetError: If some could not be deleted; it names their ids.
        """
        caller, number = Caller(self.calls), len(added)
        cause = self._failed([one.id for one in added], owner, caller)
        if cause is not None:
            added[:] = [one for one in reversed(added) if self._failed([one.id], owner, caller)]
            if added:
                raise left_in_store(added, number, cause, because) from None
        added.clear()
        if isinstance(cause, KeyboardInterrupt):
            raise cause

    def _failed(self, ids: list[str], owner: object, caller: Caller) -> BaseException | None:
        try:
            caller.call(partial(self._release, ids, owner))
        except BaseException as error:  # whatever it is, the other records are taken out
            return error
        return None

    def _release(self, ids: Sequence[str], owner: object) -> None:
        """Delete those that nobody else has added."""
        gone = [one for one in dict.fromkeys(ids) if self._uses.get(one, set()) <= {owner}]
        if gone:
            self.delete(gone)
        for one in ids:
            self._uses.get(one, set()).discard(owner)
            if not self._uses.get(one):
                self._uses.pop(one, None)

    def open(self, context: Context) -> IndexSession:
        """Add the records of a context.

        Args:
            context: The examples (PRIVATE).

        Returns:
            A session; closing it deletes them.

        Raises:
            UsageError: If there are some, and nobody has said that the index is disposable.
        """
        if context:
            self.calls.require_disposable(self.name)
        owner, began = object(), time.monotonic()
        added = self.add_all(context, owner)
        try:
            settle(1.5 * (time.monotonic() - began))
        except BaseException as error:
            self.take_out(added, owner, error)
            raise
        return IndexSession(self, added, owner)


@dataclass(frozen=True, slots=True, repr=False)
class IndexSession:
    """A context in an index.

    Attributes:
        store: The index.
        added: Records of the context that are in it.
        owner: By which the index knows that they are of this session.
    """

    store: IndexStore
    added: list[PlantedRecord]
    owner: object

    def ask(self, query: str) -> Reply:
        """Ask the application.

        Args:
            query: What the user sends.

        Returns:
            What it answers.
        """
        return as_reply(self.store.ask(query), self.store.name)

    def close(self) -> None:
        """Delete the records of the context.

        Raises:
            TargetError: If some could not be deleted; it names their ids.
        """
        self.store.take_out(self.added, self.owner)


@contextmanager
def undone(delete: Callable[[list[str]], object], ids: Iterable[str]) -> Iterator[None]:
    """Delete what a framework may have added in part, where it fails while it adds.

    Args:
        delete: Deletes records by their ids.
        ids: Ids that the records were given.

    Yields:
        Nothing. An id that is not there is no error.
    """
    try:
        yield
    except BaseException:
        for one in ids:
            with suppress(Exception):
                delete([one])
        raise


def require_done(deleted: object) -> None:
    """Refuse to take a record for deleted where the store says that it did not delete it.

    Args:
        deleted: What its method returned; many return nothing.

    Raises:
        TargetError: If it returned False.
    """
    if deleted is False:
        raise TargetError("the store was asked to delete records and returned False.")


def texts_of(found: object, read: Callable[[object], object]) -> object:
    """What a list of retrieved documents says; anything else is the answer itself.

    Args:
        found: What a framework returned.
        read: The text of a document; None for what is none.

    Returns:
        The texts of the documents, one below the other.

    Examples:
        >>> texts_of(["a", "b"], str.upper)
        'A\\nB'
        >>> texts_of("an answer", str.upper)
        'an answer'
    """
    if not isinstance(found, list | tuple):
        return found
    return "\n".join(str(read(one) or "") for one in found)
