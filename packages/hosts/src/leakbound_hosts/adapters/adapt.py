"""Which adapter knows an object."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable

from leakbound.systems.protocol import System
from leakbound_hosts.adapters.dspy import dspy_system
from leakbound_hosts.adapters.haystack import haystack_store
from leakbound_hosts.adapters.langchain import langchain_store
from leakbound_hosts.adapters.langgraph import langgraph_system
from leakbound_hosts.adapters.llama_index import llama_index_store
from leakbound_hosts.adapters.memory import memory_store
from leakbound_hosts.adapters.search import bases

# whoever has an object of a framework has imported it
HOSTS = frozenset({"langchain_core", "langgraph", "llama_index", "haystack", "dspy"})
ADAPTERS: tuple[Callable[[object, str], System | None], ...] = (
    langchain_store, llama_index_store, haystack_store, dspy_system, langgraph_system,
)  # fmt: skip


def adapted(thing: object, name: str) -> System | None:
    """The system that an object of another framework stands for.

    Examples:
        >>> adapted(object(), "mine") is None
        True
    """
    if isinstance(thing, type) or _takes_both(thing):
        return None
    if not HOSTS & sys.modules.keys():
        return _memory(thing, name)
    made = (adapter(thing, name) for adapter in ADAPTERS)
    return next((one for one in made if one is not None), None) or _memory(thing, name)


def _memory(thing: object, name: str) -> System | None:
    """An object that answers or opens sessions is a system by itself."""
    own = any(hasattr(thing, part) for part in ("open", "open_async", "answer", "invoke"))
    return None if own or callable(thing) else memory_store(thing, name)


def _takes_both(thing: object) -> bool:
    """Whether it is a function `(context, query)`, which is handed its context at each call."""
    if not callable(thing) or any(one.partition(".")[0] in HOSTS for one in bases(thing)):
        return False
    try:
        inspect.signature(thing).bind((), "")
    except (TypeError, ValueError):
        return False
    return True
