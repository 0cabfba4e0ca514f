"""Wrappers that are models themselves:

answer equal asks once, count what reaches the model, embed elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from leakbound.models.model import Model
from leakbound.models.request import Embed, Request

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
    def supports(self) -> frozenset[type[Request[Any]]]:
        return self.model.supports

    def check(self, requests: Sequence[Request[Any]], /) -> None:
        self.model.check(requests)


class WithEmbedder(Wrapper):
    """A model whose `Embed` asks go to another one."""

    def __init__(self, model: Model, embedder: Model) -> None:
        super().__init__(model)
        self.embedder = embedder

    @property
    def fingerprint(self) -> str:
        return f"{self.model.fingerprint}+{self.embedder.fingerprint}"

    @property
    def supports(self) -> frozenset[type[Request[Any]]]:
        return self.model.supports | {Embed}

    def check(self, requests: Sequence[Request[Any]], /) -> None:
        self.model.check([ask for ask in requests if not isinstance(ask, Embed)])
        self.embedder.check([ask for ask in requests if isinstance(ask, Embed)])

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        embeds = [isinstance(ask, Embed) for ask in requests]
        replies = {
            there: iter(
                self._answered(
                    model, [a for a, e in zip(requests, embeds, strict=True) if e is there]
                )
            )
            for there, model in ((True, self.embedder), (False, self.model))
        }
        return [next(replies[there]) for there in embeds]

    def _answered(self, model: Model, requests: Sequence[Request[R]]) -> list[R]:
        return model.answer(requests) if requests else []


class Distinct(Wrapper):
    """Asks each distinct question of a batch once (the two worlds of a pair share most of theirs)."""

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        order = list(dict.fromkeys(requests))
        replies = dict(zip(order, self.model.answer(order), strict=True))
        return [replies[ask] for ask in requests]


class Counted(Wrapper):
    """Counts the asks that reach the model."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.calls = 0

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        self.calls += len(requests)
        return self.model.answer(requests)
