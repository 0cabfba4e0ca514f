"""A model that follows a script: for tests, and for audits that need no language model."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import ClassVar, TypeVar, cast

import numpy as np
import numpy.typing as npt

from leakbound.errors import TargetError
from leakbound.models.content import readable
from leakbound.models.request import (
    Complete,
    Embed,
    NextLogits,
    Prompt,
    Request,
    ScoreLabels,
    ScoreTokens,
)

R = TypeVar("R")


class Scripted:
    """Answers each kind of request with a plain function.

    Args:
        complete: (prompt) to a text.
        label_scores: (prompt, labels) to a natural log-probability for each label.
        token_scores: (prompt, response) to a natural log-probability for each token.
        next_logits: (prompt, response) to (tokens + 1, vocabulary) logits.
        embed: (text) to a vector.
        name: Name of the model. The fingerprint depends on it alone.
        window: The most words of a prompt, including the tokens that `NextLogits` reserves; None
            for no limit.
    """

    may_change: ClassVar[bool] = False

    def __init__(
        self,
        complete: Callable[[str], str] | None = None,
        label_scores: Callable[[str, tuple[str, ...]], Sequence[float]] | None = None,
        token_scores: Callable[..., Sequence[float]] | None = None,
        next_logits: Callable[..., npt.ArrayLike] | None = None,
        embed: Callable[[str], Sequence[float]] | None = None,
        name: str = "scripted",
        window: int | None = None,
    ) -> None:
        self._scripts: dict[type[Request[object]], Callable[..., object] | None] = {
            Complete: complete,
            ScoreLabels: label_scores,
            ScoreTokens: token_scores,
            NextLogits: next_logits,
            Embed: embed,
        }
        self.name, self.window = name, window

    @property
    def fingerprint(self) -> str:
        """Hash of the name alone, so give different scripts different names."""
        return hashlib.sha256(self.name.encode()).hexdigest()[:16]

    @property
    def supports(self) -> frozenset[type[Request[object]]]:
        return frozenset(kind for kind, script in self._scripts.items() if script)

    def check(self, requests: Sequence[Request[object]], /) -> None:
        if self.window is None:
            return
        for request in requests:
            words = (
                0 if isinstance(request, Embed) else len(readable(_arguments(request)[0]).split())
            )
            words += request.reserve if isinstance(request, NextLogits) else 0
            if words > self.window:
                raise TargetError(
                    f"a prompt of {words} words does not fit the window of {self.window} of "
                    f"{self.name}."
                )

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        self.check(requests)
        return [cast(R, self._one(request)) for request in requests]

    def _one(self, request: Request[object]) -> object:
        script = self._scripts.get(type(request))
        if script is None:
            raise TargetError(f"{self.name} has no script for {type(request).__name__}.")
        answer = script(*_arguments(request))
        return answer if isinstance(request, Complete) else np.asarray(answer, np.float32)


def _arguments(request: Request[object]) -> tuple[Prompt | tuple[str, ...], ...]:
    """The arguments of a script, the prompt first."""
    if isinstance(request, Complete):
        return (request.prompt,)
    if isinstance(request, ScoreLabels):
        return (request.prompt, request.labels)
    if isinstance(request, ScoreTokens | NextLogits):
        return (request.prompt, request.response)
    if isinstance(request, Embed):
        return (request.text,)
    raise TargetError(f"a scripted model has no script for {type(request).__name__}.")
