"""LangGraph: what goes through a graph beside its answer appears as channels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from leakbound_hosts.adapters.langgraph import GraphSystem
from stores import DISPOSABLE

import leakbound
from leakbound.errors import UsageError
from leakbound.systems import as_system
from leakbound.tasks import as_context

pytestmark = [pytest.mark.hosts, pytest.mark.filterwarnings("ignore")]
CONTEXT = as_context([("the gate code is 4711", "secret"), ("lunch is at noon", "public")])


def graph(store: Any = None) -> Any:
    """Looks up the first note that begins as the query does; its answer quotes none."""
    pytest.importorskip("langgraph")
    from langchain_core.messages import AIMessage, ToolMessage
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import START, MessagesState, StateGraph

    class State(MessagesState):
        notes: str

    def plan(state: Any) -> Any:
        query = str(state["messages"][-1].content)
        call = {"name": "search", "args": {"words": query[:12]}, "id": "1"}
        return {"messages": [AIMessage("I search the notes.", tool_calls=[call])]}

    def search(state: Any) -> Any:
        told = [str(one.content) for one in state["messages"] if one.type == "human"]
        found = next((one for one in told[:-1] if one.startswith(told[-1][:12])), "nothing")
        if store is not None:
            store.put(("notes",), "last", {"text": found})
        return {"messages": [ToolMessage(found, tool_call_id="1")], "notes": "one search"}

    def write(state: Any) -> Any:
        return {"messages": [AIMessage("Please see the handbook.")]}

    made = StateGraph(State).add_sequence([plan, search, write]).add_edge(START, "plan")
    return made.compile(checkpointer=InMemorySaver(), store=store)


def test_messages_tools_and_state_are_channels() -> None:
    reply = as_system(graph(), "mine").open(CONTEXT).ask("the gate code, please?")
    assert reply.text == "Please see the handbook."
    assert reply.channels is not None
    assert sorted(reply.channels) == ["memory", "messages", "tool_inputs", "tool_outputs"]
    assert reply.channels["messages"] == "I search the notes."
    assert '"words": "the gate cod"' in reply.channels["tool_inputs"]
    assert reply.channels["tool_outputs"] == "the gate code is 4711\nsecret"
    assert reply.channels["memory"] == "notes: one search"
    assert "4711" not in repr(reply)


def test_a_store_is_memory() -> None:
    pytest.importorskip("langgraph")
    from langgraph.store.memory import InMemoryStore

    system = as_system(graph(InMemoryStore()), "mine")
    assert isinstance(system, GraphSystem)
    with pytest.raises(UsageError, match="--disposable-store"):
        system.open(CONTEXT)
    reply = system.called(DISPOSABLE).open(CONTEXT).ask("the gate code, please?")
    assert "4711" in (reply.channels or {})["memory"]


def test_an_audit_by_channel_finds_what_the_answer_does_not_tell(tmp_path: Path) -> None:
    rows = [(f"note {i} on the lamp of desk {i % 7}", "ab"[i % 2]) for i in range(60)]
    given: dict[str, Any] = {
        "query": "recall", "canary": "coded", "pairs": 16, "shots": 3, "epsilon": 0.2,
        "simulations": 0, "state_check": 0.0, "out": tmp_path,
    }  # fmt: skip
    answer = leakbound.audit(rows, system=graph(), channels=("answer",), **given)
    assert answer.reason == "attack_blind"
    every = leakbound.audit(rows, system=graph(), channels=("all",), **given)
    found = {one.name for one in every.channels if one.verdict == "violation"}
    assert found == {"tool_outputs"}
