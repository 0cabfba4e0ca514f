"""One answer, generated token by token from several prompts at once: shared by private decoding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt

from leakbound.errors import TargetError
from leakbound.mechanisms.parts.total_calls import answer_all
from leakbound.models import Model, NextLogits
from leakbound.models.request import Prompt
from leakbound.stats.arrays import Bools, Floats, Ints

IMPOSSIBLE = 1e30  # largest magnitude of a score; sums stay finite, and it exceeds clips and noise


class _ShowsTokens(Protocol):
    """Interface of a model that gives access to its tokens."""

    def encode(self, text: Prompt, /) -> Sequence[int]:
        """Token ids of a prompt."""

    def text(self, ids: Sequence[int], /) -> str:
        """The text of token ids."""

    def end_ids(self) -> frozenset[int]:
        """Tokens that end an answer."""


class TokenDecoder:
    """Extends one response after many prompts, with one batch of requests for each token."""

    def __init__(self, model: Model, prompts: Sequence[Prompt], hidden: bool = False) -> None:
        self._model, self._tokenizer = model, find_tokenizer(model)
        self._prompts = [tuple(self._tokenizer.encode(prompt)) for prompt in prompts]
        self._response: tuple[int, ...] = ()
        self.ended, self._hidden = False, hidden

    def logits(self) -> list[Floats]:
        """Logits of the next token. The response ends if the public prompt gets none, which is sent
        alone, so that its logits do not depend on the others."""
        # where their number is private, none continues from kept states, which have room for some
        split = [
            (prompt, self._response) if self._hidden else (prompt + self._response, ())
            for prompt in self._prompts
        ]
        requests = [NextLogits(*one, alone=True) for one in split]
        groups = [group for group in (requests[:1], requests[1:]) if group]
        replies = [one for group in groups for one in answer_all(self._model, group, requests[0])]
        size = replies[0].shape[-1]
        self.ended = self.ended or size == 0
        found = [_last(reply, max(size, 1)) for reply in replies]
        # a part without examples has the public prompt, and so the public scores
        return [found[0] if one == requests[0] else row
                for one, row in zip(requests, found, strict=True)]  # fmt: skip

    def add(self, token: int) -> None:
        """Append a chosen token. An end token or a line break ends the response."""
        if self.ended:
            return
        ends = token in self._tokenizer.end_ids() or "\n" in self._tokenizer.text((token,))
        if ends:
            self.ended = True
        else:
            self._response = (*self._response, token)

    @property
    def text(self) -> str:
        return self._tokenizer.text(self._response).strip()


def _last(reply: npt.ArrayLike, size: int) -> Floats:
    """Logits after the whole prompt. A reply of any other size counts as a failed call."""
    table = np.asarray(reply, float)
    if table.ndim != 2 or not len(table) or table.shape[-1] != size:
        return np.full(size, -IMPOSSIBLE)
    return finite(table[-1])


def find_tokenizer(model: object) -> _ShowsTokens:
    """The innermost model that gives access to its tokens."""
    inner = model
    while not hasattr(inner, "encode") and hasattr(inner, "model"):
        inner = inner.model
    if not hasattr(inner, "encode"):
        raise TargetError(
            f"{cast(Model, model).name} shows no tokens, and a free answer is generated token by "
            "token; use a local model (pocket or hf/...), or a query with given answers."
        )
    return cast(_ShowsTokens, inner)


def public_tokens(logits: Floats, count: int) -> Ints:
    """The most likely tokens of a model that sees no examples: a public candidate set."""
    return np.asarray(np.sort(np.argsort(-logits, kind="stable")[:count]), np.int64)


def finite(scores: npt.ArrayLike) -> Floats:
    """Scores as finite numbers, to which clips and noise can be applied."""
    given = np.asarray(scores, float)
    known = np.where(np.isnan(given), -IMPOSSIBLE, given)
    return np.asarray(np.minimum(np.maximum(known, -IMPOSSIBLE), IMPOSSIBLE))


def is_failed(scores: npt.ArrayLike) -> Bools:
    """Whether no candidate is possible, because the call that should have scored them failed."""
    return np.asarray((finite(scores) <= -IMPOSSIBLE).all(-1))


def log_softmax(logits: Floats) -> Floats:
    top = logits.max(-1, keepdims=True)
    return np.asarray(logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True)))
