"""Catalogues of classes by name, and the configuration `{kind: NAME, option: value}` of one of
them.

A catalogue holds the classes of this package and those that installed packages register through an
entry point. Those are imported when they are named, so that a broken package stops nobody who does
not use it. A catalogue is read-only: nobody adds to it at run time. An object that is handed over
needs no entry.
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import sys
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from importlib import metadata
from itertools import chain
from typing import Any, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, model_validator

from leakbound._sources import is_made
from leakbound.errors import IgnoredEntryPoint, UsageError, unknown_name

T = TypeVar("T")


class Catalogue(Mapping[str, type[T]], Generic[T]):
    """Classes by their `name`: those given, then those of the entry-point group."""

    def __init__(self, what: str, group: str, builtin: Iterable[type[T]]) -> None:
        self.what, self.group = what, group
        self._own = {_name(kind): kind for kind in builtin}
        self._loaded: dict[str, type[T]] = {}
        self._warned: set[str] = set()

    @cached_property
    def _entries(self) -> dict[str, metadata.EntryPoint]:
        """What installed packages register, imported only when it is named."""
        found: dict[str, metadata.EntryPoint] = {}
        for entry in entries_of(self.group):
            found.setdefault(entry.name, entry)
        return found

    def _load(self, entry: metadata.EntryPoint) -> type[T]:
        kind: type[T] = load_entry(self.what, entry)
        if not inspect.isclass(kind) or _name(kind) != entry.name:
            raise UsageError(
                f"{self.what} {entry.name!r} is registered as {entry.value!r}; the entry point "
                f"must lead to a class whose attribute name is {entry.name!r}. Tell its authors."
            )
        return kind

    def __getitem__(self, name: str) -> type[T]:
        if name in self._own:
            if name in self._entries and name not in self._warned:
                self._warned.add(name)
                warnings.warn(self._ignored(name), IgnoredEntryPoint, stacklevel=2)
            return self._own[name]
        if name not in self._entries:
            raise unknown_name(self.what, name, self)
        if name not in self._loaded:
            self._loaded[name] = self._load(self._entries[name])
        return self._loaded[name]

    def _ignored(self, name: str) -> str:
        return (
            f"{self.what} {name!r} is that of leakbound; {self._entries[name].value!r}, which "
            "another package registers under the same name, is ignored. Rename its entry point, "
            "or uninstall the package."
        )

    def __contains__(self, name: object) -> bool:
        return name in self._own or name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter({**self._own, **self._entries})

    def __len__(self) -> int:
        return len({**self._own, **self._entries})

    @property
    def usable(self) -> dict[str, type[T]]:
        """The classes by name, without those that cannot be imported."""
        return {
            name: self._own[name] if name in self._own else self[name]
            for name in self
            if name in self._own or name not in self.problems
        }

    @cached_property
    def problems(self) -> dict[str, str]:
        """What is wrong with entry points, by name: it is taken, or leads to no class."""
        found = {name: self._ignored(name) for name in self._entries if name in self._own}
        for name in self._entries.keys() - self._own.keys():
            try:
                self[name]
            except UsageError as error:
                found[name] = str(error)
        return found

    def build(self, component: Component) -> T:
        """The object that a component describes."""
        return construct(self[component.kind], component.options, component.kind)


class Component(BaseModel):
    """`{kind: NAME, option: value}`: one class of a catalogue with its options, as in a YAML file.

    A plain name stands for the class with its default options. `python` names the class of an
    object that no catalogue holds; such a component describes what ran, and cannot be built from.
    """

    model_config = ConfigDict(extra="allow", frozen=True)
    kind: str
    python: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: object) -> object:
        if isinstance(value, str):
            return {"kind": value}
        if isinstance(value, Mapping) and "kind" not in value:
            raise ValueError("it must name its kind, such as {kind: hex, digits: 16}")
        return value

    @property
    def options(self) -> dict[str, object]:
        """Options by name, without the defaults that were left out."""
        return dict(self.model_extra or {})

    @classmethod
    def of(cls, thing: object, catalogue: Mapping[str, type[object]]) -> Component:
        """The component that describes an object: its name and its plain fields."""
        name, kind = _name_of(thing), type(thing)
        listed = _lists(catalogue, name, kind)
        fields = options_of(thing)
        where = None if listed and fields is not None else f"{kind.__module__}:{kind.__qualname__}"
        return cls.model_validate({"kind": name, "python": where, **(fields or {})})

    def to_config(self) -> dict[str, object]:
        """Plain values for a YAML or JSON file; `python` only where it is set."""
        found = {"kind": self.kind, **self.options}
        return found if self.python is None else {**found, "python": self.python}


def options_of(thing: object) -> dict[str, object] | None:
    """The fields of a dataclass as plain values."""
    if not dataclasses.is_dataclass(thing) or isinstance(thing, type):
        return None
    found = {f.name: getattr(thing, f.name) for f in dataclasses.fields(thing) if f.init and f.repr}
    plain = all(_is_plain(value) for value in found.values())
    return {name: _plain(value) for name, value in found.items()} if plain else None


def is_told(thing: object) -> bool:
    """Do the plain fields of a dataclass, which a record shows, tell all that an object holds?"""
    state: Any = object.__getstate__(thing)
    held = {*chain(*filter(None, state))} if isinstance(state, tuple) else {*(state or ())}
    fields = dataclasses.fields(thing) if dataclasses.is_dataclass(thing) else ()
    told = {one.name for one in fields if one.init and one.repr}
    # what is made later, as by `fit`, is as it was
    later = (one for one in fields if not one.init and one.default is not dataclasses.MISSING)
    told |= {one.name for one in later if getattr(thing, one.name) is one.default}
    if not held <= told:
        return False
    plain = not any(not is_made(kind) and kind is not object for kind in type(thing).__mro__)
    return plain and (not held or options_of(thing) is not None)


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, str | int | float)


def _plain(value: object) -> object:
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


def option_types(make: Callable[..., object]) -> dict[str, object]:
    """Names and types of the options of a class or a function that makes one."""
    hints = get_type_hints(make.__init__ if inspect.isclass(make) else make)
    return {name: hints.get(name, Any) for name in inspect.signature(make).parameters}


def construct(make: Callable[..., T], options: Mapping[str, object], name: str) -> T:
    """Call `make` with options from a file or the command line."""
    known = option_types(make)
    for option, value in options.items():
        if option not in known:
            raise _unknown_option(name, option, known)
        if not _fits(value, known[option]):
            must = _type_words(known[option])
            raise UsageError(f"the option {option} of {name} is {value!r}; it must be {must}.")
    missing = [
        p.name
        for p in inspect.signature(make).parameters.values()
        if p.default is p.empty and p.name not in options and p.kind is not p.VAR_KEYWORD
    ]
    if missing:
        raise UsageError(f"{name} needs the option {missing[0]}; add it.")
    return make(**{option: _as_tuple(value) for option, value in options.items()})


def _unknown_option(name: str, option: str, known: Mapping[str, object]) -> UsageError:
    near = difflib.get_close_matches(option, known, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    listed = f"its options are: {', '.join(known)}" if known else "it has none"
    return UsageError(f"{name} has no option {option!r}; {listed}.{hint}")


def _name(kind: type[object]) -> str:
    """The class attribute `name`; "" where instances have names of their own, or none."""
    found = next((vars(base)["name"] for base in kind.__mro__ if "name" in vars(base)), "")
    return found if isinstance(found, str) else ""


def _name_of(thing: object) -> str:
    """The name of an object; that of its class where it has none."""
    kind = type(thing)
    own = thing.name if hasattr(thing, "name") else ""
    return own if isinstance(own, str) and own else kind.__name__


def _lists(catalogue: Mapping[str, type[object]], name: str, kind: type[object]) -> bool:
    """Is a class that of its name? An entry point that cannot be imported leads to none."""
    try:
        return name in catalogue and catalogue[name] is kind
    except UsageError:
        return False


def _as_tuple(value: object) -> object:
    return tuple(map(_as_tuple, value)) if isinstance(value, list) else value


def _fits(value: object, kind: object) -> bool:
    """Is a plain value of a type? What is not a plain type is left to the class itself."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return any(_fits(value, one) for one in inner)
    if origin is Literal:
        return value in inner
    if origin is tuple:
        each = inner[0] if inner else Any
        return isinstance(value, list | tuple) and all(_fits(one, each) for one in value)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if kind in (str, bool, type(None)):
        return isinstance(value, kind)
    return True


def _type_words(kind: object) -> str:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return " or ".join(_type_words(one) for one in inner)
    if origin is Literal:
        return "one of " + ", ".join(map(repr, inner))
    if origin is tuple:
        return f"a list, each {_type_words(inner[0])}" if inner else "a list"
    named: dict[object, str] = {
        float: "a number",
        int: "a whole number",
        str: "a text",
        bool: "true or false",
    }
    return named.get(kind, "none" if kind is type(None) else str(kind))


def load_entry(what: str, entry: metadata.EntryPoint) -> Any:
    """What an entry point of another package leads to."""
    try:
        return entry.load()
    except Exception as error:
        raise UsageError(
            f"{what} {entry.name!r}, registered as {entry.value!r}, cannot be imported "
            f"({type(error).__name__}); reinstall or uninstall the package that brings it."
        ) from None


def opener_of(group: str, scheme: str) -> Callable[[str], object] | None:
    """What another package registers to open addresses of a scheme."""
    for entry in entries_of(group).select(name=scheme):
        found: Callable[[str], object] = load_entry("the scheme", entry)
        return found
    return None


def schemes(group: str) -> dict[str, str]:
    """Schemes that other packages register, each with where it leads."""
    return {entry.name: entry.value for entry in entries_of(group)}


def entries_of(group: str) -> metadata.EntryPoints:
    """What installed packages register under a name."""
    return _entries(tuple(sys.path)).select(group=group)


@lru_cache  # 20 ms for each search of a path
def _entries(path: tuple[str, ...]) -> metadata.SelectableGroups:
    return metadata.entry_points()
