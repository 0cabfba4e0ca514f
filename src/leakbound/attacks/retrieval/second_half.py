"""S2: half of the document is given, and the reply is compared with the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from leakbound.attacks import templates
from leakbound.attacks.retrieval.attack import DocumentAttack, Question, require_words
from leakbound.attacks.retrieval.words import words_of
from leakbound.attacks.templates import check_template, fill_template
from leakbound.attacks.texts import share_in_order


@dataclass(frozen=True, slots=True)
class SecondHalf(DocumentAttack):
    """Gives the first half of a document; the score is the share of the rest in the reply.

    The words of the rest count in their order (ROUGE-L recall). The published attack measures BLEU
    and the perplexity of the reply.

    Attributes:
        template: Wording; must hold {prefix}.

    Raises:
        UsageError: If the template lacks {prefix} or holds another place.

    Reference:
        Li et al., "Generating Is Believing: Membership Inference Attacks against
        Retrieval-Augmented Generation" (ICASSP 2025).

    Examples:
        >>> (asked,) = SecondHalf().questions("a b c d", np.random.default_rng(0))
        >>> asked.expected, SecondHalf().evaluate([asked], ["x c y"])
        ('c d', 0.5)
    """

    name: ClassVar[str] = "s2"
    template: str = templates.RECALL

    def __post_init__(self) -> None:
        check_template(self.name, self.template, ("prefix",))

    def questions(self, document: str, rng: np.random.Generator) -> tuple[Question, ...]:
        """One, with the first half of the words of `document`; nothing of `rng` is used."""
        words = document.split()
        require_words(self.name, words, 2)
        first, rest = words[: len(words) // 2], words[len(words) // 2 :]
        text = fill_template(self.template, {"prefix": " ".join(first)})
        return (Question(str(text), " ".join(rest)),)

    def evaluate(self, questions: Sequence[Question], replies: Sequence[str]) -> float:
        """Share of the rest, of which `questions` know, that `replies` repeat in its order."""
        return share_in_order(words_of(questions[0].expected), words_of(replies[0]))
