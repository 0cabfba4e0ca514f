"""Haystack, DSPy and LangGraph: their own objects, named and nothing else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from leakbound_hosts.adapters.langgraph import GraphSystem
from rag_words import rows
from stores import DISPOSABLE

import leakbound
from leakbound.errors import UsageError
from leakbound.systems import as_system
from leakbound.tasks import as_context

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
pytestmark = [pytest.mark.hosts, pytest.mark.filterwarnings("ignore")]
CONTEXT = as_context([("the gate code is 4711", "secret"), ("lunch is at noon", "public")])


@pytest.mark.parametrize("named", ["store", "pipeline"])
def test_haystack(tmp_path: Path, named: str) -> None:
    pytest.importorskip("haystack")
    from haystack import Document, Pipeline
    from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    store: Any = InMemoryDocumentStore()
    store.write_documents([Document(content=text) for text, _ in rows(10, seed=1)])
    pipeline = Pipeline()
    pipeline.add_component("retriever", InMemoryBM25Retriever(document_store=store))
    result = leakbound.audit(
        rows(120), system=store if named == "store" else pipeline, design="one_run", canaries=40,
        epsilon=2, out=tmp_path, calls=DISPOSABLE, settings={"claim_for": "run", "documents": 50},
    )  # fmt: skip
    assert result.verdict == "violation"
    assert store.count_documents() == 10


def test_dspy_programs_get_the_context_as_demonstrations() -> None:
    dspy = pytest.importorskip("dspy")
    program = dspy.Predict("question -> answer")

    def compiled(trainset: list[Any]) -> Any:
        student = dspy.Predict("question -> answer")
        return dspy.LabeledFewShot(k=2).compile(student, trainset=trainset)

    class Echo(dspy.BaseLM):
        """Says what it was shown."""

        def __call__(self, prompt: Any = None, messages: Any = None, **options: Any) -> list[str]:
            shown = " ".join(str(one["content"]) for one in messages)
            code = "4711" if "4711" in shown else "none"
            return [f"[[ ## answer ## ]]\n{code}\n\n[[ ## completed ## ]]"]

    with dspy.context(lm=Echo(model="echo")):
        for thing in (program, compiled):
            system = as_system(thing, "mine")
            assert system.open(CONTEXT).ask("what is the code?").text == "4711"
            assert system.open(CONTEXT[1:]).ask("what is the code?").text == "none"
    assert program.demos == []


def graph(fixed: bool) -> Any:
    """Repeats everything that it was ever told in a thread."""
    pytest.importorskip("langgraph")
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import START, MessagesState, StateGraph

    def speak(state: Any) -> Any:
        told = " ".join(str(one.content) for one in state["messages"] if one.type == "human")
        return {"messages": [{"role": "assistant", "content": told}]}

    made = StateGraph(MessagesState).add_node("speak", speak).add_edge(START, "speak")
    compiled = made.compile(checkpointer=InMemorySaver())
    return compiled.with_config(configurable={"thread_id": "all"}) if fixed else compiled


def test_langgraph_threads_keep_contexts_apart() -> None:
    system = as_system(graph(fixed=False), "mine")
    assert "4711" in system.open(CONTEXT).ask("so?").text
    assert "4711" not in system.open(CONTEXT[1:]).ask("so?").text


def test_one_langgraph_thread_for_all_contexts_is_a_shared_memory() -> None:
    system = as_system(graph(fixed=True), "mine")
    assert isinstance(system, GraphSystem)
    with pytest.raises(UsageError, match="--disposable-store"):
        system.open(CONTEXT)
    system = system.called(DISPOSABLE)
    assert "4711" in system.open(CONTEXT).ask("so?").text
    assert "4711" in system.open(CONTEXT[1:]).ask("so?").text
