"""A plain memory: any object with methods that add, delete and search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

from leakbound.systems.adapters.index_store import IndexRecord, IndexStore, texts_of
from leakbound.systems.replies import text_in

__all__ = ["memory_store"]

ADD = ("add", "remember", "save", "store", "insert")
DELETE = ("delete", "forget", "remove", "discard")
SEARCH = ("ask", "query", "search", "recall", "retrieve")


def memory_store(thing: object, name: str) -> IndexStore | None:
    """The store that a memory object stands for.

    Args:
        thing: An object with a method of `ADD` that takes a text and returns an id, one of `DELETE`
            that takes an id, and one of `SEARCH` that takes a question.
        name: For messages.

    Returns:
        The store; None for other objects. A list of texts that is found is one answer.

    Examples:
        >>> class Memory(dict):
        ...     def add(self, text):
        ...         self[len(self)] = text
        ...         return len(self) - 1
        ...     def forget(self, number):
        ...         del self[number]
        ...     def recall(self, question):
        ...         return list(self.values())
        >>> session = memory_store(Memory(), "notes").open(())
        >>> session.store.add([IndexRecord("Ann called", "")])
        ['0']
        >>> session.ask("who?").text
        'Ann called'
    """
    found = [_method(thing, names) for names in (ADD, DELETE, SEARCH)]
    if isinstance(thing, set | frozenset) or not all(found):
        return None
    add, delete, search = (cast("Callable[[object], object]", one) for one in found)
    ids: dict[str, object] = {}
    return IndexStore(
        name, partial(_add, add, ids), partial(_delete, delete, ids), partial(_asked, search)
    )


def _method(thing: object, names: Sequence[str]) -> object:
    methods = (getattr(thing, name, None) for name in names)
    return next((one for one in methods if callable(one)), None)


def _add(
    add: Callable[[object], object], ids: dict[str, object], records: Sequence[IndexRecord]
) -> list[str]:
    made = [add(f"{one.text}\n{one.label}" if one.label else one.text) for one in records]
    ids.update({str(one): one for one in made})
    return [str(one) for one in made]


def _delete(delete: Callable[[object], object], ids: dict[str, object], gone: list[str]) -> None:
    for one in gone:
        delete(ids.pop(one))


def _asked(search: Callable[[object], object], query: str) -> object:
    return texts_of(search(query), _text)


def _text(found: object) -> object:
    return found if isinstance(found, str) else text_in(found)
