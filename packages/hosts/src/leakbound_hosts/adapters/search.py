"""Finds the store within an application, so that nobody has to name it beside the application."""

from __future__ import annotations

import functools
import types
from collections import deque
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from leakbound.errors import UsageError

# steps from an application to its store: chains nest steps in steps, each a few attributes deep
DEPTH = 12
MOST = 20_000  # objects that are looked at: far above what an application holds without its data
PLAIN = (str, bytes, int, float, complex, bool, type, types.ModuleType, np.ndarray, np.generic)


def bases(thing: object) -> frozenset[str]:
    """Full names of the classes that an object inherits from."""
    return frozenset(f"{one.__module__}.{one.__qualname__}" for one in type(thing).__mro__)


def find_inside(thing: object, is_it: Callable[[object], bool]) -> object | None:
    """The nearest object that an application holds in its attributes, steps, closures or globals.

    Examples:
        >>> from functools import partial
        >>> find_inside(partial(print, {"a": 1j}), lambda one: one == 1j) is None  # plain values
        True
        >>> find_inside({"a": [frozenset({2})]}, lambda one: isinstance(one, frozenset))
        frozenset({2})
    """
    return next(_inside(thing, is_it), None)


def require_one_store(thing: object, is_store: Callable[[object], bool], name: str) -> None:
    """Refuse an application that holds several stores: one may be a log or a cache."""
    found = list(_inside(thing, is_store))
    if len(found) > 1:
        kinds = ", ".join(sorted(type(one).__qualname__ for one in found))
        raise UsageError(
            f"the system {name!r} holds {len(found)} stores ({kinds}), and nothing says "
            "which of them holds the records. Name the store itself as the system; or an "
            "object of your own whose open(context), plant(record) and remove(id) use the right "
            "one (docs/rag.md)."
        )


def _inside(thing: object, is_it: Callable[[object], bool]) -> Iterator[object]:
    """The nearest first; what one of them holds is its own affair."""
    seen, queue = {id(thing)}, deque([(thing, 0)])
    while queue and len(seen) < MOST:
        one, depth = queue.popleft()
        if is_it(one):
            yield one
            continue
        for part in _parts(one) if depth < DEPTH else ():
            if not isinstance(part, PLAIN) and part is not None and id(part) not in seen:
                seen.add(id(part))
                queue.append((part, depth + 1))


def _parts(thing: object) -> Iterator[object]:
    """What an object holds; nothing is computed for it."""
    if isinstance(thing, Mapping):
        yield from list(thing.values())
    elif isinstance(thing, list | tuple | set | frozenset):
        yield from thing
    elif isinstance(thing, types.MethodType):
        yield thing.__self__
        yield thing.__func__
    elif isinstance(thing, functools.partial):
        yield from (thing.func, thing.args, thing.keywords)
    elif isinstance(thing, types.FunctionType):
        yield from _capture(thing)
    else:
        yield from _attributes(thing)


def _capture(function: types.FunctionType) -> Iterator[object]:
    """Of a function: its closure, its defaults, and the globals that its code names."""
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not filled yet
            continue
    yield from function.__defaults__ or ()
    names = function.__code__.co_names
    yield from (function.__globals__[name] for name in names if name in function.__globals__)


def _attributes(thing: object) -> Iterator[object]:
    yield from list(vars(thing).values()) if hasattr(thing, "__dict__") else ()
    for kind in type(thing).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if isinstance(kind.__dict__.get(name), types.MemberDescriptorType):
                yield from _slot(thing, kind, name)


def _slot(thing: object, kind: type, name: str) -> Iterator[object]:
    try:
        yield kind.__dict__[name].__get__(thing, kind)
    except AttributeError:  # not set
        return
