"""A model that follows a script: for tests, and for audits that need no language model."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from leakbound.errors import TargetError
from leakbound.models.request import Complete, Embed, NextLogits, Request, ScoreLabels, ScoreTokens

__all__ = ["Scripted"]

R = TypeVar("R")


class Scripted:
    """Answers each kind of ask with a plain function of its arguments; `window` bounds prompts in
    words.
    """

    def __init__(
        self,
        complete: Callable[[str], str] | None = None,
        label_scores: Callable[[str, tuple[str, ...]], Sequence[float]] | None = None,
        token_scores: Callable[[Any, Any], Sequence[float]] | None = None,
        next_logits: Callable[[Any, Any], Any] | None = None,
        embed: Callable[[str], Sequence[float]] | None = None,
        name: str = "scripted",
        window: int | None = None,
    ) -> None:
        self._by_kind: dict[type[Request[Any]], Callable[..., Any] | None] = {
            Complete: complete,
            ScoreLabels: label_scores,
            ScoreTokens: token_scores,
            NextLogits: next_logits,
            Embed: embed,
        }
        self.name, self.window = name, window

    @property
    def fingerprint(self) -> str:
        """Of the name alone: give different scripts different names."""
        return hashlib.sha256(self.name.encode()).hexdigest()[:16]

    @property
    def supports(self) -> frozenset[type[Request[Any]]]:
        """The kinds that have a script."""
        return frozenset(kind for kind, script in self._by_kind.items() if script)

    def check(self, requests: Sequence[Request[Any]], /) -> None:
        """Refuse prompts of more words than the window."""
        for ask in requests:
            words = len(str(getattr(ask, "prompt", "")).split())
            if self.window is not None and words > self.window:
                raise TargetError(
                    f"a prompt of {words} words does not fit the window of {self.window} of "
                    f"{self.name}."
                )

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        """Run the script of each ask."""
        self.check(requests)
        return [cast(R, self._one(ask)) for ask in requests]

    def _one(self, ask: Request[Any]) -> Any:
        script = self._by_kind.get(type(ask))
        if script is None:
            raise TargetError(f"{self.name} has no script for {type(ask).__name__}.")
        if isinstance(ask, Complete):
            return script(ask.prompt)
        arguments = (getattr(ask, field.name) for field in dataclasses.fields(cast(Any, ask)))
        return np.asarray(script(*arguments), np.float32)
