"""One answer, token by token, by several prompts at once: what private decoding shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt

from leakbound.errors import TargetError
from leakbound.models import Model, NextLogits
from leakbound.models.request import Prompt

__all__ = ["TokenDecoder", "finite", "find_tokenizer", "log_softmax", "public_tokens"]

Floats = npt.NDArray[np.float64]
IMPOSSIBLE = 1e30  # magnitude of a score that is infinite: finite, and beyond any clip or noise


class ShowsTokens(Protocol):
    """What a model that shows its tokens offers beside answers."""

    def encode(self, text: Prompt, /) -> Sequence[int]:
        """Token ids of a prompt."""

    def text(self, ids: Sequence[int], /) -> str:
        """The text of token ids."""

    def end_ids(self) -> frozenset[int]:
        """Tokens that end an answer."""


class TokenDecoder:
    """Grows one response behind many prompts: one batch of requests for each token.

    Args:
        model: A model that shows its tokens and answers `NextLogits`.
        prompts: What stands before the response (PRIVATE).

    Raises:
        TargetError: If the model shows no tokens.
    """

    def __init__(self, model: Model, prompts: Sequence[Prompt]) -> None:
        self._model, self._tokenizer = model, find_tokenizer(model)
        self._prompts = [tuple(self._tokenizer.encode(prompt)) for prompt in prompts]
        self._response: tuple[int, ...] = ()
        self.ended = False

    def __repr__(self) -> str:
        return "TokenDecoder(<private>)"

    def logits(self) -> list[Floats]:
        """Logits of the next token.

        Returns:
            (vocabulary,) for each prompt.
        """
        requests = [NextLogits(prompt + self._response, ()) for prompt in self._prompts]
        return [finite(reply[-1]) for reply in self._model.answer(requests)]

    def add(self, token: int) -> None:
        """Append a released token; an end token or a line break ends the response.

        Args:
            token: Token id.
        """
        ends = token in self._tokenizer.end_ids() or "\n" in self._tokenizer.text((token,))
        if ends:
            self.ended = True
        else:
            self._response = (*self._response, token)

    @property
    def text(self) -> str:
        """What has been released so far."""
        return self._tokenizer.text(self._response).strip()


def find_tokenizer(model: object) -> ShowsTokens:
    """The model behind all wrappers that shows its tokens.

    Args:
        model: A model, or a wrapper with the wrapped one in `model`.

    Returns:
        An object with encode, text and end_ids.

    Raises:
        TargetError: If there is none.
    """
    inner = model
    while not hasattr(inner, "encode") and hasattr(inner, "model"):
        inner = inner.model
    if not hasattr(inner, "encode"):
        raise TargetError(
            f"{cast(Model, model).name} shows no tokens, and a free answer is made token by token; "
            "use a local model (pocket or hf/...), or a query with given answers."
        )
    return cast(ShowsTokens, inner)


def public_tokens(logits: Floats, count: int) -> npt.NDArray[np.int64]:
    """The likeliest tokens of a model that sees no example: a public candidate set.

    Args:
        logits: (vocabulary,) of a prompt without examples.
        count: Number of tokens.

    Returns:
        (count,) token ids, rising.
    """
    return np.asarray(np.sort(np.argsort(-logits, kind="stable")[:count]), np.int64)


def finite(scores: npt.ArrayLike) -> Floats:
    """Scores as finite numbers, so that clips and noise always have something to hold on to.

    Args:
        scores: Numbers of any shape.

    Returns:
        The same shape; NaN and minus infinity become -1e30, infinity 1e30.
    """
    return np.asarray(
        np.nan_to_num(
            np.asarray(scores, float), nan=-IMPOSSIBLE, neginf=-IMPOSSIBLE, posinf=IMPOSSIBLE
        )
    )


def log_softmax(logits: Floats) -> Floats:
    """ln of the probabilities.

    Args:
        logits: (..., vocabulary).

    Returns:
        The same shape, normalised over the last axis.
    """
    top = logits.max(-1, keepdims=True)
    return np.asarray(logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True)))
