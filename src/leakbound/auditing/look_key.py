"""What makes two results two looks at the same paired trials: the pairs, and who answers."""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Iterator
from contextlib import suppress
from types import CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, cast

from leakbound.auditing.folder import Settings, run_id
from leakbound.systems import AsyncCallableSystem, CallableSystem, SystemMechanism
from leakbound.tasks import Example
from leakbound.tasks.rows.datasets import fingerprint

if TYPE_CHECKING:
    from leakbound.auditing.prepare import Prepared

ANY = (1.0, 1e-5)  # a claim that stands for all: which pairs there are does not depend on it
DIGITS = 16


def look_key(prepared: Prepared) -> str:
    """Names the paired trials of an audit, so that every result from them is counted.

    How they are collected, stored and checked (batches, control pairs, texts that are kept, the
    state check) changes no pair, and so has no part in the name. Nor has the state of a system that
    is handed over as an object: its pairs are asked again, and it may give the same answers.
    """
    first = prepared.pairs[0]
    asked = (*first.member.context, *first.nonmember.context, Example(first.asked.query.text, ""))
    drawn = {
        "data": prepared.data,
        "seed": prepared.spec.design.seed,
        "first_pair": fingerprint(asked),
    }
    return run_id("looks", drawn | _who(prepared))


def _who(prepared: Prepared) -> Settings:
    mechanism, task = prepared.mechanism, prepared.task
    known: Settings = {"name": mechanism.name, "model": prepared.model.fingerprint}
    if isinstance(mechanism, SystemMechanism):
        named = prepared.spec.system.address is not None
        return known | {"source": source_of(mechanism, named)}
    early = mechanism.noise_in_collect(task, prepared.pairs[0].asked.query)
    fixed = mechanism if early else mechanism.recalibrated(*ANY)
    source = _code(type(mechanism)) if mechanism.source else ""  # "": of this package
    return known | {"source": source, "mechanism": fixed.to_config(), "task": repr(task)}


def source_of(mechanism: SystemMechanism, named: bool) -> str:
    """What tells a system from others, whatever state it is in."""
    return mechanism.source if named else _code(mechanism.system)


def _code(system: object) -> str:
    """A hash of the code that answers; where it stands, and what it holds, change nothing."""
    made = system
    if isinstance(made, CallableSystem | AsyncCallableSystem):
        made = made.function
    return hashlib.sha256("\n".join(_parts(made, set())).encode()).hexdigest()[:DIGITS]


def _parts(thing: object, seen: set[int]) -> Iterator[str]:
    """The code of a callable or object, and of what it uses from its own module."""
    if isinstance(thing, functools.partial):
        yield from _parts(thing.func, seen)
    elif isinstance(thing, MethodType):
        yield thing.__func__.__qualname__
        yield from _parts(type(thing.__self__), seen)
        yield from _parts(thing.__func__, seen)
    elif isinstance(plain := _plain(thing), FunctionType):
        yield from _function(plain, seen)
    else:
        yield from _class(thing if isinstance(thing, type) else type(thing), seen)


def _plain(thing: object) -> object:
    """Without decorators that tell what they wrap, such as those of a cache."""
    if isinstance(thing, property):
        return thing.fget
    if isinstance(thing, staticmethod | classmethod):
        return thing.__func__
    if isinstance(thing, (FunctionType, functools._lru_cache_wrapper)):
        return cast(object, inspect.unwrap(thing))
    return thing


def _function(function: FunctionType, seen: set[int]) -> Iterator[str]:
    if id(function) in seen:
        return
    seen.add(id(function))
    names = set[str]()
    yield function.__qualname__
    yield from _instructions(function.__code__, names)
    for used in _used(function, names):
        yield from _parts(used, seen)


def _used(function: FunctionType, names: set[str]) -> Iterator[object]:
    """Functions and classes that a function names in its module, or holds."""
    known = function.__globals__
    for used in (_plain(known[name]) for name in sorted(names & known.keys())):
        if isinstance(used, FunctionType | type) and used.__module__ == function.__module__:
            yield used
    for held in function.__closure__ or ():
        with suppress(ValueError):  # a cell that is empty still
            if isinstance(held.cell_contents, FunctionType | MethodType | functools.partial):
                yield held.cell_contents


def _instructions(code: CodeType, names: set[str]) -> Iterator[str]:
    """Without files and lines: a script that is edited elsewhere has the same function."""
    names |= {*code.co_names}
    yield repr((code.co_code, code.co_names, code.co_varnames))
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _instructions(one, names)
        else:
            yield repr(sorted(map(repr, one)) if isinstance(one, frozenset) else one)


def _class(kind: type, seen: set[int]) -> Iterator[str]:
    if id(kind) in seen:
        return
    seen.add(id(kind))
    yield kind.__qualname__
    for base in kind.__mro__:
        own = base is kind or base.__module__ == kind.__module__
        for name, value in sorted(vars(base).items()) if own else ():
            if isinstance(method := _plain(value), FunctionType):
                yield name
                yield from _function(method, seen)
