"""Wrappers that are models themselves: answer equal asks once, count what reaches the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from contextleak.models.asks import Ask
from contextleak.models.model import Model

__all__ = ["Counted", "Distinct"]

R = TypeVar("R")


class _Wrapper:
    def __init__(self, model: Model) -> None:
        self.model = model

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def fingerprint(self) -> str:
        return self.model.fingerprint

    @property
    def supports(self) -> frozenset[type[Ask[Any]]]:
        return self.model.supports

    def check(self, asks: Sequence[Ask[Any]], /) -> None:
        self.model.check(asks)


class Distinct(_Wrapper):
    """Asks each distinct question of a batch once (the two worlds of a pair share most of theirs)."""

    def answer(self, asks: Sequence[Ask[R]], /) -> list[R]:
        order = list(dict.fromkeys(asks))
        replies = dict(zip(order, self.model.answer(order), strict=True))
        return [replies[ask] for ask in asks]


class Counted(_Wrapper):
    """Counts the asks that reach the model."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.calls = 0

    def answer(self, asks: Sequence[Ask[R]], /) -> list[R]:
        self.calls += len(asks)
        return self.model.answer(asks)
