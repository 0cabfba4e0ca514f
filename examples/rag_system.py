"""A retrieval pipeline over private documents, as a system: retrieve the documents nearest to a
query, and let a model answer from them.

leakbound audit --system python:examples/rag_system.py:RagSystem --shots 12 --pairs 40

The documents of a trial are the examples of its context. The index is rebuilt for each trial, as it
would be after an upload.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sklearn.feature_extraction.text as features  # pyright: ignore[reportMissingTypeStubs]

from leakbound import Example, Query, Task, open_model
from leakbound.models import Complete

DOCUMENTS = 4
PROMPT = Task("rag", instruction="Label each input with one of: red, blue, green, gold.")


class RagSystem:
    """TF-IDF retrieval with scikit-learn in front of the pocket model, or any other model."""

    def __init__(self) -> None:
        self.model = open_model("pocket")

    def retrieve(self, documents: tuple[Example, ...], query: str) -> tuple[Example, ...]:
        """The documents most similar to the query, the best one last, next to the query."""
        vectorizer: Any = features.TfidfVectorizer()  # scikit-learn declares no types
        index = vectorizer.fit_transform([document.text for document in documents])
        cosines = (index @ vectorizer.transform([query]).T).toarray()[:, 0]  # rows have norm 1
        nearest = np.argsort(cosines, kind="stable")[-DOCUMENTS:]
        return tuple(documents[int(i)] for i in nearest)

    def answer(self, context: tuple[Example, ...], query: str) -> str:
        """The model's answer to the query, from the retrieved documents."""
        prompt = PROMPT.prompt(self.retrieve(context, query), Query(query))
        (text,) = self.model.answer([Complete(prompt, max_tokens=12)])
        return text
