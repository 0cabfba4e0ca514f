"""LangChain's own objects, named and nothing else, with offline embeddings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from leakbound_hosts.adapters import adapted
from leakbound_hosts.adapters.index_store import IndexStore
from rag_words import hashed, rows
from stores import DISPOSABLE
from typing_extensions import TypedDict

import leakbound
from leakbound.errors import UsageError
from leakbound.systems import as_system
from leakbound.tasks import as_context

pytest.importorskip("langchain_core")
from langchain_core.embeddings import Embeddings
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore

pytestmark = [pytest.mark.hosts, pytest.mark.filterwarnings("ignore")]


class Hashed(Embeddings):
    """Counts of hashed words."""

    def embed_query(self, text: str) -> list[float]:
        return hashed(text)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return list(map(hashed, texts))


class Question(TypedDict):
    """What the keyed chain is asked with."""

    question: str


def store() -> InMemoryVectorStore:
    return InMemoryVectorStore(Hashed())


def texts(documents: list[Any]) -> str:
    return "\n".join(document.page_content for document in documents)


def chain(index: InMemoryVectorStore) -> Any:
    """Retrieval, a prompt, and a scripted model that says what it was shown."""
    prompt = ChatPromptTemplate.from_template("{context}\n\n{question}")
    parts = {"context": index.as_retriever() | texts, "question": RunnablePassthrough()}
    return parts | prompt | RunnableLambda(lambda shown: shown.to_messages()[-1])


def keyed_chain(index: InMemoryVectorStore) -> Any:
    """The same, asked with a mapping."""
    prompt = ChatPromptTemplate.from_template("{context}\n\n{question}")
    parts = RunnablePassthrough.assign(
        context=RunnableLambda(lambda given: texts(index.similarity_search(given["question"])))
    )
    typed = parts.with_types(input_type=Question)
    return typed | prompt | RunnableLambda(lambda shown: shown.to_string())


def function(index: InMemoryVectorStore) -> Any:
    def answer(query: str) -> str:
        return texts(index.similarity_search(query))

    return answer


KINDS = [lambda index: index, lambda index: index.as_retriever(), chain, keyed_chain, function]


@pytest.mark.parametrize(
    "kind", KINDS, ids=["store", "retriever", "chain", "keyed_chain", "function"]
)
def test_one_run_with_one_build(tmp_path: Path, kind: Any) -> None:
    index = store()
    result = leakbound.audit(
        rows(200), system=kind(index), design="one_run", canaries=100, epsilon=3, out=tmp_path,
        calls=DISPOSABLE, settings={"claim_for": "run"},
    )  # fmt: skip
    assert (result.verdict, result.counts["builds"]) == ("violation", 1)
    assert not index.store  # as it was


def test_a_session_over_a_filled_store(tmp_path: Path) -> None:
    index = store()
    index.add_texts([text for text, _ in rows(50, seed=1)])
    result = leakbound.audit(
        rows(60), system=chain(index), design="session", pairs=30, out=tmp_path,
        calls=DISPOSABLE, settings={"documents": 0},
    )  # fmt: skip
    assert result.verdict == "violation"
    assert len(index.store) == 50


def test_a_chain_that_shows_nothing(tmp_path: Path) -> None:
    silent = chain(store()) | RunnableLambda(lambda message: "I cannot tell.")
    result = leakbound.audit(
        rows(200), system=silent, design="one_run", canaries=60, out=tmp_path, calls=DISPOSABLE
    )
    assert (result.verdict, result.bound.epsilon) == ("inconclusive", 0)


def test_by_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No line of the user's code but the name of the object."""
    from leakbound.cli import main

    monkeypatch.chdir(tmp_path)
    here = Path(__file__).parent
    (tmp_path / "app.py").write_text(
        f"import sys; sys.path.append({str(here)!r})\n"
        "from test_langchain import chain, store\nanswer = chain(store())\n"
    )
    (tmp_path / "docs.jsonl").write_text(
        "".join(f'{{"text": "{text}"}}\n' for text, _ in rows(150))
    )
    with pytest.raises(SystemExit) as ended:
        main(["audit", "--system", "python:app.py:answer", "--data", "docs.jsonl", "--design",
              "one_run", "--claim-for", "run", "--epsilon", "3", "--disposable-store"])  # fmt: skip
    assert ended.value.code == 1


def test_a_function_of_a_context_is_no_adapters_business() -> None:
    index = store()
    assert adapted(lambda context, query: texts(index.similarity_search(query)), "mine") is None


@pytest.mark.parametrize(("query", "calls"), [("s2", 1), ("prefix", 4)])
def test_attacks_on_documents_need_no_more_than_the_chain(
    query: Any, calls: int, tmp_path: Path
) -> None:
    """The chain shows the documents that it finds, and the question."""
    result = leakbound.audit(
        [(text.replace("w", "word"), "") for text, _ in rows(80)], system=chain(store()),
        design="one_run", query=query, canaries=40, epsilon=1, out=tmp_path,
        calls=DISPOSABLE, settings={"claim_for": "run"},
    )  # fmt: skip
    assert result.counts["answers"] == 56 * calls
    assert result.verdict == "violation"


class Halfway(InMemoryVectorStore):
    """Names a document by its text where it has no id; fails once, in the middle of an addition."""

    failed = True

    def add_documents(self, documents: list[Any], ids: Any = None, **more: Any) -> list[str]:
        named = ids or [one.id or one.page_content for one in documents]
        if not self.failed and len(documents) > 1:
            self.failed = True
            super().add_documents(documents[:2], named[:2], **more)
            raise ConnectionError
        return super().add_documents(documents, named, **more)


def test_documents_of_the_owner_stay_and_half_an_addition_does_not() -> None:
    """Before, documents that were there already were deleted, and half an addition stayed."""
    index, context = Halfway(Hashed()), as_context(rows(8))
    index.add_texts([str(row.input) for row in context[:4]], ids=[str(n) for n in range(4)])
    index.failed = False
    system = adapted(index, "mine")
    assert isinstance(system, IndexStore)
    system = system.called(DISPOSABLE)
    with pytest.raises(ConnectionError):
        system.open(context)
    assert sorted(index.store) == ["0", "1", "2", "3"]
    session = system.open(context)
    assert len(index.store) == 12
    session.close()
    assert sorted(index.store) == ["0", "1", "2", "3"]


def test_an_application_with_two_stores_is_refused() -> None:
    """Canaries went into the log of the questions, which the code names first."""
    log, index = store(), store()

    def answer(query: str) -> str:
        log.add_texts([query])
        return texts(index.similarity_search(query))

    told = r"holds 2 stores \(InMemoryVectorStore, InMemoryVectorStore\)"
    with pytest.raises(UsageError, match=told):
        as_system(answer, "mine")

    class Own:
        """Says itself which store records go into."""

        def open(self, context: Any) -> Any:
            return self

    own = Own()
    own.__dict__.update(log=log, index=index)
    assert adapted(own, "mine") is None
