"""Canaries: records made to be recognised.

Each maker is given a held-out row and the label to carry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import numpy as np

from leakbound._catalogue import Catalogue
from leakbound.attacks.facts import FALSE_FACTS
from leakbound.attacks.image_canaries import Marked, Patchwork
from leakbound.errors import UsageError
from leakbound.models.content import Content, text_only
from leakbound.tasks import Context, Example

__all__ = ["CANARIES", "Canary", "FalseFact", "Given", "Hex", "Mislabeled", "Natural", "Unigram"]


class Canary(Protocol):
    """Makes the canary of one pair; `held_out` is a row of the data that is in neither world."""

    name: ClassVar[str]

    def make(self, held_out: Example, label: str, rng: np.random.Generator) -> Example: ...


@dataclass(frozen=True, slots=True)
class Hex:
    """Random hexadecimal digits, fresh for every pair (CL)."""

    name: ClassVar[str] = "hex"
    digits: int = 16

    def make(self, held_out: Example, label: str, rng: np.random.Generator) -> Example:
        """`digits` random digits under `label`."""
        return Example(
            "".join("0123456789abcdef"[i] for i in rng.integers(0, 16, self.digits)), label
        )


@dataclass(frozen=True, slots=True)
class Natural:
    """A real row that the context does not hold (XL)."""

    name: ClassVar[str] = "natural"

    def make(self, held_out: Example, label: str, rng: np.random.Generator) -> Example:
        """The held-out row with its own label."""
        return held_out


@dataclass(frozen=True, slots=True)
class Given:
    """A text or an image of the auditor's choice, the same in every pair."""

    name: ClassVar[str] = "given"
    text: Content = ""
    label: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.text, str) and not self.text.strip():
            raise UsageError(
                "the canary 'given' has no text; name it with --canary-text, or an image with "
                "--canary-image."
            )

    def make(self, held_out: Example, label: str, rng: np.random.Generator) -> Example:
        """The given text or image, under its own label or else `label`."""
        return Example(self.text, self.label or label)


@dataclass(frozen=True, slots=True)
class FalseFact:
    """A sentence that is false, one of a hundred of our own (CL)."""

    name: ClassVar[str] = "false_fact"

    def make(self, held_out: Example, label: str, rng: np.random.Generator) -> Example:
        """A random one under `label`."""
        return Example(str(FALSE_FACTS[int(rng.integers(len(FALSE_FACTS)))]), label)


@dataclass(frozen=True, slots=True)
class Mislabeled:
    """A real row that the context does not hold, under a label that is not its own."""

    name: ClassVar[str] = "mislabeled"

    def make(self, held_out: Example, label: str, rng: np.random.Generator) -> Example:
        """The held-out input under `label`, which the design takes from the other labels of the
        data.
        """
        return Example(held_out.input, label)


@dataclass(frozen=True, slots=True, repr=False)
class Unigram:
    """The rarest words of the private data, or of the model's tokens of it (CL).

    `words` are PRIVATE and set by `fitted`.
    """

    name: ClassVar[str] = "unigram"
    length: int = 5
    words: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Unigram(length={self.length}, <private>)"

    def fitted(self, rows: Context, tokenize: Callable[[str], list[str]]) -> Unigram:
        """With the words of the rows, rarest first; ties in alphabetical order."""
        counts = Counter(
            word.strip()
            for row in rows
            for word in tokenize(text_only(row.input, self.name))
            if word.strip()
        )
        rare = [word for word, _ in sorted(counts.items(), key=lambda item: (item[1], item[0]))]
        return replace(self, words=tuple(rare[: max(100, 4 * self.length)]))

    def make(self, held_out: Example, label: str, rng: np.random.Generator) -> Example:
        """`length` different rare words in random order, under `label`."""
        if len(self.words) < self.length:
            raise UsageError(
                f"the data has {len(self.words)} different words, and the canary unigram takes "
                f"{self.length}; use hex."
            )
        chosen = rng.choice(len(self.words), self.length, replace=False)
        return Example(" ".join(self.words[i] for i in chosen), label)


CANARIES: Catalogue[Canary] = Catalogue(
    "the canary",
    "leakbound.canaries",
    (Hex, Unigram, FalseFact, Natural, Mislabeled, Given, Patchwork, Marked),
)
