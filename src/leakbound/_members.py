"""Whether an object has what a protocol asks for: every member, and methods with its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from typing import Generic, Protocol

from leakbound.errors import UsageError

ProtocolClass = type[object]
ROOTS: tuple[object, ...] = (object, Protocol, Generic)


def members_of(protocol: ProtocolClass) -> tuple[str, ...]:
    """Names of the members that a protocol declares or defines; none of them is optional."""
    found: dict[str, None] = {}
    for kind in reversed([kind for kind in protocol.__mro__ if kind not in ROOTS]):
        found |= dict.fromkeys((*vars(kind).get("__annotations__", {}), *vars(kind)))
    return tuple(name for name in found if not name.startswith("_"))


def require_members(what: str, thing: object, protocol: ProtocolClass, base: str) -> None:
    """Refuse an object that lacks a member of a protocol, or has a method of other arguments."""
    if isinstance(thing, type):
        made = f"{thing.__name__}(...)"
        raise UsageError(f"{what} is the class {thing.__name__}; it must be a name, or {made}.")
    if missing := [name for name in members_of(protocol) if not hasattr(thing, name)]:
        raise UsageError(
            f"{what} is {type(thing).__name__}; it must be a name, or an object with every member "
            f"of {base}, and it lacks {', '.join(missing)}. Define each of them, or derive the "
            f"class from {base}, which has defaults for most."
        )
    require_arguments(thing, protocol)


def require_arguments(thing: object, protocol: ProtocolClass) -> None:
    """Refuse an object whose methods take other arguments than those of a protocol."""
    for name in members_of(protocol):
        declared = inspect.getattr_static(protocol, name, None)
        if inspect.isfunction(declared):
            wanted = [one for one in inspect.signature(declared).parameters if one != "self"]
            _require_arguments(thing, name, wanted)


def _require_arguments(thing: object, name: str, wanted: list[str]) -> None:
    method, kind, listed = getattr(thing, name), type(thing).__name__, ", ".join(wanted)
    if not callable(method):
        raise UsageError(
            f"{name} of {kind} is {method!r}; it must be a method that takes ({listed})."
        )
    try:
        inspect.signature(method).bind(*wanted)
    except TypeError:
        raise UsageError(
            f"{name} of {kind} takes {inspect.signature(method)}; it must take ({listed})."
        ) from None


def require_stated(
    what: str, thing: object, facts: Mapping[str, object], beside: Collection[str]
) -> None:
    """Refuse an object that inherits one of `facts` and overrides code which it describes."""
    kind = type(thing).__name__
    for member, least in facts.items():
        if getattr(thing, member) != least and not holds_for(thing, member, {*beside, *facts}):
            raise UsageError(
                f"{what} is {kind}, which inherits {member} and overrides code that {member} "
                f"describes; set {member} in {kind} itself."
            )


class Final:
    """Base of classes that nothing is derived from, because others compute with what they are."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        for base in cls.__bases__:
            if base is not Final and issubclass(base, Final):
                raise UsageError(
                    f"{cls.__name__} is derived from {base.__name__}, which stands for one "
                    "formula; write a class with every member of the protocol, and no such base."
                )


LOOKUPS = ("__getattr__", "__getattribute__")  # they answer for any name


def holds_for(thing: object, member: str, beside: Collection[str]) -> bool:
    """Does an object's own class state a member? It does not know what other classes of the object
    make anew: any name but those of `beside`, its own fields and new ones."""
    kinds, held = type(thing).__mro__, getattr(thing, "__dict__", {})
    fields = [kind for kind in kinds if "__dataclass_fields__" in vars(kind)]
    fields = [kind for kind in fields if member in vars(kind).get("__annotations__", {})]
    states = [kind for kind in kinds if member in vars(kind) or kind in fields]
    if not states and member in held:  # on the object, by the class that makes it
        states = [kind for kind in kinds if "__init__" in vars(kind)]
    of = next((kind.__mro__ for kind in states), ())
    named = {name for kind in of for name in vars(kind)}
    named -= {name for kind in of for name in vars(kind).get("__dataclass_fields__", ())}
    for kind in kinds if of else ():
        own = {*vars(kind)} - {*beside} if kind not in of else set[str]()
        new = {*vars(kind).get("__dataclass_fields__", ())} - named
        if any(not one.startswith(("__", "_abc_", "_is_protocol")) for one in own - new):
            return False
        if not own.isdisjoint(LOOKUPS):
            return False
    return bool(of) and not any(name in named and callable(one) for name, one in held.items())
