"""Canaries: records made to be recognised. Each maker is given a held-out row and the label to carry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from contextleak.errors import UsageError
from contextleak.icl import Exemplar

__all__ = ["CANARIES", "Canary", "Given", "Hex", "Natural"]


class Canary(Protocol):
    """Makes the canary of one pair; `held_out` is a row of the data that is in neither world."""

    name: ClassVar[str]

    def make(self, held_out: Exemplar, label: str, rng: np.random.Generator) -> Exemplar: ...


@dataclass(frozen=True, slots=True)
class Hex:
    """Random hexadecimal digits, fresh for every pair (CL)."""

    name: ClassVar[str] = "hex"
    digits: int = 16

    def make(self, held_out: Exemplar, label: str, rng: np.random.Generator) -> Exemplar:
        """`digits` random digits under `label`."""
        return Exemplar("".join("0123456789abcdef"[i] for i in rng.integers(0, 16, self.digits)), label)


@dataclass(frozen=True, slots=True)
class Natural:
    """A real row that the context does not hold (XL)."""

    name: ClassVar[str] = "natural"

    def make(self, held_out: Exemplar, label: str, rng: np.random.Generator) -> Exemplar:
        """The held-out row with its own label."""
        return held_out


@dataclass(frozen=True, slots=True)
class Given:
    """A text of the auditor's choice, the same in every pair."""

    name: ClassVar[str] = "given"
    text: str = ""
    label: str = ""

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise UsageError("the canary 'given' has no text; name it with --canary-text.")

    def make(self, held_out: Exemplar, label: str, rng: np.random.Generator) -> Exemplar:
        """The given text, under its own label or else `label`."""
        return Exemplar(self.text, self.label or label)


CANARIES: dict[str, type] = {kind.name: kind for kind in (Hex, Natural, Given)}
