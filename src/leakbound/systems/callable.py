"""Systems made of a Python callable `(context, query) -> answer`, synchronous or not."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points

from leakbound.errors import TargetError
from leakbound.systems.duck import Answerer, answerer, is_async, made_of, says_stateful
from leakbound.systems.protocol import AsyncSystem, Reply, System
from leakbound.systems.replies import as_reply, finished, joined_async
from leakbound.tasks import Context

__all__ = ["Answerer", "AsyncCallableSystem", "CallableSystem", "answerer", "as_system"]

# async calls at once: each may hold a connection, and a process may open about a thousand files
TOGETHER = 64


@dataclass(frozen=True, slots=True)
class CallableSystem:
    """Calls a plain function once for each query.

    Attributes:
        function: Called as `(context, query)`.
        name: For messages.

    Raises:
        TargetError: If the function cannot be called so.
    """

    function: Answerer = field(repr=False)
    name: str = "system"

    @property
    def stateful(self) -> bool:
        """Whether the function or its object says so: then calls are made one by one."""
        return says_stateful(self.function)

    def __post_init__(self) -> None:
        _require_two_arguments(self.function, self.name)

    def open(self, context: Context) -> CallableSession:
        """A session over a context.

        Args:
            context: The examples (PRIVATE), handed to every call.

        Returns:
            The session.
        """
        return CallableSession(self, context)


@dataclass(frozen=True, slots=True, repr=False)
class CallableSession:
    """A context for the function of a `CallableSystem`."""

    system: CallableSystem
    context: Context

    def ask(self, query: str) -> Reply:
        """Call the function."""
        return as_reply(finished(self.system.function(self.context, query)), self.system.name)

    def close(self) -> None:
        """Nothing to do."""


@dataclass(frozen=True, slots=True)
class AsyncCallableSystem(AsyncSystem):
    """Calls an asynchronous function once for each query.

    Attributes:
        function: Called as `(context, query)`, and awaited.
        name: For messages.
        concurrency: Calls that may run at once.

    Raises:
        TargetError: If the function cannot be called so.
    """

    function: Answerer = field(repr=False)
    name: str = "system"
    concurrency: int = TOGETHER

    def __post_init__(self) -> None:
        _require_two_arguments(self.function, self.name)

    async def open_async(self, context: Context) -> AsyncCallableSession:
        """A session over a context."""
        return AsyncCallableSession(self, context)


@dataclass(frozen=True, slots=True, repr=False)
class AsyncCallableSession:
    """A context for the function of an `AsyncCallableSystem`."""

    system: AsyncCallableSystem
    context: Context

    async def ask(self, query: str) -> Reply:
        """Call the function and await its answer."""
        answer = self.system.function(self.context, query)
        if inspect.isawaitable(answer):
            answer = await answer
        return as_reply(await joined_async(answer), self.system.name)

    async def close(self) -> None:
        """Nothing to do."""


def adapted(thing: object, name: str) -> System | None:
    """The system that an object of another framework stands for, as installed adapters know it."""
    adapters = (entry.load() for entry in entry_points(group="leakbound.adapters"))
    return next((found for one in adapters if (found := one(thing, name)) is not None), None)


def as_system(thing: object, name: str, options: Mapping[str, object] | None = None) -> System:
    """The system that an object of a user stands for.

    Args:
        thing: A `System`; an object that an adapter knows (`leakbound_hosts.adapters`), such as
            a vector store or a chain over one; a callable `(context, query) -> answer`; an object
            with such a method `answer`, `invoke`, `query`, `predict` or `run`, or with an `invoke`
            that takes one mapping; or a class or factory of one of these. Callables may be
            asynchronous: their calls run together, 64 at most, or one by one where the object has
            `stateful = True`.
        name: For messages.
        options: Arguments of the class or factory, by name.

    Returns:
        The system.

    Raises:
        TargetError: If the object is none of these.
    """
    made = made_of(thing, name, options or {})
    if (known := adapted(made, name)) is not None:
        return known
    if isinstance(made, AsyncSystem):
        return made
    if not callable(made) and not hasattr(made, "answer") and isinstance(made, System):
        return made
    function = answerer(made, name)
    if not is_async(function):
        return CallableSystem(function, name)
    stateful = says_stateful(made) or says_stateful(function)
    return AsyncCallableSystem(function, name, 1 if stateful else TOGETHER)


def _require_two_arguments(function: Answerer, name: str) -> None:
    """Refuse, before any call, what cannot take (context, query)."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # some built-in callables have no signature
        return
    try:
        signature.bind((), "")
    except TypeError:
        raise TargetError(
            f"the system {name!r} takes {signature}; it must take (context, query)."
        ) from None
