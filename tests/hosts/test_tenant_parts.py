"""Audits between tenants over real stores and memories: chromadb, qdrant and LangGraph, with and
without a cache of answers."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rag_words import SIZE, hashed
from stores import DISPOSABLE
from tenants import NOTHING

import leakbound
from leakbound.tasks import Example

pytestmark = [pytest.mark.hosts, pytest.mark.filterwarnings("ignore")]
NUMBERS = itertools.count()


def embedded(text: str) -> Any:
    return np.array(hashed(text))


class Chroma:
    def __init__(self) -> None:
        chromadb = pytest.importorskip("chromadb")
        client = chromadb.EphemeralClient(chromadb.Settings(anonymized_telemetry=False))
        self.records = client.create_collection(f"records-{next(NUMBERS)}")

    def add(self, text: str, tenant: str) -> str:
        number = str(next(NUMBERS))
        self.records.add(
            ids=[number], documents=[text], embeddings=[embedded(text)],
            metadatas=[{"tenant": tenant}],
        )  # fmt: skip
        return number

    def delete(self, record_id: str) -> None:
        self.records.delete(ids=[record_id])

    def search(self, query: str, tenant: str | None) -> list[str]:
        where = {"tenant": tenant} if tenant else None
        found = self.records.query(query_embeddings=[embedded(query)], n_results=1, where=where)
        return list(found["documents"][0])

    def count(self) -> int:
        return int(self.records.count())


class Qdrant:
    def __init__(self) -> None:
        client = pytest.importorskip("qdrant_client")
        self.models, self.client = client.models, client.QdrantClient(":memory:")
        space = self.models.VectorParams(size=SIZE, distance=self.models.Distance.COSINE)
        self.client.create_collection("records", vectors_config=space)

    def add(self, text: str, tenant: str) -> int:
        number = next(NUMBERS)
        payload = {"text": text, "tenant": tenant}
        point = self.models.PointStruct(id=number, vector=hashed(text), payload=payload)
        self.client.upsert("records", [point])
        return number

    def delete(self, record_id: int) -> None:
        self.client.delete("records", self.models.PointIdsList(points=[record_id]))

    def search(self, query: str, tenant: str | None) -> list[str]:
        of = self.models.FieldCondition(
            key="tenant", match=self.models.MatchValue(value=tenant or "")
        )
        whose = self.models.Filter(must=[of] if tenant else [])
        found = self.client.query_points(
            "records", query=hashed(query), query_filter=whose, limit=1
        )
        return [point.payload["text"] for point in found.points]

    def count(self) -> int:
        return int(self.client.count("records").count)


class LangGraphStore:
    """The long-term memory of a graph, by namespaces: the prefix of all tenants finds theirs."""

    def __init__(self) -> None:
        pytest.importorskip("langgraph")
        from langgraph.config import get_store
        from langgraph.graph import START, StateGraph
        from langgraph.store.memory import InMemoryStore

        def embed(texts: Any) -> list[list[float]]:
            return [hashed(text) for text in texts]

        self.store = InMemoryStore(index={"embed": embed, "dims": SIZE, "fields": ["text"]})

        def recall(state: Any) -> Any:
            prefix = "notes", *([state["tenant"]] if state["tenant"] else [])
            found = get_store().search(prefix, query=state["question"], limit=1)
            return {**state, "found": [one.value["text"] for one in found]}

        made = StateGraph(dict).add_node("recall", recall).add_edge(START, "recall")
        self.graph = made.compile(store=self.store)

    def add(self, text: str, tenant: str) -> str:
        number = str(next(NUMBERS))
        self.store.put(("notes", tenant), number, {"text": text})
        return f"{tenant} {number}"

    def delete(self, record_id: str) -> None:
        tenant, number = record_id.split()
        self.store.delete(("notes", tenant), number)

    def search(self, query: str, tenant: str | None) -> list[str]:
        return list(self.graph.invoke({"question": query, "tenant": tenant})["found"])

    def count(self) -> int:
        return len(self.store.search(("notes",)))


class LangGraphThreads:
    """The conversations of a graph with a checkpointer; all tenants may have one thread."""

    def __init__(self) -> None:
        pytest.importorskip("langgraph")
        from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
        from langgraph.checkpoint.memory import InMemorySaver
        from langgraph.graph import START, MessagesState, StateGraph

        def answer(state: Any) -> dict[str, Any]:
            *told, asked = [message for message in state["messages"] if message.type == "human"]
            words = set(str(asked.content).split())
            best = max((str(one.content) for one in told), default="",
                       key=lambda text: len(words & set(text.split())))  # fmt: skip
            # a question is forgotten, so what is remembered is what was told
            return {"messages": [AIMessage(best), RemoveMessage(str(asked.id))]}

        made = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer")
        self.graph = made.compile(checkpointer=InMemorySaver())
        self.told, self.forgotten = HumanMessage, RemoveMessage
        self.kept = dict[str, Any]()

    def thread(self, tenant: str | None) -> dict[str, Any]:
        return {"configurable": {"thread_id": tenant or "support"}}

    def add(self, text: str, tenant: str) -> str:
        number = f"note {next(NUMBERS)}"
        self.kept[number] = tenant
        for whose in (tenant, None):  # both of the twin and of the defect, which do as much
            told = {"messages": [self.told(text, id=number)]}
            self.graph.update_state(self.thread(whose), told, as_node="answer")
        return number

    def delete(self, record_id: str) -> None:
        for whose in (self.kept.pop(record_id), None):
            gone = {"messages": [self.forgotten(record_id)]}
            self.graph.update_state(self.thread(whose), gone, as_node="answer")

    def search(self, query: str, tenant: str | None) -> list[str]:
        done = self.graph.invoke({"messages": [self.told(query)]}, self.thread(tenant))
        return [str(done["messages"][-1].content)]

    def count(self) -> int:
        return len(self.kept)


class Desk:
    """Answers word for word with the nearest record of a store, and caches answers.

    Args:
        filtered: Whether the search has a filter on the tenant.
        cached: Whether answers to like questions are kept, for `all` tenants or for `each`.
    """

    def __init__(self, records: Any, filtered: bool, cached: str = "") -> None:
        self.records, self.filtered, self.cached = records, filtered, cached
        self.kept: list[tuple[str, Any, str]] = []

    def open_tenant(self, tenant: str) -> DeskSession:
        return DeskSession(self, tenant)


class DeskSession:
    def __init__(self, desk: Desk, tenant: str) -> None:
        self.desk, self.tenant = desk, tenant

    def plant(self, record: Example) -> Any:
        return self.desk.records.add(str(record.input), self.tenant)

    def remove(self, record_id: Any) -> None:
        self.desk.records.delete(record_id)

    def ask(self, query: str) -> str:
        asked = embedded(query)
        for tenant, known, answer in self.desk.kept:
            if tenant in ("", self.tenant) and float(known @ asked) > 0.95:
                return answer
        found = self.desk.records.search(query, self.tenant if self.desk.filtered else None)
        answer = "\n".join(found) or NOTHING
        if self.desk.cached:
            self.desk.kept.append(
                (self.tenant if self.desk.cached == "each" else "", asked, answer)
            )
        return answer


STORES = (Chroma, Qdrant, LangGraphStore, LangGraphThreads)
SYSTEMS = (
    *((store, {"filtered": False}, "violation") for store in STORES),
    *((store, {"filtered": True}, "no_violation") for store in STORES),
    (Chroma, {"filtered": True, "cached": "all"}, "violation"),
    (Chroma, {"filtered": True, "cached": "each"}, "no_violation"),
)


@pytest.mark.parametrize(("store", "options", "verdict"), SYSTEMS)
def test_a_store_and_a_cache(
    store: type[Any], options: dict[str, Any], verdict: str, tmp_path: Path
) -> None:
    desk = Desk(store(), **options)
    result = leakbound.audit(
        system=desk, design="tenants", pairs=40, calls=DISPOSABLE, out=tmp_path, simulations=0
    )
    assert (result.verdict, result.claim.epsilon) == (verdict, 0)
    assert desk.records.count() == 0


@pytest.mark.parametrize("store", [Chroma, Qdrant])
@pytest.mark.parametrize(("cached", "verdict"), [("", "no_violation"), ("each", "violation")])
def test_deletions_from_a_store(
    store: type[Any], cached: str, verdict: str, tmp_path: Path
) -> None:
    desk = Desk(store(), filtered=False, cached=cached)
    desk.records.add("The office is open from nine to five.", "handbook")
    result = leakbound.audit(
        system=desk, design="deletion", pairs=40, calls=DISPOSABLE, out=tmp_path
    )
    assert (result.verdict, result.claim.epsilon) == (verdict, 0)
    assert desk.records.count() == 1
