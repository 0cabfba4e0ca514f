"""Differential: the score of the document minus that of a copy with a few words changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from leakbound._check import whole, within
from leakbound.attacks import templates
from leakbound.attacks.retrieval.attack import DocumentAttack, Question, require_words
from leakbound.attacks.retrieval.words import long_words, replaced, stance, words_of
from leakbound.attacks.templates import check_template, fill_template
from leakbound.attacks.texts import share_in_order

# Takes the place of words: names that hardly any document holds, and that look like words
NAMES = (
    "Ardell", "Brisko", "Calveen", "Dorrick", "Elvaney", "Farlow", "Gantrel", "Hosmer", "Ildren",
    "Jaskin", "Kelbourne", "Lundrey", "Morvane", "Nostrell", "Ostrake", "Pellam",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Differential(DocumentAttack):
    """Asks for a document and for a copy with a few words changed; the scores are subtracted.

    So a store that says yes to anything, or repeats the question, scores 0, and a document whose
    subject is in the store anyway loses that advantage. A reply scores 1 for yes, 0 for no, else
    the share of the words at the changed places that it repeats.

    Attributes:
        share: Share of the words that are changed, above 0, at most 0.5; at least one word is.
        copies: Copies, at least 1, each with other changes; their scores are averaged.
        template: Wording; must hold {canary}.

    Raises:
        UsageError: If an option lies outside its range, or the template lacks {canary} or holds
            another place.

    Reference:
        Gao et al., "DCMI: A Differential Calibration Membership Inference Attack Against
        Retrieval-Augmented Generation" (CCS 2025).

    Examples:
        >>> attack = Differential()
        >>> asked = attack.questions("we saw a kestrel", np.random.default_rng(0))
        >>> [one.expected.split()[0] == "kestrel" for one in asked]
        [True, False]
        >>> attack.evaluate(asked, ["Yes.", "No."]), attack.evaluate(asked, ["Yes.", "Yes."])
        (1.0, 0.0)
    """

    name: ClassVar[str] = "differential"
    share: float = 0.03
    copies: int = 1
    template: str = templates.EXACT

    def __post_init__(self) -> None:
        check_template(self.name, self.template, ("canary",))
        within("share of the query differential", self.share, 1e-6, 0.5)
        whole("copies of the query differential", self.copies)

    def questions(self, document: str, rng: np.random.Generator) -> tuple[Question, ...]:
        """About `document`, then about its copies; `rng` chooses words and what replaces them."""
        words = document.split()
        places = long_words(words)
        require_words(self.name, places, 1)
        number = min(len(places), max(1, round(self.share * len(words))))
        changes = [self._change(places, number, rng) for _ in range(self.copies)]
        touched = sorted({at for change in changes for at in change})
        return (
            self._question(words, [words[at] for at in touched]),
            *(self._copy(words, change) for change in changes),
        )

    def _change(
        self, places: Sequence[int], number: int, rng: np.random.Generator
    ) -> dict[int, str]:
        """Places, and the words that they get."""
        chosen = sorted(int(at) for at in rng.choice(places, number, replace=False))
        return {at: NAMES[int(rng.integers(len(NAMES)))] for at in chosen}

    def _copy(self, words: Sequence[str], change: dict[int, str]) -> Question:
        shown = [
            replaced(word, change[at]) if at in change else word for at, word in enumerate(words)
        ]
        return self._question(shown, list(change.values()))

    def _question(self, words: Sequence[str], expected: Sequence[str]) -> Question:
        text = fill_template(self.template, {"canary": " ".join(words)})
        return Question(str(text), " ".join(expected))

    def evaluate(self, questions: Sequence[Question], replies: Sequence[str]) -> float:
        """Score of the first of `replies` less the mean of those about the copies."""
        first, *others = map(_read, questions, replies)
        return first - float(np.mean(others))


def _read(question: Question, reply: str) -> float:
    said = stance(reply)
    if said is not None:
        return float(said == "yes")
    return share_in_order(words_of(question.expected), words_of(reply))
