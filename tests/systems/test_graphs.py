"""Graphs with a checkpointer: nothing stays in the threads of contexts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from leakbound_hosts.adapters.langgraph import GraphSystem

from leakbound.errors import UsageError
from leakbound.tasks import as_context

CONTEXT = as_context([("the gate code is 4711", "secret"), ("lunch is at noon", "public")])


class Graph:
    """A graph that repeats what its thread has been told, and its own checkpointer."""

    store = None

    def __init__(self, fail_at: int = 0, error: BaseException | None = None, **own: str) -> None:
        self.threads: dict[str, list[str]] = {}
        self.config: Mapping[str, object] = {"configurable": own}
        self.fail_at, self.error, self.told = fail_at, error, 0
        self.checkpointer = self

    def invoke(self, state: Any, config: Any) -> object:
        self.told += 1
        said = self.threads.setdefault(config["configurable"]["thread_id"], [])
        said.append(state["messages"][0]["content"])
        if self.told == self.fail_at and self.error is not None:
            raise self.error
        return " ".join(said)

    def get_state(self, config: Any) -> Any:
        return self

    @property
    def values(self) -> Mapping[str, object]:
        return {}

    def delete_thread(self, thread_id: str) -> None:
        self.threads.pop(thread_id, None)


@pytest.mark.parametrize("error", [TimeoutError(), KeyboardInterrupt()])
def test_a_thread_that_could_not_be_told_all_is_forgotten(error: BaseException) -> None:
    """Its rows stayed in the checkpointer of the owner."""
    graph = Graph(2, error)
    with pytest.raises(type(error)):
        GraphSystem(graph, "mine").open(CONTEXT)
    assert not graph.threads
    session = GraphSystem(graph, "mine").open(CONTEXT)
    assert "4711" in session.ask("so?").text
    session.close()
    assert not graph.threads


def test_a_question_needs_consent_where_it_stays_in_the_thread_of_the_owner() -> None:
    """A session without examples was opened, and its questions were written there."""
    graph = Graph(thread_id="owner")
    with pytest.raises(UsageError, match="--disposable-store"):
        GraphSystem(graph, "mine").open(())
    assert not graph.threads
