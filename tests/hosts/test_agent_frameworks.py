"""Agents of pydantic-ai, the OpenAI Agents SDK and LangGraph: what their tools did is a channel."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from leakbound_hosts.adapters.agents import agent_reply

import leakbound
from leakbound.errors import UsageError

pytestmark = [pytest.mark.hosts, pytest.mark.filterwarnings("ignore")]
ANSWER = "Please see the handbook."
ROWS = [(f"note {i} on the lamp of desk {i % 7}", "ab"[i % 2]) for i in range(60)]
GIVEN: dict[str, Any] = {
    "query": "recall", "canary": "coded", "pairs": 24, "shots": 3, "epsilon": 0.2,
    "simulations": 0, "channels": ("all",),
}  # fmt: skip


def found_in(notes: Any, words: str) -> str:
    """The note that begins so: what a tool of the agent returns."""
    return next((str(one) for one in notes if str(one).startswith(words)), "nothing")


def kept_in(notes: Any, words: str) -> str:
    return f"{len(notes)} notes are kept"


def pydantic_agent(search: Callable[[Any, str], str]) -> Callable[..., Any]:
    pytest.importorskip("pydantic_ai")
    from pydantic_ai import Agent, RunContext
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    def model(messages: Any, info: Any) -> Any:
        if len(messages) == 1:
            call = ToolCallPart("lookup", {"words": messages[0].parts[-1].content[:12]})
            return ModelResponse(parts=[TextPart("I search."), call])
        return ModelResponse(parts=[TextPart(ANSWER)])

    agent: Any = Agent(FunctionModel(model), deps_type=tuple)

    def lookup(ctx: Any, words: str) -> str:
        return search(ctx.deps, words)

    lookup.__annotations__["ctx"] = RunContext[tuple]
    agent.tool(lookup)
    return lambda context, query: agent.run_sync(query, deps=context)


def openai_agent(search: Callable[[Any, str], str]) -> Callable[..., Any]:
    agents = pytest.importorskip("agents")
    from agents.items import ModelResponse
    from agents.usage import Usage
    from openai.types.responses import (
        ResponseFunctionToolCall,
        ResponseOutputMessage,
        ResponseOutputText,
    )

    class Model(agents.Model):  # type: ignore[name-defined, misc]
        async def get_response(self, *given: Any, **named: Any) -> Any:
            said_before = [*given, *named.values()][1]  # after the instructions
            if len(said_before) == 1:
                asked = said_before[0]["content"]
                said: Any = ResponseFunctionToolCall(
                    call_id="c", name="lookup", arguments=json.dumps({"words": asked[:12]}),
                    type="function_call",
                )  # fmt: skip
            else:
                part = ResponseOutputText(text=ANSWER, type="output_text", annotations=[])
                said = ResponseOutputMessage(
                    id="m", type="message", role="assistant", status="completed", content=[part]
                )
            return ModelResponse(output=[said], usage=Usage(), response_id=None)

        def stream_response(self, *given: Any, **named: Any) -> Any:
            raise NotImplementedError

    def lookup(ctx: Any, words: str) -> str:
        """Searches the notes."""
        return search(ctx.context, words)

    lookup.__annotations__["ctx"] = agents.RunContextWrapper[tuple]
    agents.set_tracing_disabled(True)
    agent = agents.Agent("desk", tools=[agents.function_tool(lookup)], model=Model())
    return lambda context, query: agents.Runner.run_sync(agent, query, context=context)


def langgraph_agent(search: Callable[[Any, str], str]) -> Callable[..., Any]:
    pytest.importorskip("langgraph")
    from langchain_core.messages import AIMessage, ToolMessage
    from langgraph.graph import START, MessagesState, StateGraph

    class State(MessagesState):
        notes: Any

    def plan(state: Any) -> Any:
        call = {"name": "lookup", "args": {"words": state["messages"][-1].content[:12]}, "id": "1"}
        return {"messages": [AIMessage("I search.", tool_calls=[call])]}

    def tool(state: Any) -> Any:
        call = state["messages"][-1].tool_calls[0]
        text = search(state["notes"], call["args"]["words"])
        return {"messages": [ToolMessage(text, tool_call_id="1")]}

    def write(state: Any) -> Any:
        return {"messages": [AIMessage(ANSWER)]}

    graph = StateGraph(State).add_sequence([plan, tool, write]).add_edge(START, "plan").compile()
    return lambda context, query: graph.invoke({"messages": [("user", query)], "notes": context})


AGENTS = {
    "pydantic-ai": pydantic_agent,
    "openai-agents": openai_agent,
    "langgraph": langgraph_agent,
}


@pytest.mark.parametrize("framework", AGENTS)
def test_what_a_tool_returned_is_a_channel(framework: str, tmp_path: Path) -> None:
    run = AGENTS[framework](found_in)
    context = ("the gate code is 4711", "lunch is at noon")
    reply: Any = agent_reply(framework, run(context, "the gate code, please?"))
    assert reply["answer"] == ANSWER
    assert reply["channels"]["tool_outputs"] == "the gate code is 4711"
    assert json.loads(reply["channels"]["tool_inputs"])["name"] == "lookup"
    assert "the gate cod" in reply["channels"]["tool_inputs"]
    assert reply["channels"]["messages"] in ("I search.", "")

    def desk(context: Any, query: str) -> Any:
        return agent_reply(framework, run(context, query))

    blind = leakbound.audit(ROWS, system=desk, out=tmp_path, **{**GIVEN, "channels": ("answer",)})
    assert blind.reason == "attack_blind"
    result = leakbound.audit(ROWS, system=desk, out=tmp_path, **GIVEN)
    assert {one.name for one in result.channels if one.verdict == "violation"} == {"tool_outputs"}


@pytest.mark.parametrize("framework", AGENTS)
def test_a_tool_that_quotes_nothing_is_not_accused(framework: str, tmp_path: Path) -> None:
    run = AGENTS[framework](kept_in)
    result = leakbound.audit(
        ROWS,
        system=lambda context, query: agent_reply(framework, run(context, query)),
        out=tmp_path,
        **GIVEN,
    )
    assert result.verdict != "violation"
    assert not any(one.verdict == "violation" for one in result.channels)


def test_a_framework_is_named_and_its_results_are_its_own() -> None:
    with pytest.raises(UsageError, match="framework is 'crewai'; it must be one of pydantic-ai, "):
        agent_reply("crewai", {})
    with pytest.raises(UsageError, match="returned dict; it must be what a run of pydantic-ai re"):
        agent_reply("pydantic-ai", {"messages": []})
