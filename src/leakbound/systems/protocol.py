"""Systems: anything that answers queries from a private context.

A system opens a session for each context, so that an index or a memory is built once. A store also
takes and removes single records.

Examples:
    A system that repeats the label of the example nearest in length:

    >>> from leakbound.tasks import as_context
    >>> class Nearest:
    ...     def __init__(self, context):
    ...         self.context = context
    ...     def ask(self, query):
    ...         near = min(self.context, key=lambda row: abs(len(row.input) - len(query)))
    ...         return Reply(near.label)
    ...     def close(self):
    ...         pass
    >>> class NearestSystem:
    ...     def open(self, context):
    ...         return Nearest(context)
    >>> session = NearestSystem().open(as_context([("short", "a"), ("a longer text", "b")]))
    >>> session.ask("tiny").text
    'a'
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, final, runtime_checkable

from leakbound.models.content import Private
from leakbound.models.http.blocking import LoopThread
from leakbound.tasks import Context, Example

if TYPE_CHECKING:
    from pydantic import JsonValue


@dataclass(frozen=True, slots=True, repr=False)
class Reply(Private):
    """What a system replies to one query (PRIVATE until a mechanism releases it).

    Attributes:
        text: The answer.
        scores: A number for each answer that the query allows, of any unit; None if the system
            shows none.
        seconds: How long the answer took, as whoever reads it over a network sees; None if nobody
            measured that. A system that answers in this process states it or has none.
        tokens: Tokens that were generated; None if unknown.
        finish_reason: Why the answer ended, such as "stop" or "length"; None if unknown.
        tool_calls: Tool calls of the system, as it describes them; None if unknown.
        channels: Where else the work on the answer leaves texts, such as "logs" or "memory", by a
            public name; None if the system shows no such place. Read by audits of channels only.
    """

    text: str
    scores: Mapping[str, float] | None = None
    seconds: float | None = None
    tokens: int | None = None
    finish_reason: str | None = None
    tool_calls: tuple[JsonValue, ...] | None = None
    channels: Mapping[str, str] | None = None


class Session(Protocol):
    """A system with one context in place."""

    def ask(self, query: str) -> Reply:
        """Answer what a user sends."""

    def close(self) -> None:
        """Take the context away."""


@runtime_checkable
class System(Protocol):
    """Answers queries from a context. Its sessions are opened one after the other."""

    def open(self, context: Context) -> Session:
        """Put a context (PRIVATE) in place; whoever opens a session closes it."""


class Store(System, Protocol):
    """A system that keeps records of its own: a retrieval index, or an agent's memory.

    A session answers from these records and from its own context.
    """

    def plant(self, record: Example) -> str:
        """Add a record (PRIVATE) to what open sessions and all later ones answer from.

        Returns:
            An id to remove it by.
        """

    def remove(self, record_id: str) -> None:
        """Remove a record by the id that `plant` returned."""


class PreparedStore:
    """Base of stores that `open` prepares, and that get single records after it, not before."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, repr=False)
class FunctionSession:
    """A session made of functions (PRIVATE)."""

    ask: Any
    close: Any = field(default=lambda: None)


class AsyncSession(Protocol):
    """A session in an event loop."""

    async def ask(self, query: str) -> Reply:
        """Answer what a user sends."""

    async def close(self) -> None:
        """Take the context away."""


class AsyncSystem(ABC):
    """Base of systems whose sessions live in an event loop, several at once.

    A subclass is a `System` too: `open` gives a session for synchronous callers, which also works
    where an event loop runs already, as in a notebook.
    """

    @property
    @abstractmethod
    def concurrency(self) -> int:
        """Sessions that may be open at once; 1 for a system that keeps state between requests."""

    @abstractmethod
    async def open_async(self, context: Context) -> AsyncSession:
        """Put a context (PRIVATE) in place; whoever opens a session closes it."""

    @final
    def open(self, context: Context) -> Session:
        """Put a context (PRIVATE) in place, in an event loop of the session's own."""
        thread = LoopThread("leakbound-session")
        try:
            session = thread.run(self.open_async(context))
        except BaseException:
            thread.close(patience=None)
            raise
        ending = ExitStack()  # the last entry first, and each once however often it is closed
        ending.callback(thread.close)
        ending.callback(lambda: thread.run(session.close()))
        return FunctionSession(lambda query: thread.run(session.ask(query)), ending.close)
