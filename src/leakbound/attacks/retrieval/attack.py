"""What attacks on one document share: questions about it, and one number for all replies.

The attacker has the document and asks whether a store holds it. Every question is one answer of
the store, so a claim for an answer is composed over all of them.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from leakbound.attacks.protocols import AuditQuery, RenderedQuery
from leakbound.attacks.retrieval.words import only_words, words_of
from leakbound.errors import UsageError
from leakbound.models.content import text_only
from leakbound.tasks import Access, Example, Query, Task

ALWAYS_KEPT = ("yes", "no")


@dataclass(frozen=True, slots=True, repr=False)
class Question:
    """A question about a document.

    Attributes:
        text: What is sent (PRIVATE).
        expected: What an answer made from the document says (PRIVATE).
    """

    text: str
    expected: str

    def __repr__(self) -> str:
        return "Question(<private>)"


class DocumentAttack(AuditQuery):
    """A query with one or more questions about a document that a store holds or does not hold.

    Its own choices, such as which words are masked, depend on the document alone.

    Attributes:
        canary: Name of the canary that it is used with by default.
    """

    __slots__ = ()
    free: ClassVar[bool] = True
    score: ClassVar[str] = "document"
    tasks: ClassVar[str] = "stores, memories"
    access: ClassVar[frozenset[Access]] = frozenset({"black_box"})
    canary: ClassVar[str] = "natural"

    @abstractmethod
    def questions(self, document: str, rng: np.random.Generator) -> tuple[Question, ...]:
        """What is asked about a document.

        Args:
            document: Its text (PRIVATE).
            rng: Source of all randomness.

        Returns:
            As many questions for every document.

        Raises:
            UsageError: If the document is too short.
        """

    @abstractmethod
    def evaluate(self, questions: Sequence[Question], replies: Sequence[str]) -> float:
        """How much speaks for a store that holds the document.

        Args:
            questions: Those of the document (PRIVATE).
            replies: As many replies (PRIVATE); an empty one where there was no answer.

        Returns:
            A number from -1 to 1. It depends on no word of a reply but those that a question
            expects, yes and no, and not on how many others there are.
        """

    def render(self, canary: Example, task: Task, rare: str, common: str) -> RenderedQuery:
        """The questions about `canary`, as one query.

        `task`, `rare` and `common` are not used.
        """
        document = text_only(canary.input, self.name)
        digest = hashlib.sha256(f"{self.name}:{document}".encode()).digest()
        rng = np.random.default_rng(int.from_bytes(digest[:8], "big"))
        asked = self.questions(document, rng)
        query = Query(asked[0].text, free=True, further=tuple(one.text for one in asked[1:]))
        return DocumentQuery(query, "", None, document, self, asked)


@dataclass(frozen=True, slots=True, repr=False)
class DocumentQuery(RenderedQuery):
    """A rendered query that knows how its replies are scored."""

    attack: DocumentAttack | None = None
    questions: tuple[Question, ...] = ()

    def evaluate(self, text: str) -> float:
        """The score of an answer."""
        if self.attack is None:
            raise UsageError("the query has no attack; make it by the render of a DocumentAttack.")
        return self.attack.evaluate(self.questions, self.query.replies(text))

    def kept(self, text: str) -> str:
        """The replies with everything blotted out that the score does not read."""
        known = {*ALWAYS_KEPT, *(word for one in self.questions for word in words_of(one.expected))}
        replies = self.query.replies(text)
        return self.query.joined(only_words(reply, known) for reply in replies)


def require_words(attack: str, words: Sequence[object], least: int) -> None:
    """Refuse a document that is too short for an attack."""
    if len(words) < least:
        raise UsageError(
            f"the query {attack} needs {least} words of a document that it can ask about, and a "
            f"document has {len(words)}; use longer documents (--canary natural), or --query "
            "lookup."
        )
