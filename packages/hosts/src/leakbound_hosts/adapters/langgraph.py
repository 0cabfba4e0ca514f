"""LangGraph: compiled graphs with a checkpointer, whose threads are memories.

The channels of a graph are the messages of a turn before its answer, inputs and outputs of its
tools, and the memory: the state beside the messages, and what the graph keeps in a store.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, cast

from leakbound.models.content import text_only
from leakbound.systems.calls import CallOptions
from leakbound.systems.protocol import Reply
from leakbound.systems.replies import as_reply
from leakbound.tasks import Context
from leakbound_hosts.adapters.agents import channels_of, steps_of, text_of, turn_of
from leakbound_hosts.adapters.search import bases

GRAPH = "langgraph.pregel.main.Pregel"
MOST_ITEMS = 10_000  # of a store: all that a memory of an audit holds
Config = Mapping[str, Mapping[str, str]]


class _Checkpointer(Protocol):
    def delete_thread(self, thread_id: str) -> None: ...


class _Values(Protocol):
    values: Mapping[str, object]


class _Item(Protocol):
    value: object


class _Memory(Protocol):
    def search(self, prefix: tuple[str, ...], *, limit: int) -> Sequence[_Item]: ...


class _Graph(Protocol):
    checkpointer: _Checkpointer | None
    config: Mapping[str, object] | None
    store: _Memory | None

    def invoke(self, state: object, config: Config) -> object: ...

    def get_state(self, config: Config) -> _Values: ...


@dataclass(frozen=True, slots=True)
class GraphSystem:
    """A graph that is told the examples of a context in a thread, and asked there."""

    graph: _Graph = field(repr=False)
    name: str
    stateful: bool = True
    calls: CallOptions = field(default=CallOptions(), repr=False, compare=False)

    @property
    def thread(self) -> str | None:
        """The thread that its owner has fixed; None where each context gets its own."""
        own = cast("Mapping[str, Mapping[str, str]]", self.graph.config or {})
        return own.get("configurable", {}).get("thread_id")

    def called(self, calls: CallOptions) -> GraphSystem:
        """The same graph, called in another way."""
        return replace(self, calls=calls)

    def open(self, context: Context) -> _Thread:
        """Tell a new thread each example, as a message of the user."""
        if self.thread is not None or self.graph.store is not None:  # a question stays there, too
            self.calls.require_disposable(self.name)
        thread = _Thread(self, str(uuid.uuid4()))
        try:
            thread.tell(context)
        except BaseException:
            thread.close()
            raise
        return thread


@dataclass(frozen=True, slots=True, repr=False)
class _Thread:
    """One thread of a graph."""

    system: GraphSystem
    thread_id: str

    @property
    def config(self) -> Config:
        """Names the thread: the one that the owner has fixed, or its own."""
        fixed = self.system.thread
        return {"configurable": {"thread_id": self.thread_id if fixed is None else fixed}}

    def tell(self, context: Context) -> None:
        for one in context:
            text = text_only(one.input, self.system.name)
            self.told(f"{text}\n{one.label}" if one.label else text)

    def told(self, text: str) -> object:
        graph, name = self.system.graph, self.system.name
        return graph.invoke({"messages": [{"role": "user", "content": text}]}, self.config) or name

    def ask(self, query: str) -> Reply:
        reply = as_reply(self.told(query), self.system.name)
        state = self.system.graph.get_state(self.config).values
        steps = [*steps_of([*turn_of(cast("list[object]", state.get("messages") or []))][::-1])]
        found = channels_of(steps, reply.text) | dict(self._memory(state))
        return replace(reply, channels=found)

    def _memory(self, state: Mapping[str, object]) -> Iterator[tuple[str, str]]:
        """What stays, where there is a place for it."""
        kept = [f"{name}: {text_of(one)}" for name, one in state.items() if name != "messages"]
        store = self.system.graph.store
        if store is not None:
            kept += [text_of(item.value) for item in store.search((), limit=MOST_ITEMS)]
        if kept or store is not None:
            yield "memory", "\n".join(kept)

    def close(self) -> None:
        """Forget the thread, unless its owner has fixed it."""
        if self.system.graph.checkpointer is not None:
            self.system.graph.checkpointer.delete_thread(self.thread_id)


def langgraph_system(thing: object, name: str) -> GraphSystem | None:
    """The system that a compiled graph with a checkpointer stands for."""
    if GRAPH not in bases(thing) or not cast(_Graph, thing).checkpointer:
        return None
    return GraphSystem(cast(_Graph, thing), name)
