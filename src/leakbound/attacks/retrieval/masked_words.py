"""MBA: words of the document are masked, and the store is asked for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from leakbound._check import whole
from leakbound.attacks import templates
from leakbound.attacks.retrieval.attack import DocumentAttack, Question, require_words
from leakbound.attacks.retrieval.words import long_words, replaced, words_of
from leakbound.attacks.templates import check_template, fill_template
from leakbound.attacks.texts import share_in_order


@dataclass(frozen=True, slots=True)
class MaskedWords(DocumentAttack):
    """Masks words of a document; the score is the share that the reply restores in their order.

    Only words are masked that stand in the document once, so that the question holds none of them.
    The published attack chooses words that a proxy language model finds hard to predict; here they
    are drawn from the longest.

    Attributes:
        masks: Words that are masked, at least 1.
        template: Wording; must hold {canary}.

    Raises:
        UsageError: If no word is masked, or the template lacks {canary} or holds another place.

    Reference:
        Liu, Zhang and Long, "Mask-based Membership Inference Attacks for Retrieval-Augmented
        Generation" (WWW 2025).

    Examples:
        >>> attack = MaskedWords(masks=1)
        >>> (asked,) = attack.questions("we saw a kestrel", np.random.default_rng(0))
        >>> asked.text.split(" Fill")[0], attack.evaluate([asked], ["[1] Kestrel"])
        ('we saw a [1]', 1.0)
    """

    name: ClassVar[str] = "mba"
    masks: int = 8
    template: str = templates.FILL_IN

    def __post_init__(self) -> None:
        check_template(self.name, self.template, ("canary",))
        whole("masks of the query mba", self.masks)

    def questions(self, document: str, rng: np.random.Generator) -> tuple[Question, ...]:
        """One: `document` with words masked, drawn by `rng` from the longest."""
        words = document.split()
        places = long_words(words)
        require_words(self.name, places, self.masks)
        longest = sorted(places, key=lambda at: -len(words[at]))[: 2 * self.masks]
        chosen = sorted(int(at) for at in rng.choice(longest, self.masks, replace=False))
        shown = list(words)
        for number, at in enumerate(chosen, 1):
            shown[at] = replaced(words[at], f"[{number}]")
        text = fill_template(self.template, {"canary": " ".join(shown)})
        return (Question(str(text), " ".join(words[at] for at in chosen)),)

    def evaluate(self, questions: Sequence[Question], replies: Sequence[str]) -> float:
        """Share of the masked words of `questions` that `replies` give in their order."""
        return share_in_order(words_of(questions[0].expected), words_of(replies[0]))
