"""A store made of three functions: add records, delete them, ask."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from leakbound.errors import TargetError
from leakbound.models.content import text_only
from leakbound.systems.protocol import Reply
from leakbound.systems.replies import as_reply
from leakbound.tasks import Context, Example

__all__ = ["IndexStore", "IndexRecord", "texts_of"]

BLOCK = 256  # records that are added at once: an embedder takes them together


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
        add: Adds records and returns an id for each.
        delete: Deletes records by their ids.
        ask: Answers a query; what it returns is read as that of any system.
        stateful: True: sessions are opened one after the other.
    """

    name: str
    add: Callable[[Sequence[IndexRecord]], list[str]] = field(repr=False)
    delete: Callable[[list[str]], None] = field(repr=False)
    ask: Callable[[str], object] = field(repr=False)
    stateful: bool = True

    def plant(self, record: Example) -> str:
        """Add a record.

        Args:
            record: The record (PRIVATE).

        Returns:
            Its id in the index.
        """
        return self.add_all((record,))[0]

    def remove(self, record_id: str) -> None:
        """Delete a record.

        Args:
            record_id: What `plant` returned.
        """
        self.delete([record_id])

    def add_all(self, context: Sequence[Example]) -> list[str]:
        """Add records, a few hundred at once.

        Args:
            context: The records (PRIVATE).

        Returns:
            Their ids.

        Raises:
            TargetError: If the index does not return an id for each.
        """
        records, found = [IndexRecord.of(one, self.name) for one in context], list[str]()
        for at in range(0, len(records), BLOCK):
            block = records[at : at + BLOCK]
            ids = list(map(str, self.add(block)))
            if len(ids) != len(block):
                raise TargetError(
                    f"the store {self.name!r} returned {len(ids)} ids for {len(block)} records; it "
                    "must return one for each, so that they can be removed."
                )
            found += ids
        return found

    def open(self, context: Context) -> IndexSession:
        """Add the records of a context.

        Args:
            context: The examples (PRIVATE).

        Returns:
            A session; closing it deletes them.
        """
        return IndexSession(self, self.add_all(context))


@dataclass(frozen=True, slots=True, repr=False)
class IndexSession:
    """A context in an index.

    Attributes:
        store: The index.
        ids: Ids of the records of the context.
    """

    store: IndexStore
    ids: list[str]

    def ask(self, query: str) -> Reply:
        """Ask the application.

        Args:
            query: What the user sends.

        Returns:
            What it answers.
        """
        began = time.perf_counter()
        answer = self.store.ask(query)
        return as_reply(answer, self.store.name, time.perf_counter() - began)

    def close(self) -> None:
        """Delete the records of the context."""
        ids = self.ids[:]
        self.ids.clear()
        if ids:
            self.store.delete(ids)


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
