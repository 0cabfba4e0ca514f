"""Features of a reply relative to all earlier replies, learned without knowing whose they are.

A channel that is on in some replies and off in others shows in the pool of both contexts: replies
take longer than their length explains, use rarer words, or put sentences in another order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from leakbound.stats.witness.corpus import Corpus, EncodedReply
from leakbound.stats.witness.features import SCALARS
from leakbound.stats.witness.order import OrderModel

__all__ = ["POOL", "PoolModel"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
# numbers that others should explain: seconds by what was generated and called, tokens by the text
EXPLAINED = (("seconds", ("tokens", "tools")), ("seconds", ("chars", "tools")),
             ("tokens", ("words", "chars")))  # fmt: skip
POOL = ("novelty", "mean_idf", "seconds_beyond_tokens", "seconds_beyond_chars",
        "tokens_beyond_words", "order", "order_sharp")  # fmt: skip
ROUNDS = 5  # of fitting a line and weighing its errors in turn
LEAST = 0.1  # of the median: the smallest value that a line predicts
FEWEST = 8  # replies that a line is fitted to


@dataclass(frozen=True, slots=True)
class PoolModel:
    """What is usual among the replies so far.

    Attributes:
        counts: (strings,) in how many replies each string occurs.
        replies: Their number.
        lines: What explains what, one for each of EXPLAINED.
        order: Which sentences usually come first.
    """

    counts: Ints
    replies: int
    lines: tuple[Line, ...]
    order: OrderModel

    @staticmethod
    def fit(corpus: Corpus) -> tuple[PoolModel, Floats]:
        """Fit the model.

        Args:
            corpus: The replies so far.

        Returns:
            The model and (replies, len(POOL)) features of the same replies.
        """
        replies = corpus.replies
        scalars = np.stack([r.scalars for r in replies])
        lines = tuple(Line.fit(scalars, *names) for names in EXPLAINED)
        order, scores = OrderModel.fit(replies)
        model = PoolModel(corpus.counts(), len(replies), lines, order)
        words = model._words(replies, own=1)
        return model, np.column_stack([words, *[line.beyond(scalars) for line in lines], scores])

    def features(self, reply: EncodedReply) -> Floats:
        """Features of a later reply.

        Args:
            reply: The reply.

        Returns:
            (len(POOL),) numbers.
        """
        beyond = [line.beyond(reply.scalars[None])[0] for line in self.lines]
        return np.array([*self._words([reply], own=0)[0], *beyond, *self.order.score(reply)])

    def _words(self, replies: Sequence[EncodedReply], own: int) -> Floats:
        """(replies, 2) share of words that at most one other reply has, and their mean rarity."""
        sizes = np.array([reply.words.size for reply in replies])
        every = np.concatenate([reply.words for reply in replies])
        owner = np.repeat(np.arange(sizes.size), sizes)
        seen = np.zeros(every.size)
        known = every < self.counts.size
        seen[known] = self.counts[every[known]] - own
        rarity = np.log((self.replies + 1) / (seen + 1))
        sums = [np.bincount(owner, of, sizes.size) for of in (seen <= 1, rarity)]
        return np.asarray(np.stack(sums, 1) / np.maximum(sizes, 1)[:, None])


@dataclass(frozen=True, slots=True)
class Line:
    """A number as a sum of multiples of others.

    Attributes:
        of: Index of the number that is explained.
        by: Indices of those that explain it.
        slopes: (1 + len(by),) intercept and multiples; NaN where too few replies show them.
        least: The smallest value that is predicted.
    """

    of: int
    by: tuple[int, ...]
    slopes: Floats
    least: float

    @staticmethod
    def fit(scalars: Floats, of: str, by: Sequence[str]) -> Line:
        """Fit relative errors; large ones, as of a channel that is on, count less.

        Args:
            scalars: (replies, len(SCALARS)) numbers.
            of: Name of the number to be explained.
            by: Names of those that explain it.

        Returns:
            The line.
        """
        at, others = SCALARS.index(of), tuple(SCALARS.index(name) for name in by)
        y, x = scalars[:, at], _with_one(scalars, others)
        good = np.isfinite(y) & np.isfinite(x).all(1) & (y > 0)
        if good.sum() < FEWEST:
            return Line(at, others, np.full(x.shape[1], math.nan), 1.0)
        least = LEAST * float(np.median(y[good]))
        return Line(at, others, _robust(x[good], y[good], least), least)

    def beyond(self, scalars: Floats) -> Floats:
        """Logarithm of the number over what the line predicts.

        Args:
            scalars: (replies, len(SCALARS)) numbers.

        Returns:
            (replies,) logarithms; NaN where the reply does not show the numbers.
        """
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
