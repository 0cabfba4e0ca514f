"""A retrieval pipeline over private documents, as a system: find the documents nearest to a
question, let a model answer from them.

leakbound audit --system python:examples/rag_system.py:RagSystem --shots 12 --pairs 40

The documents of a trial are the examples of its context. The index is built anew for each, as it
would be after an upload.
"""

from __future__ import annotations

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics.pairwise import cosine_similarity

from leakbound import Example, Query, Task, open_model
from leakbound.models import Complete

DOCUMENTS = 4
PROMPT = Task("rag", instruction="Label each input with one of: red, blue, green, gold.")


class RagSystem:
    """TF-IDF retrieval with scikit-learn in front of the pocket model; any model address will do in
    its place.
    """

    def __init__(self) -> None:
        self.model = open_model("pocket")

    def retrieve(self, documents: tuple[Example, ...], question: str) -> tuple[Example, ...]:
        """The documents most like the question, the best one last, next to the question."""
        vectorizer = TfidfVectorizer()
        index = vectorizer.fit_transform([document.text for document in documents])
        likeness = cosine_similarity(vectorizer.transform([question]), index)[0]
        return tuple(documents[i] for i in likeness.argsort(kind="stable")[-DOCUMENTS:])

    def answer(self, context: tuple[Example, ...], query: str) -> str:
        """What the model says to the question behind the retrieved documents."""
        prompt = PROMPT.prompt(self.retrieve(context, query), Query(query))
        (text,) = self.model.answer([Complete(prompt, max_tokens=12)])
        return text
