"""Which adapter knows an object."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import TypeAlias

from leakbound.systems.adapters.langchain import langchain_store
from leakbound.systems.adapters.llama_index import llama_index_store
from leakbound.systems.protocol import System

__all__ = ["ADAPTERS", "adapted"]

HOSTS = frozenset({"langchain_core", "llama_index"})  # whoever has such an object imported one
Adapter: TypeAlias = Callable[[object, str], System | None]
ADAPTERS: tuple[Adapter, ...] = (langchain_store, llama_index_store)


def adapted(thing: object, name: str) -> System | None:
    """The system that an object of another framework stands for.

    Args:
        thing: Any object.
        name: For messages.

    Returns:
        The system; None if no adapter knows the object.

    Examples:
        >>> adapted(object(), "mine") is None
        True
    """
    if not HOSTS & sys.modules.keys() or _takes_both(thing):
        return None
    made = (adapter(thing, name) for adapter in ADAPTERS)
    return next((one for one in made if one is not None), None)


def _takes_both(thing: object) -> bool:
    """Whether it is a function `(context, query)`, which is handed its context at each call."""
    if not callable(thing):
        return False
    try:
        inspect.signature(thing).bind((), "")
    except (TypeError, ValueError):
        return False
    return True
