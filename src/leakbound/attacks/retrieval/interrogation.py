"""IA: yes-or-no questions that only the document answers."""

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


@dataclass(frozen=True, slots=True)
class Interrogation(DocumentAttack):
    """Asks whether passages of a document are true, half of them with a word changed.

    The score is the share of right answers, less a charge for each that is neither yes nor no, such
    as "I don't know": a store without the document cannot know. The published attack has a language
    model write its questions.

    Attributes:
        statements: Questions, at least 2.
        length: Words of each passage, at least 3.
        charge: What an answer that is neither yes nor no costs, in right answers; from 0 to 1.
        template: Wording; must hold {canary}.

    Raises:
        UsageError: If an option lies outside its range, or the template lacks {canary} or holds
            another place.

    Reference:
        Naseh et al., "Riddle Me This! Stealthy Membership Inference for Retrieval-Augmented
        Generation" (CCS 2025).

    Examples:
        >>> attack = Interrogation(statements=2, charge=0.5)
        >>> asked = [Question("a kite flew, right?", "yes"), Question("a crow flew, right?", "no")]
        >>> attack.evaluate(asked, ["Yes.", "No."]), attack.evaluate(asked, ["Yes.", "Who knows"])
        (1.0, 0.25)
    """

    name: ClassVar[str] = "interrogation"
    statements: int = 6
    length: int = 8
    charge: float = 0.5
    template: str = templates.STATEMENT

    def __post_init__(self) -> None:
        check_template(self.name, self.template, ("canary",))
        whole("statements of the query interrogation", self.statements, 2)
        whole("length of the query interrogation", self.length, 3)
        within("charge of the query interrogation", self.charge, 0.0, 1.0)

    def questions(self, document: str, rng: np.random.Generator) -> tuple[Question, ...]:
        """About passages of `document`; `rng` chooses those that get a word of another passage."""
        words = document.split()
        require_words(self.name, words, 2 * self.length)
        starts = np.linspace(0, len(words) - self.length, self.statements).astype(int)
        true = rng.permutation(np.arange(self.statements) % 2 == 0)
        return tuple(
            self._question(words, int(start), bool(as_it_is), rng)
            for start, as_it_is in zip(starts, true, strict=True)
        )

    def _question(
        self, words: list[str], start: int, true: bool, rng: np.random.Generator
    ) -> Question:
        passage = words[start : start + self.length]
        if not true:
            passage = _change(passage, [*words[:start], *words[start + self.length :]], rng)
        text = fill_template(self.template, {"canary": " ".join(passage)})
        return Question(str(text), "yes" if true else "no")

    def evaluate(self, questions: Sequence[Question], replies: Sequence[str]) -> float:
        """Mean over `questions` of 1 for a right one of `replies`, less the charges."""
        said = [stance(reply) for reply in replies]
        right = sum(one.expected == answer for one, answer in zip(questions, said, strict=True))
        return (right - self.charge * said.count(None)) / len(questions)


def _change(passage: list[str], others: list[str], rng: np.random.Generator) -> list[str]:
    """One word, of the longest where there are such, becomes one of another passage."""
    known = set(words_of(" ".join(passage)))
    at = int(rng.choice(long_words(passage) or len(passage)))
    fresh = [others[i] for i in long_words(others)] or others
    fresh = [word for word in fresh if not known & set(words_of(word)) and words_of(word)]
    core = words_of(fresh[int(rng.integers(len(fresh)))])[0] if fresh else "nothing"
    return [*passage[:at], replaced(passage[at], core), *passage[at + 1 :]]
