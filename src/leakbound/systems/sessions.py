"""Sessions of every shape: objects that answer a query, under the names that frameworks use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from leakbound.errors import TargetError
from leakbound.systems.duck import is_async
from leakbound.systems.protocol import Reply, Session
from leakbound.systems.replies import as_reply, finished

# LangChain, LlamaIndex, scikit-learn, Haystack, agents: each takes a query, under another name
QUERY_METHODS = ("invoke", "query", "predict", "run", "__call__")


def session_of(opened: object, name: str) -> Session:
    """The session that an opened object stands for.

    Examples:
        >>> class Engine:
        ...     def query(self, text):
        ...         return {"response": text.upper()}
        >>> session_of(Engine(), "mine").ask("yes").text
        'YES'
    """
    ask: object = getattr(opened, "ask", None)
    if callable(ask) and not is_async(ask) and callable(getattr(opened, "close", None)):
        return cast(Session, opened)
    for method in ("ask", *QUERY_METHODS):
        found: object = getattr(opened, method, None)
        if callable(found):
            return _Answering(found, opened, name)
    raise TargetError(
        f"the system {name!r} opened {type(opened).__name__}; it must open an object with a method "
        f"ask(query), or one of {', '.join(QUERY_METHODS)}."
    )


@dataclass(frozen=True, slots=True, repr=False)
class _Answering:
    """A session made of a method that takes a query."""

    method: Callable[[str], object]
    opened: object
    name: str

    def ask(self, query: str) -> Reply:
        return as_reply(finished(self.method(query)), self.name)

    def close(self) -> None:
        close: object = getattr(self.opened, "close", None)
        if callable(close):
            finished(close())
