"""LangGraph: compiled graphs with a checkpointer, whose threads are memories."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, cast

from leakbound.models.content import text_only
from leakbound.systems.adapters.search import bases
from leakbound.systems.protocol import Reply
from leakbound.systems.replies import as_reply
from leakbound.tasks import Context

__all__ = ["GraphSystem", "langgraph_system"]

GRAPH = "langgraph.pregel.main.Pregel"


class _Checkpointer(Protocol):
    def delete_thread(self, thread_id: str) -> None: ...


class _Graph(Protocol):
    checkpointer: _Checkpointer | None
    config: Mapping[str, object] | None

    def invoke(self, state: object, config: Mapping[str, object]) -> object: ...


@dataclass(frozen=True, slots=True)
class GraphSystem:
    """A graph that is told the examples of a context in a thread, and asked there.

    Attributes:
        graph: The compiled graph.
        name: For messages.
        stateful: True: the graph remembers.
    """

    graph: _Graph = field(repr=False)
    name: str
    stateful: bool = True

    def open(self, context: Context) -> _Thread:
        """Tell a new thread each example, as a message of the user.

        Args:
            context: The examples (PRIVATE).

        Returns:
            A session in the thread. A graph whose owner has fixed the thread uses that one for all
            contexts; the state check finds what it remembers.
        """
        thread = _Thread(self, str(uuid.uuid4()))
        for one in context:
            text = text_only(one.input, self.name)
            thread.told(f"{text}\n{one.label}" if one.label else text)
        return thread


@dataclass(frozen=True, slots=True, repr=False)
class _Thread:
    """One thread of a graph."""

    system: GraphSystem
    thread_id: str

    def told(self, text: str) -> object:
        """Send a message of the user."""
        graph, name = self.system.graph, self.system.name
        own = cast("Mapping[str, Mapping[str, object]]", graph.config or {})
        fixed = own.get("configurable", {}).get("thread_id", self.thread_id)
        config = {"configurable": {"thread_id": fixed}}
        return graph.invoke({"messages": [{"role": "user", "content": text}]}, config) or name

    def ask(self, query: str) -> Reply:
        return as_reply(self.told(query), self.system.name)

    def close(self) -> None:
        """Forget the thread, unless its owner has fixed it."""
        if self.system.graph.checkpointer is not None:
            self.system.graph.checkpointer.delete_thread(self.thread_id)


def langgraph_system(thing: object, name: str) -> GraphSystem | None:
    """The system that a compiled graph with a checkpointer stands for.

    Args:
        thing: A compiled graph whose state has `messages`.
        name: For messages.

    Returns:
        The system; None for other objects, and for a graph without a checkpointer.
    """
    if GRAPH not in bases(thing) or not cast(_Graph, thing).checkpointer:
        return None
    return GraphSystem(cast(_Graph, thing), name)
