"""LlamaIndex's own objects, named and nothing else, with offline embeddings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rag_words import hashed, rows
from stores import DISPOSABLE

import leakbound

pytest.importorskip("llama_index.core")
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.llms import MockLLM

pytestmark = [pytest.mark.hosts, pytest.mark.filterwarnings("ignore")]


class Hashed(BaseEmbedding):
    """Counts of hashed words."""

    def _get_query_embedding(self, query: str) -> list[float]:
        return hashed(query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return hashed(text)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return hashed(query)


def index(number: int = 0) -> VectorStoreIndex:
    documents = [Document(text=text) for text, _ in rows(number, seed=1)]
    return VectorStoreIndex.from_documents(documents, embed_model=Hashed())


def engine(built: VectorStoreIndex) -> Any:
    """A query engine whose scripted model repeats its prompt."""
    return built.as_query_engine(llm=MockLLM())


KINDS = [lambda built: built, lambda built: built.as_retriever(), engine]


@pytest.mark.parametrize("kind", KINDS, ids=["index", "retriever", "query_engine"])
def test_one_run_with_one_build(tmp_path: Path, kind: Any) -> None:
    built = index(20)
    result = leakbound.audit(
        rows(200), system=kind(built), design="one_run", canaries=100, epsilon=3, out=tmp_path,
        calls=DISPOSABLE, settings={"claim_for": "run", "documents": 50},
    )  # fmt: skip
    assert (result.verdict, result.counts["builds"]) == ("violation", 1)
    assert len(built.docstore.docs) == 20  # as it was


def test_a_session(tmp_path: Path) -> None:
    built = index(20)
    result = leakbound.audit(
        rows(60), system=engine(built), design="session", pairs=30, out=tmp_path,
        calls=DISPOSABLE, settings={"documents": 0},
    )  # fmt: skip
    assert result.verdict == "violation"
    assert len(built.docstore.docs) == 20
