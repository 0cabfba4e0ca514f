"""LangChain: vector stores, retrievers, and runnables with a vector store somewhere in them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Protocol, cast

from leakbound.systems.stores import require_done
from leakbound_hosts.adapters.index_store import IndexRecord, IndexStore, texts_of, undone
from leakbound_hosts.adapters.search import bases, find_inside, require_one_store

STORE = "langchain_core.vectorstores.base.VectorStore"
RUNNABLE = "langchain_core.runnables.base.Runnable"
RETRIEVER = "langchain_core.retrievers.BaseRetriever"


class _Found(Protocol):
    page_content: str


class _VectorStore(Protocol):
    def add_documents(self, documents: list[object]) -> list[str]: ...

    def delete(self, ids: list[str]) -> object: ...

    def similarity_search(self, query: str) -> list[_Found]: ...


class _Runnable(Protocol):
    def invoke(self, value: object) -> object: ...

    def get_input_jsonschema(self) -> dict[str, object]: ...


def langchain_store(thing: object, name: str) -> IndexStore | None:
    found = find_inside(thing, _is_store)
    if found is None:
        return None
    store = cast(_VectorStore, found)
    if (ask := _asker(thing, store)) is None:
        return None
    require_one_store(thing, _is_store, name)
    return _with(store, name, ask)


def _is_store(thing: object) -> bool:
    return STORE in bases(thing)


def _asker(thing: object, store: _VectorStore) -> Callable[[str], object] | None:
    if thing is store:
        return store.similarity_search
    if RUNNABLE in bases(thing):
        runnable = cast(_Runnable, thing)
        field = None if RETRIEVER in bases(thing) else _field(runnable)
        return lambda query: runnable.invoke(query if field is None else {field: query})
    return cast("Callable[[str], object]", thing) if callable(thing) else None


def _with(store: _VectorStore, name: str, asking: Callable[[str], object]) -> IndexStore:
    def add(records: Sequence[IndexRecord]) -> list[str]:
        from langchain_core.documents import Document

        ids = [str(uuid.uuid4()) for _ in records]  # so that no record of the owner has one
        made: list[object] = [
            Document(
                id=made_id,
                page_content=one.text,
                metadata={"label": one.label} if one.label else {},
            )
            for made_id, one in zip(ids, records, strict=True)
        ]
        with undone(delete, ids):
            return list(store.add_documents(made))

    def delete(ids: list[str]) -> None:
        require_done(store.delete(ids))

    def answer(query: str) -> object:
        return texts_of(asking(query), _text)

    return IndexStore(name, add, delete, answer)


def _field(runnable: _Runnable) -> str | None:
    """The key under which a runnable wants the query; None if it takes a text."""
    schema = _resolve(runnable.get_input_jsonschema())
    if schema.get("type") != "object":
        return None
    names = [str(one) for one in _list_all(schema.get("required"))]
    properties = schema.get("properties")
    known = list(map(str, properties)) if isinstance(properties, dict) else []
    usual = ("input", "question", "query")
    return next((one for one in usual if one in known), (names or [*known, "input"])[0])


def _resolve(schema: dict[str, object]) -> dict[str, object]:
    """A schema that only names one of its definitions is that definition."""
    defined, name = schema.get("$defs"), str(schema.get("$ref", "")).rpartition("/")[2]
    found = defined.get(name) if isinstance(defined, dict) else None
    return found if isinstance(found, dict) else schema


def _list_all(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()


def _text(document: object) -> object:
    found: object = getattr(document, "page_content", None)
    return found
