"""Influence of spans of a context on a response, on token ids:

one teacher-forced pass a span (CI Definitions 3.1 to 3.4).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from leakbound._check import positive, within
from leakbound.attribution.spans import Ids, Parts, Span
from leakbound.errors import TargetError, UsageError
from leakbound.mechanisms import mixture
from leakbound.mechanisms.tokens import finite, log_softmax
from leakbound.models import Model, NextLogits, ScoreTokens

__all__ = ["Law", "Measured", "forget", "measure", "sample"]

Floats = npt.NDArray[np.float64]
BYTES = 256 << 20  # logits held at once
VOCABULARY = 1 << 17  # assumed where no logits were seen
ROWS = 64  # response tokens whose vocabulary is reduced at once
WASTE = 1.1  # a batch may be so much larger than its rows, through padding


@dataclass(frozen=True, slots=True)
class Law:
    """How a token is drawn: softmax[(lam logits with the context + (1 - lam) logits
    without)/temperature], minus what is banned.

    banned: token ids that are never drawn; early: token ids not drawn among the first `least`
    tokens (the end token of a
    minimum length). Both are banned with and without a span, in place: no index ever moves.
    """

    lam: float = 1.0
    temperature: float = 1.0
    banned: Ids = ()
    early: Ids = ()
    least: int = 0

    def __post_init__(self) -> None:
        within("lambda", self.lam, 0.0, 1e6)
        positive("temperature", self.temperature)

    @property
    def plain(self) -> bool:
        """Is it the model's own law?"""
        return (
            self.lam == 1
            and self.temperature == 1
            and not self.banned
            and not (self.early and self.least)
        )

    def bans(self, position: int) -> Ids:
        """Token ids that may not stand at a position of the response."""
        return self.banned + (self.early if position < self.least else ())

    def table(self, context: Floats, prior: Floats, first: int = 0) -> Floats:
        """(tokens, vocabulary) ln p, from logits with and without the context of the response
        tokens from `first` on.
        """
        log_p = mixture.mixed(context, prior, self.lam, self.temperature)
        bans = [self.bans(first + row) for row in range(len(log_p))]
        if not any(bans):
            return log_p
        for row, ids in zip(log_p, bans, strict=True):
            row[list(ids)] = -np.inf
        return log_softmax(log_p)


@dataclass(frozen=True, slots=True, repr=False)
class Measured:
    """ln p of the response tokens under each law.

    full: (laws, tokens), with the context; prior: (laws, tokens), without it; without: (laws,
    spans, tokens), each span
    removed; floor: (laws,), largest change of `full` when the same prompt is computed afresh in
    another batch (nan: not asked for).
    """

    full: Floats
    prior: Floats
    without: Floats
    floor: Floats

    @property
    def signed(self) -> Floats:
        """(laws, spans, tokens):

        ln p with the whole context minus ln p with the span removed; tau is its absolute value.
        """
        return np.asarray(self.full[:, None] - self.without)


def measure(
    model: Model,
    parts: Parts,
    response: Ids,
    spans: Sequence[Span],
    laws: Sequence[Law],
    floor: bool = True,
) -> Measured:
    """ln p(y_t | D minus span, x, y_<t) for every span, law and response token.

    response: token ids as they were sampled. Every law reads the same passes: one for D, one for no
    context, one a span (none
    for the whole context: it is the one without). Logits are reduced batch by batch; those of all
    spans are never held at once.
    Raises UsageError for an empty response or one that holds a banned token.
    """
    _check(response, laws)
    meter = _Meter(model, parts, response, laws)
    full = meter.read([parts.without()])[0]
    prior = meter.without_context()
    table = {parts.whole: prior}
    for batch in meter.batches([span for span in dict.fromkeys(spans) if span != parts.whole]):
        table.update(zip(batch, meter.read([parts.without(span) for span in batch]), strict=True))
    without = (
        np.stack([table[span] for span in spans], 1)
        if spans
        else np.zeros((len(laws), 0, len(response)))
    )
    again = meter.again() if floor else np.full_like(full, np.nan)
    return Measured(full, prior, without, np.abs(again - full).max(-1))


def _check(response: Ids, laws: Sequence[Law]) -> None:
    if not response:
        raise UsageError(
            "the response has no token; it must have at least one. Give one, or sample with "
            "another seed."
        )
    for law in laws:
        for at, token in enumerate(response):
            if token in law.bans(at):
                raise UsageError(
                    f"response token {at} has id {token}, which is banned there, so its "
                    "probability is 0 with and without the "
                    "context; measure a response that the law can draw, or ban less."
                )


def forget(model: Any) -> None:
    """Throw the keys and values of all prompts out of the memory of a local engine, behind whatever
    wrappers.
    """
    while not hasattr(model, "forget") and hasattr(model, "model"):
        model = model.model
    if hasattr(model, "forget"):
        model.forget()


class _Meter:
    """Reads ln p of one response behind many prompts, under many laws."""

    def __init__(self, model: Model, parts: Parts, response: Ids, laws: Sequence[Law]) -> None:
        self.model, self.parts, self.response, self.laws = model, parts, response, laws
        self.plain = all(law.plain for law in laws) and ScoreTokens in model.supports
        if not self.plain and NextLogits not in model.supports:
            raise TargetError(
                f"{model.name} gives no next-token logits; use a local model (pocket or hf/...)."
            )
        self._prior = None if self.plain else self._logits([parts.without(parts.whole)])[0]

    def read(self, prompts: Sequence[Ids]) -> Floats:
        """(prompts, laws, tokens) ln p."""
        if self.plain:
            scores = self.model.answer([ScoreTokens(prompt, self.response) for prompt in prompts])
            return np.repeat(finite(np.stack(scores))[:, None], len(self.laws), 1)
        return np.stack([self._reduced(logits) for logits in self._logits(prompts)])

    def without_context(self) -> Floats:
        """(laws, tokens) ln p without any context."""
        if self._prior is None:
            return np.asarray(self.read([self.parts.without(self.parts.whole)])[0])
        return self._reduced(self._prior)

    def again(self) -> Floats:
        """(laws, tokens) of the whole prompt, computed afresh in a batch with another; the keys and
        values of all prompts are
        thrown out of the memory of a local engine."""
        forget(self.model)
        other = self.parts.without((len(self.parts.context) - 1, len(self.parts.context)))
        return np.asarray(self.read([self.parts.without(), other])[0])

    def _logits(self, prompts: Sequence[Ids]) -> list[Any]:
        return self.model.answer([NextLogits(prompt, self.response) for prompt in prompts])

    def _reduced(self, logits: Any) -> Floats:
        """(laws, tokens) from (tokens + 1, vocabulary): some rows at a time, in float64."""
        ids, parts = np.asarray(self.response), []
        for first in range(0, len(ids), ROWS):
            rows = slice(first, min(first + ROWS, len(ids)))
            with_context, prior = finite(logits[rows]), finite(self._prior[rows])  # type: ignore[index]
            picked = [
                law.table(with_context, prior, first)[np.arange(len(ids[rows])), ids[rows]]
                for law in self.laws
            ]
            parts.append(np.stack(picked))
        return np.concatenate(parts, 1)

    def batches(self, spans: Sequence[Span]) -> Iterator[list[Span]]:
        """Spans that begin near each other share a batch:

        their rows lack about as many tokens, so little is padding.
        """
        each = 4 * VOCABULARY * len(self.response) if self._prior is None else self._prior.nbytes
        most = max(1, BYTES // each)
        after = len(self.parts.tail) + len(self.response)
        batch: list[Span] = []
        rest: list[int] = []
        for span in sorted(spans, reverse=True):
            own = len(self.parts.context) - span[1] + after
            if batch and (len(batch) >= most or own * (len(batch) + 1) > WASTE * (sum(rest) + own)):
                yield batch
                batch, rest = [], []
            batch.append(span)
            rest.append(own)
        if batch:
            yield batch


def sample(
    model: Model,
    words: Any,
    parts: Parts,
    law: Law,
    tokens: int,
    rng: np.random.Generator,
    stop: str = "\n",
) -> Ids:
    """A response drawn token by token from a law, as ids: at most `tokens`, up to an end token or
    the one that completes `stop`.

    words: the local model that shows its tokens. The token that ends the response is not part of
    it.
    """
    said: Ids = ()
    prompts = parts.without(), parts.without(parts.whole)
    while len(said) < tokens:
        with_context, prior = (
            finite(reply[-1:]) for reply in model.answer([NextLogits(p + said) for p in prompts])
        )
        log_p = law.table(with_context, prior, len(said))[0]
        token = int((log_p + rng.gumbel(size=log_p.size)).argmax())
        if token in words.end_ids() or (stop and stop in words.text((*said, token))):
            break
        said = (*said, token)
    return said
