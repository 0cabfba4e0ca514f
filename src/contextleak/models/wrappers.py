"""Wrappers that are models themselves: answer equal asks once, count what reaches the model, embed elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from contextleak.models.asks import Ask, Embed
from contextleak.models.model import Model

__all__ = ["Counted", "Distinct", "WithEmbedder", "Wrapper"]

R = TypeVar("R")


class Wrapper:
    """Base of models around a model: passes on everything but the answers."""

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


class WithEmbedder(Wrapper):
    """A model whose `Embed` asks go to another one."""

    def __init__(self, model: Model, embedder: Model) -> None:
        super().__init__(model)
        self.embedder = embedder

    @property
    def fingerprint(self) -> str:
        return f"{self.model.fingerprint}+{self.embedder.fingerprint}"

    @property
    def supports(self) -> frozenset[type[Ask[Any]]]:
        return self.model.supports | {Embed}

    def check(self, asks: Sequence[Ask[Any]], /) -> None:
        self.model.check([ask for ask in asks if not isinstance(ask, Embed)])
        self.embedder.check([ask for ask in asks if isinstance(ask, Embed)])

    def answer(self, asks: Sequence[Ask[R]], /) -> list[R]:
        embeds = [isinstance(ask, Embed) for ask in asks]
        replies = {
            there: iter(self._answered(model, [a for a, e in zip(asks, embeds, strict=True) if e is there]))
            for there, model in ((True, self.embedder), (False, self.model))
        }
        return [next(replies[there]) for there in embeds]

    def _answered(self, model: Model, asks: Sequence[Ask[R]]) -> list[R]:
        return model.answer(asks) if asks else []


class Distinct(Wrapper):
    """Asks each distinct question of a batch once (the two worlds of a pair share most of theirs)."""

    def answer(self, asks: Sequence[Ask[R]], /) -> list[R]:
        order = list(dict.fromkeys(asks))
        replies = dict(zip(order, self.model.answer(order), strict=True))
        return [replies[ask] for ask in asks]


class Counted(Wrapper):
    """Counts the asks that reach the model."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.calls = 0

    def answer(self, asks: Sequence[Ask[R]], /) -> list[R]:
        self.calls += len(asks)
        return self.model.answer(asks)
