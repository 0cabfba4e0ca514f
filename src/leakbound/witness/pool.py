"""Features of a reply relative to all earlier replies, learned without knowing their contexts.

A channel that is on in some replies and off in others shows in the pool of both contexts. Replies
take longer than their length explains, use rarer words, or order their sentences differently.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leakbound.stats.arrays import Floats, Ints
from leakbound.witness.corpus import Corpus, EncodedReply
from leakbound.witness.features import SCALARS
from leakbound.witness.order import OrderModel

# numbers that others should explain: seconds by generated tokens and tool calls, tokens by text
EXPLAINED = (("seconds", ("tokens", "tools")), ("seconds", ("chars", "tools")),
             ("tokens", ("words", "chars")))  # fmt: skip
POOL = ("novelty", "mean_idf", "seconds_beyond_tokens", "seconds_beyond_chars",
        "tokens_beyond_words", "order", "order_sharp")  # fmt: skip
ROUNDS = 5  # rounds of fitting a line and reweighting its errors in turn


@dataclass(frozen=True, slots=True)
class PoolModel:
    """Model of what is usual among the replies so far."""

    counts: Ints
    replies: int
    lines: tuple[Line, ...]
    order: OrderModel

    @staticmethod
    def fit(corpus: Corpus) -> tuple[PoolModel, Floats]:
        """Fit the model."""
        replies = corpus.replies
        scalars = np.stack([r.scalars for r in replies])
        lines = tuple(Line.fit(scalars, *names) for names in EXPLAINED)
        order, scores = OrderModel.fit(replies)
        model = PoolModel(corpus.counts(), len(replies), lines, order)
        words = model._words(replies, own=1)
        return model, np.column_stack([words, *[line.beyond(scalars) for line in lines], scores])

    def features(self, reply: EncodedReply) -> Floats:
        """Features of a later reply."""
        beyond = [line.beyond(reply.scalars[None])[0] for line in self.lines]
        return np.array([*self._words([reply], own=0)[0], *beyond, *self.order.score(reply)])

    def _words(self, replies: Sequence[EncodedReply], own: int) -> Floats:
        """(replies, 2) share of words in at most one other reply, and mean rarity of words."""
        sizes = np.array([reply.words.size for reply in replies])
        every = np.concatenate([reply.words for reply in replies])
        owner = np.repeat(np.arange(sizes.size), sizes)
        seen = np.zeros(every.size)
        known = every < self.counts.size
        seen[known] = self.counts[every[known]] - own
        rarity = np.log((self.replies + 1) / (seen + 1))
        sums = [np.bincount(owner, of, sizes.size) for of in (seen <= 1, rarity)]
        return np.asarray(np.stack(sums, 1) / np.maximum(sizes, 1)[:, None])


LEAST = 0.1  # smallest value that a line predicts, as a share of the median
FEWEST = 8  # smallest number of replies for which a line is fitted


@dataclass(frozen=True, slots=True)
class Line:
    """A linear model of one number in terms of others."""

    of: int
    by: tuple[int, ...]
    slopes: Floats
    least: float

    @staticmethod
    def fit(scalars: Floats, of: str, by: Sequence[str]) -> Line:
        """Fit relative errors. Large errors, as from a channel that is on, get less weight."""
        at, others = SCALARS.index(of), tuple(SCALARS.index(name) for name in by)
        y, x = scalars[:, at], _with_one(scalars, others)
        good = np.isfinite(y) & np.isfinite(x).all(1) & (y > 0)
        if good.sum() < FEWEST:
            return Line(at, others, np.full(x.shape[1], math.nan), 1.0)
        least = LEAST * float(np.median(y[good]))
        return Line(at, others, _robust(x[good], y[good], least), least)

    def beyond(self, scalars: Floats) -> Floats:
        """Logarithm of the ratio of the number to its prediction."""
        predicted = np.maximum(_with_one(scalars, self.by) @ self.slopes, self.least)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.log(scalars[:, self.of] / predicted))


def _with_one(scalars: Floats, columns: tuple[int, ...]) -> Floats:
    return np.column_stack([np.ones(len(scalars)), scalars[:, columns]])


def _robust(x: Floats, y: Floats, least: float) -> Floats:
    scale: Floats = np.full(len(y), np.median(y))
    slopes: Floats = np.zeros(x.shape[1])
    weight: Floats = np.ones(len(y))
    for _ in range(ROUNDS):
        root = np.sqrt(weight) / scale
        slopes = np.asarray(np.linalg.lstsq(x * root[:, None], y * root, rcond=None)[0])
        scale = np.maximum(x @ slopes, least)
        error = np.abs(y / scale - 1.0)
        usual = max(float(np.median(error)), 1e-9)
        weight = np.asarray(1 / np.maximum(error / usual, 1.0) ** 1.5)
    return slopes
