"""Names of a run: its identity, its manifest, what it asks, and which paired trials those are."""

from __future__ import annotations

import functools
import hashlib
import inspect
import re
import uuid
from collections.abc import Collection, Iterator
from contextlib import suppress
from types import CodeType, FunctionType, MethodType
from typing import cast

from leakbound._catalogue import is_told
from leakbound._sources import class_source
from leakbound._version import __version__
from leakbound.attacks import Attack
from leakbound.auditing.prepare.build import Handed
from leakbound.auditing.prepare.prepared import AuditParts
from leakbound.auditing.spec.audit_spec import AuditSpec, collection_settings
from leakbound.auditing.store.folder import Settings, run_id
from leakbound.systems import AsyncCallableSystem, CallableSystem, SystemMechanism
from leakbound.tasks import Example, Mechanism, Task
from leakbound.tasks.facts import draws_early
from leakbound.tasks.named_tasks import task_by_name
from leakbound.tasks.rows.datasets import fingerprint

PLACES = frozenset({"data", "data_dir", "encoding"})  # the rows themselves have a fingerprint
ANY = (1.0, 1e-5)  # a claim that stands for all: which pairs there are does not depend on it
DIGITS = 16


def settings_without_places(spec: AuditSpec) -> Settings:
    return {key: value for key, value in spec.flat().items() if key not in PLACES}


def sources_of(mechanism: Mechanism, data: str, model: str, objects: str = "") -> Settings:
    """What a run is of; `objects` is what no spec tells."""
    system = mechanism.name + mechanism.source + objects
    return {"system": system, "data": data, "model": model, "version": __version__}


def objects_of(
    handed: Handed, names: Collection[str], task: Task, attack: Attack,
    mechanism: Mechanism | None = None, named: str | None = None,
) -> str:  # fmt: skip
    """What no spec tells of the objects of an audit, so that no other one goes on with its run."""
    things: list[tuple[str, object]] = [
        ("task", task), ("canary", attack.canary), ("canary", handed.canary),
        ("query", attack.query), ("mechanism", mechanism),
    ]  # fmt: skip
    things = [(name, thing) for name, thing in things if thing is not None]
    kinds: list[type] = [type(thing) for _, thing in things]
    # a task that another package names is public, and a spec has its name alone
    names = {*names, *(["task"] if task_by_name(named) else [])}
    told = [repr(task)] * ("task" in names) + [*map(class_source, kinds)]
    # what `fit` makes follows from the rows and from what was handed over
    given = [one for one in things if one[1] is not attack.canary or one[1] is handed.canary]
    if not all(is_told(thing) for name, thing in given if name in names):
        told.append(uuid.uuid4().hex)
    return "".join(told)


def manifest_of(
    spec: AuditSpec, identity: Settings, key: str, handed: tuple[str, ...], **beside: object
) -> Settings:
    """What a run folder says of itself: its identity, and what a merge needs beside it."""
    flat = spec.flat()
    places = {key: flat[key] for key in sorted(PLACES)}
    return {**identity, "beside": places | beside, "looks": key, "handed": list(handed)}


def run_name(mechanism: Mechanism, query: str, identity: Settings) -> str:
    """Readable name of a run; it does not depend on private rows."""
    plain = re.sub(r"\W+", "_", mechanism.name).strip("_")
    public = {k: v for k, v in identity.items() if k not in ("data", "evidence")}
    return run_id(f"{plain}-{query}", public)


def questions_of(parts: AuditParts, sources: Settings) -> str:
    """Names what is asked and kept, so that other runs may reuse the answers."""
    settings, query = settings_without_places(parts.spec), parts.pairs[0].asked.query
    kept = collection_settings(settings, parts.mechanism, parts.task, query)
    kept |= {"background_copies": parts.pairs.copies.count}
    return run_id("evidence", {"spec": kept, **sources})


def same_trials_key(parts: AuditParts) -> str:
    """Names the paired trials of an audit, so that every result from them is counted: by what
    changes a pair, and not by how it is collected, stored and checked."""
    first = parts.pairs[0]
    asked = (*first.member.context, *first.nonmember.context, Example(first.asked.query.text, ""))
    drawn = {"data": parts.data, "seed": parts.spec.design.seed, "first_pair": fingerprint(asked)}
    return run_id("looks", drawn | _who(parts))


def _who(parts: AuditParts) -> Settings:
    mechanism, task = parts.mechanism, parts.task
    known: Settings = {"name": mechanism.name, "model": parts.model.fingerprint}
    if application := mechanism.application:
        named = parts.spec.system.address is not None
        return known | {"source": source_of(application, named)}
    early = draws_early(mechanism, task, parts.pairs[0].asked.query)
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
    for used in _use(function, names):
        yield from _parts(used, seen)


def _use(function: FunctionType, names: set[str]) -> Iterator[object]:
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
