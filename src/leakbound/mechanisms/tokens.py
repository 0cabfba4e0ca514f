"""One answer, token by token, by several prompts at once: what private decoding shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from leakbound.errors import TargetError
from leakbound.models import Model, NextLogits
from leakbound.models.request import Prompt

__all__ = ["Speller", "finite", "log_softmax", "public_tokens"]

Floats = npt.NDArray[np.float64]


class Speller:
    """Grows one response behind many prompts:

    one batch of as many rows, one token longer a step. Prompts are PRIVATE.
    """

    def __init__(self, model: Model, prompts: Sequence[Prompt]) -> None:
        words = tokenizing(model)
        self._model, self._words = model, words
        self._prompts = [tuple(words.encode(prompt)) for prompt in prompts]
        self._response: tuple[int, ...] = ()
        self.ended = False

    def __repr__(self) -> str:
        return "Speller(<private>)"

    def logits(self) -> list[Floats]:
        """(vocabulary,) of the next token behind each prompt."""
        requests = [NextLogits(prompt + self._response, ()) for prompt in self._prompts]
        return [finite(reply[-1]) for reply in self._model.answer(requests)]

    def add(self, token: int) -> None:
        """The released token; an end token or a line break ends the answer."""
        if token in self._words.end_ids() or "\n" in self._words.text((token,)):
            self.ended = True
        else:
            self._response = (*self._response, token)

    @property
    def text(self) -> str:
        """What has been released."""
        return str(self._words.text(self._response)).strip()


def tokenizing(model: Any) -> Any:
    """The model behind all wrappers, if it can show its tokens."""
    while not hasattr(model, "encode") and hasattr(model, "model"):
        model = model.model
    if not hasattr(model, "encode"):
        raise TargetError(
            f"{getattr(model, 'name', 'the model')} shows no tokens, and a free answer is spelled "
            "token by token; use a local model "
            "(pocket or hf/...), or a query with given answers."
        )
    return model


def public_tokens(logits: Floats, count: int) -> npt.NDArray[np.int64]:
    """The likeliest tokens of a model that sees no example: a public candidate set."""
    return np.asarray(np.sort(np.argsort(-logits, kind="stable")[:count]), np.int64)


def finite(scores: npt.ArrayLike) -> Floats:
    """Scores as numbers: what is not one counts as impossible, so that noise and bounds always have
    something to hold on to.
    """
    return np.asarray(
        np.nan_to_num(np.asarray(scores, float), nan=-1e30, neginf=-1e30, posinf=1e30)
    )


def log_softmax(logits: Floats) -> Floats:
    """ln of the probabilities, along the last axis."""
    top = logits.max(-1, keepdims=True)
    return np.asarray(logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True)))
