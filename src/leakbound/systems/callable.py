"""Systems made of a Python callable `(context, query) -> answer`, synchronous or not."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from leakbound.errors import LeakboundError, TargetError
from leakbound.systems.protocol import AsyncSystem, Reply, System
from leakbound.systems.replies import as_reply
from leakbound.tasks import Context

__all__ = ["Answerer", "AsyncCallableSystem", "CallableSystem", "answerer", "as_system"]

# (context, query) -> a text, a mapping or object that `as_reply` takes, or an awaitable of one
Answerer: TypeAlias = Callable[[Context, str], object]
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
    """A context for the function of a `CallableSystem`.

    Attributes:
        system: Whose function is called.
        context: The examples (PRIVATE).
    """

    system: CallableSystem
    context: Context

    def ask(self, query: str) -> Reply:
        """Call the function.

        Args:
            query: What the user sends.

        Returns:
            What it answers.

        Raises:
            TargetError: If that is no answer.
        """
        began = time.perf_counter()
        answer = self.system.function(self.context, query)
        return as_reply(answer, self.system.name, time.perf_counter() - began)

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
        """A session over a context.

        Args:
            context: The examples (PRIVATE), handed to every call.

        Returns:
            The session.
        """
        return AsyncCallableSession(self, context)


@dataclass(frozen=True, slots=True, repr=False)
class AsyncCallableSession:
    """A context for the function of an `AsyncCallableSystem`.

    Attributes:
        system: Whose function is called.
        context: The examples (PRIVATE).
    """

    system: AsyncCallableSystem
    context: Context

    async def ask(self, query: str) -> Reply:
        """Call the function and await its answer.

        Args:
            query: What the user sends.

        Returns:
            What it answers.

        Raises:
            TargetError: If that is no answer.
        """
        began = time.perf_counter()
        answer = self.system.function(self.context, query)
        if inspect.isawaitable(answer):
            answer = await answer
        return as_reply(answer, self.system.name, time.perf_counter() - began)

    async def close(self) -> None:
        """Nothing to do."""


def as_system(thing: object, name: str) -> System:
    """The system that an object of a user stands for.

    Args:
        thing: A `System`; a callable `(context, query) -> answer`; an object with such a method
            `answer`; or a class of one of these, which is made without arguments. Callables may be
            asynchronous: their calls run together, 64 at most, or one by one where the object has
            `stateful = True`.
        name: For messages.

    Returns:
        The system.

    Raises:
        TargetError: If the object is none of these.
    """
    made = _instance(thing, name)
    if isinstance(made, AsyncSystem):
        return made
    if not callable(made) and not hasattr(made, "answer") and isinstance(made, System):
        return made
    function = answerer(made, name)
    if not _is_async(function):
        return CallableSystem(function, name)
    stateful = any(map(_says_stateful, (made, function, getattr(function, "__self__", None))))
    return AsyncCallableSystem(function, name, 1 if stateful else TOGETHER)


def answerer(thing: object, name: str) -> Answerer:
    """What to call.

    Args:
        thing: A callable, an object with a method `answer`, or a class of one of these, which is
            made without arguments.
        name: For messages.

    Returns:
        The callable or the method.

    Raises:
        TargetError: If there is nothing to call.
    """
    made = _instance(thing, name)
    found: object = made if callable(made) else getattr(made, "answer", None)
    if not callable(found):
        raise TargetError(
            f"the system {name!r} cannot be called; it must be callable, or have a method "
            "answer(context, query) or open(context)."
        )
    return cast(Answerer, found)


def _instance(thing: object, name: str) -> object:
    if not inspect.isclass(thing):
        return thing
    try:
        return thing()
    except LeakboundError:
        raise
    except (Exception, SystemExit) as error:
        raised = type(error).__name__
        raise TargetError(
            f"the system {name!r} could not be made: its class raised {raised} without arguments."
        ) from None


def _says_stateful(thing: object) -> bool:
    return bool(getattr(thing, "stateful", False))


def _is_async(function: Answerer) -> bool:
    call = type(function).__call__
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


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
