"""Growing prefixes of the document are given, and each reply is compared with the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from leakbound._check import whole
from leakbound.attacks import templates
from leakbound.attacks.retrieval.attack import DocumentAttack, Question, require_words
from leakbound.attacks.retrieval.words import words_of
from leakbound.attacks.templates import check_template, fill_template
from leakbound.attacks.texts import share_in_order


@dataclass(frozen=True, slots=True)
class GrowingPrefixes(DocumentAttack):
    """Gives ever longer beginnings of a document, up to half of it, and asks for the rest.

    A reply counts by the share of the rest that it repeats in its order, and by how much of the
    document was not given: what follows from a short beginning weighs more.

    Attributes:
        steps: Prefixes, at least 1; each is a question.
        template: Wording; must hold {prefix}.

    Raises:
        UsageError: If there is no prefix, or the template lacks {prefix} or holds another place.

    Reference:
        Carlini et al., "Quantifying Memorization Across Neural Language Models" (ICLR 2023), of
        prompts of growing length.

    Examples:
        >>> attack = GrowingPrefixes(steps=2)
        >>> asked = attack.questions("a b c d", np.random.default_rng(0))
        >>> [one.expected for one in asked]
        ['b c d', 'c d']
        >>> round(attack.evaluate(asked, ["", "c d"]), 2)
        0.4
    """

    name: ClassVar[str] = "prefix"
    steps: int = 4
    template: str = templates.RECALL

    def __post_init__(self) -> None:
        check_template(self.name, self.template, ("prefix",))
        whole("steps of the query prefix", self.steps)

    def questions(self, document: str, rng: np.random.Generator) -> tuple[Question, ...]:
        """One for each prefix of `document`; nothing of `rng` is used."""
        words = document.split()
        require_words(self.name, words, 2 * self.steps)
        sizes = [len(words) * step // (2 * self.steps) for step in range(1, self.steps + 1)]
        return tuple(
            Question(
                str(fill_template(self.template, {"prefix": " ".join(words[:size])})),
                " ".join(words[size:]),
            )
            for size in sizes
        )

    def evaluate(self, questions: Sequence[Question], replies: Sequence[str]) -> float:
        """Weighted mean of the shares of the rest in `replies` to `questions`."""
        shares = [
            share_in_order(words_of(one.expected), words_of(reply))
            for one, reply in zip(questions, replies, strict=True)
        ]
        weights = [1 - step / (2 * self.steps) for step in range(1, self.steps + 1)]
        return float(np.average(shares, weights=weights))
