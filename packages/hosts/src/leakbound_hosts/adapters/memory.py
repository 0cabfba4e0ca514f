"""A plain memory: any object with methods that add, delete and search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MethodType
from typing import cast

from leakbound.errors import TargetError
from leakbound.systems.replies import finish, text_in
from leakbound.systems.stores import require_done
from leakbound_hosts.adapters.index_store import IndexRecord, IndexStore, texts_of

ADD = ("add", "remember", "save", "store", "insert")
DELETE = ("delete", "forget", "remove", "discard")
SEARCH = ("ask", "query", "search", "recall", "retrieve")


def memory_store(thing: object, name: str) -> IndexStore | None:
    """The store that a memory object stands for.

    Examples:
        >>> class Memory(dict):
        ...     def add(self, text):
        ...         self[len(self)] = text
        ...         return len(self) - 1
        ...     def forget(self, number):
        ...         del self[number]
        ...     def recall(self, question):
        ...         return list(self.values())
        >>> store = memory_store(Memory(), "notes")
        >>> list(store.add([IndexRecord("Ann called", "")]))
        ['0']
        >>> store.open(()).ask("who?").text
        'Ann called'
    """
    found = [_method(thing, names) for names in (ADD, DELETE, SEARCH)]
    if isinstance(thing, set | frozenset) or not all(found):
        return None
    add, delete, search = (cast("Callable[[object], object]", one) for one in found)
    ids: dict[str, list[object]] = {}
    return IndexStore(
        name, partial(_add, add, delete, search, ids), partial(_delete, delete, ids),
        partial(_ask, search),
    )  # fmt: skip


def _method(thing: object, names: Sequence[str]) -> object:
    methods = (getattr(thing, name, None) for name in names)
    return next((one for one in methods if callable(one)), None)


def _add(
    add: Callable[[object], object], delete: Callable[[object], object],
    search: Callable[[object], object], ids: dict[str, list[object]],
    records: Sequence[IndexRecord],
) -> Iterator[str]:  # fmt: skip
    """Tells the id of each record before it adds the next one."""
    for one in records:
        made = finish(add(_store(one)))
        found = _ids(made)
        if (event := _other_event(made)) is not None:
            for new in found:
                require_done(finish(delete(new)))
            raise _not_added(event)
        if not found:
            raise _no_id(add, made, _holds(search, one))
        known = ids.setdefault(str(found[0]), [])
        known += [one for one in found if one not in known]
        yield str(found[0])


def _store(record: IndexRecord) -> str:
    return f"{record.text}\n{record.label}" if record.label else record.text


def _ids(made: object) -> list[object]:
    """What `add` returned: an id, a record that was added with an id, or a list of them."""
    if isinstance(made, Mapping):
        if _event(made) != "ADD":
            return []
        if "id" in made:
            return _ids(made["id"])
        return _ids(made["results"]) if "results" in made else []
    if isinstance(made, list):
        return [one for each in made for one in _ids(each)]
    return [] if made is None or isinstance(made, bool) or made == "" else [made]


def _event(made: Mapping[object, object]) -> str:
    return str(made.get("event", "ADD")).upper()


def _other_event(made: object) -> str | None:
    """What a memory did to a record that it held, where it says so."""
    if isinstance(made, Mapping):
        inner = made.get("results")
        return _event(made) if _event(made) != "ADD" else _other_event(inner)
    inside = map(_other_event, made) if isinstance(made, list) else ()
    return next((one for one in inside if one is not None), None)


def _not_added(event: str) -> TargetError:
    return TargetError(
        f"the memory answered an add with the event {event!r}: it has changed or kept a record "
        "that it held, whose id is not the audit's to delete. Audit a memory that adds every "
        "record, or a copy of it that is empty."
    )


def _no_id(add: Callable[[object], object], made: object, found: bool) -> TargetError:
    where = "is in the memory; take it out by hand" if found else "was not found by a search"
    method = add.__name__ if isinstance(add, MethodType) else "add"
    return TargetError(
        f"the method {method} of the memory returned {type(made).__name__} without an id; it must "
        "return the id of what it adds (a text or number, or a dict with an id), so that records "
        f"can be taken out again. The record that it was given {where}."
    )


def _delete(
    delete: Callable[[object], object], ids: dict[str, list[object]], gone: list[str]
) -> None:
    """What was deleted before an error is not deleted again."""
    for one in gone:
        while ids.get(one):
            require_done(finish(delete(ids[one][-1])))
            ids[one].pop()
        ids.pop(one, None)


def _ask(search: Callable[[object], object], query: str) -> object:
    return texts_of(_list_all(search(query)), _text)


def _holds(search: Callable[[object], object], record: IndexRecord) -> bool:
    """Is a text among those that a search for it finds?"""
    text, found = _store(record).strip(), _list_all(finish(search(_store(record))))
    every = found if isinstance(found, list | tuple) else [found]
    return any(str(_text(one)).strip() == text for one in every)


def _list_all(found: object) -> object:
    """A memory may return its list as the `results` of a dict."""
    return found["results"] if isinstance(found, Mapping) and "results" in found else found


def _text(found: object) -> object:
    if isinstance(found, Mapping) and isinstance(found.get("memory"), str):
        return found["memory"]
    return found if isinstance(found, str) else text_in(found)
