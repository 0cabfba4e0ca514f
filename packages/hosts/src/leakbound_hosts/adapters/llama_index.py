"""LlamaIndex: indexes, and query engines, chat engines and retrievers over one."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, cast

from leakbound_hosts.adapters.index_store import IndexRecord, IndexStore, texts_of, undone
from leakbound_hosts.adapters.search import bases, find_inside, require_one_store

INDEX = "llama_index.core.indices.base.BaseIndex"
RETRIEVER = "llama_index.core.indices.vector_store.retrievers.retriever.VectorIndexRetriever"
# methods that answer, in the order in which they are tried
METHODS = ("query", "chat", "retrieve", "run")


class _Retriever(Protocol):
    def retrieve(self, query: str) -> object: ...


class _Nodes(Protocol):
    _node_ids: list[str] | None


class _Structure(Protocol):
    nodes_dict: dict[str, str]


class _Index(Protocol):
    _transformations: list[object]
    index_struct: _Structure

    def insert_nodes(self, nodes: object) -> None: ...

    def delete_ref_doc(self, ref_doc_id: str, delete_from_docstore: bool) -> None: ...

    def as_retriever(self) -> _Retriever: ...


def llama_index_store(thing: object, name: str) -> IndexStore | None:
    found = find_inside(thing, _is_index)
    if found is None:
        return None
    index = cast(_Index, found)
    whole = found is thing
    ask = (lambda query: index.as_retriever().retrieve(query)) if whole else _method(thing, index)
    if ask is None:
        return None
    require_one_store(thing, _is_index, name)
    return IndexStore(name, partial(_add, index), partial(_delete, index), partial(_answer, ask))


def _is_index(thing: object) -> bool:
    return INDEX in bases(thing)


def _method(thing: object, index: _Index) -> Callable[[str], object] | None:
    if not any(one.startswith("llama_index.") for one in bases(thing)):
        return cast("Callable[[str], object]", thing) if callable(thing) else None
    methods = (getattr(thing, method, None) for method in METHODS)
    method = next((one for one in methods if callable(one)), None)
    return None if method is None else _sees_all(method, thing, index)


def _sees_all(
    method: Callable[[str], object], thing: object, index: _Index
) -> Callable[[str], object]:
    """A retriever sees the nodes that were there when it was made; an application that takes new
    documents makes it anew. One that its owner restricts to some nodes stays as it is.
    """
    found = find_inside(thing, lambda one: RETRIEVER in bases(one))
    retriever = cast("_Nodes | None", found)
    if retriever is None or set(retriever._node_ids or ()) != _nodes(index):
        return method

    def ask(query: str) -> object:
        retriever._node_ids = list(_nodes(index))
        return method(query)

    return ask


def _nodes(index: _Index) -> set[str]:
    return set(index.index_struct.nodes_dict.values())


def _add(index: _Index, records: Sequence[IndexRecord]) -> list[str]:
    """Splits and embeds the documents as the index does with its own."""
    from llama_index.core import Document
    from llama_index.core.ingestion import run_transformations

    made = [
        Document(
            text=one.text, id_=str(uuid.uuid4()), metadata={"label": one.label} if one.label else {}
        )
        for one in records
    ]
    ids = [str(one.id_) for one in made]
    with undone(partial(_delete, index), ids):
        index.insert_nodes(run_transformations(made, index._transformations))
    return ids


def _delete(index: _Index, ids: list[str]) -> None:
    for one in ids:
        index.delete_ref_doc(one, delete_from_docstore=True)


def _answer(ask: Callable[[str], object], query: str) -> object:
    return texts_of(ask(query), _text)


def _text(node: object) -> object:
    found: object = getattr(node, "text", None)
    return found
