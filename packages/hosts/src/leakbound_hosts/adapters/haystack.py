"""Haystack: document stores, and pipelines over one."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol, cast

from leakbound_hosts.adapters.index_store import IndexRecord, IndexStore, texts_of, undone
from leakbound_hosts.adapters.search import bases, find_inside, require_one_store

PIPELINES = frozenset({"haystack.core.pipeline.base.PipelineBase"})
METHODS = ("write_documents", "delete_documents", "count_documents")


class _Store(Protocol):
    def write_documents(self, documents: list[object]) -> int: ...

    def delete_documents(self, document_ids: list[str]) -> None: ...

    def bm25_retrieval(self, query: str) -> list[object]: ...


class _Pipeline(Protocol):
    def inputs(self) -> Mapping[str, Mapping[str, Mapping[str, object]]]: ...

    def run(self, data: Mapping[str, object]) -> Mapping[str, Mapping[str, object]]: ...


class _Embedder(Protocol):
    def run(self, text: str) -> Mapping[str, object]: ...


def haystack_store(thing: object, name: str) -> IndexStore | None:
    found = find_inside(thing, _is_store)
    if found is None:
        return None
    store = cast(_Store, found)
    if found is thing:
        ask: Callable[[str], object] = partial(_find, store)
        return IndexStore(name, partial(_add, store, None), store.delete_documents, ask)
    if not PIPELINES & bases(thing):
        return None
    require_one_store(thing, _is_store, name)
    embeds = find_inside(
        thing,
        lambda one: type(one).__name__.endswith("TextEmbedder") and hasattr(type(one), "run"),
    )
    embedder = cast("_Embedder | None", embeds)
    asking = partial(_run, cast(_Pipeline, thing))
    return IndexStore(name, partial(_add, store, embedder), store.delete_documents, asking)


def _is_store(thing: object) -> bool:
    kind = type(thing)
    return "DocumentStore" in kind.__name__ and all(hasattr(kind, name) for name in METHODS)


def _add(store: _Store, embedder: _Embedder | None, records: Sequence[IndexRecord]) -> list[str]:
    from haystack import Document

    made = [
        Document(
            id=str(uuid.uuid4()), content=one.text, meta={"label": one.label} if one.label else {},
            embedding=None if embedder is None else embedder.run(text=one.text)["embedding"],
        )
        for one in records
    ]  # fmt: skip
    ids = [str(one.id) for one in made]
    with undone(store.delete_documents, ids):
        store.write_documents(cast("list[object]", made))
    return ids


def _find(store: _Store, query: str) -> object:
    return texts_of(store.bm25_retrieval(query=query), _content)


def _content(document: object) -> object:
    found: object = getattr(document, "content", None)
    return found


def _run(pipeline: _Pipeline, query: str) -> object:
    """Every text that the pipeline needs is the query; its last component answers."""
    data = {
        component: {
            name: query
            for name, socket in sockets.items()
            if socket.get("is_mandatory") and socket.get("type") in (str, object)
        }
        for component, sockets in pipeline.inputs().items()
    }
    answers = pipeline.run({name: values for name, values in data.items() if values})
    return _say(list(answers.values())[-1])


def _say(values: Mapping[str, object]) -> object:
    """The first reply or answer; of a pipeline that ends in a retriever, the documents."""
    for name in ("replies", "answers", "documents"):
        found = values.get(name)
        if name == "documents" and isinstance(found, list):
            return texts_of(found, _content)
        if isinstance(found, list) and found:
            return getattr(found[0], "text", None) or getattr(found[0], "data", None) or found[0]
    return values
