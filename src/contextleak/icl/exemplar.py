"""An exemplar and a context: the private data that an in-context system shows to its model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Context", "Exemplar", "as_context"]


@dataclass(frozen=True, slots=True, repr=False)
class Exemplar:
    """One private example (x, y). Its repr shows nothing of its text."""

    input: str
    label: str

    def __repr__(self) -> str:
        return "Exemplar(<private>)"


Context = tuple[Exemplar, ...]


def as_context(rows: Iterable[Exemplar | tuple[str, str]]) -> Context:
    """Make a context of exemplars or of (input, label) pairs."""
    return tuple(row if isinstance(row, Exemplar) else Exemplar(*row) for row in rows)
