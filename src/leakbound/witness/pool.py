"""Features of a reply relative to all earlier replies, learned without knowing their contexts.

A channel that is on in some replies and off in others shows in the pool of both contexts. Replies
take longer than their length explains, use rarer words, or order their sentences differently.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from leakbound.stats.arrays import Floats, Ints
from leakbound.witness.features import SCALARS, ReplyFeatures

# kinds of strings; among strings that occur in the same replies, the earliest kind is kept
KINDS = ("tool", "tools", "finish", "argument", "word", "mark", "opening", "first", "last",
         "bigram", "times", "run", "token", "whole", "line", "call", "calls", "gram",
         "skip", "digest")  # fmt: skip


@dataclass(frozen=True, slots=True, repr=False)
class EncodedReply:
    """Features of a reply, with strings as numbers (PRIVATE)."""

    scalars: Floats
    strings: Ints
    words: Ints
    openings: Ints
    scores: Mapping[str, float]


class Corpus:
    """Replies in order, alternating between canary-in and canary-out."""

    def __init__(self) -> None:
        self.replies: list[EncodedReply] = []
        self.names: list[str] = []
        self.kinds: list[int] = []
        self._numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.replies)

    def encode(self, reply: ReplyFeatures) -> EncodedReply:
        """Number the strings of a reply; new strings get new numbers."""
        strings = [self._number(s) for s in reply.strings]
        words = [n for n in strings if KINDS[self.kinds[n]] == "word"]
        openings = [self._number(s) for s in reply.openings]
        found, said, opened = (np.array(one, np.int64) for one in (strings, words, openings))
        return EncodedReply(reply.scalars, found, said, opened, reply.scores)

    def counts(self) -> Ints:
        """(strings,) number of replies in which each string occurs."""
        if not self.replies:
            return np.zeros(len(self.names), np.int64)
        every = np.concatenate([r.strings for r in self.replies])
        return np.bincount(every, minlength=len(self.names))

    def _number(self, string: str) -> int:
        number = self._numbers.get(string)
        if number is None:
            number = self._numbers[string] = len(self.names)
            self.names.append(string)
            self.kinds.append(KINDS.index(string.partition(":")[0]))
        return number


# numbers that others should explain: seconds by generated tokens and tool calls, tokens by text
EXPLAINED = (("seconds", ("tokens", "tools")), ("seconds", ("chars", "tools")),
             ("tokens", ("words", "chars")))  # fmt: skip
POOL = ("novelty", "mean_idf", "seconds_beyond_tokens", "seconds_beyond_chars",
        "tokens_beyond_words", "order", "order_sharp", "seconds_over_past")  # fmt: skip
SECONDS, RECENT = SCALARS.index("seconds"), 16  # of so many replies the usual time is known
ROUNDS = 5  # rounds of fitting a line and reweighting its errors in turn


@dataclass(frozen=True, slots=True)
class PoolModel:
    """Model of what is usual among the replies so far."""

    counts: Ints
    replies: int
    lines: tuple[Line, ...]
    order: OrderModel
    corpus: Corpus

    @staticmethod
    def fit(corpus: Corpus) -> tuple[PoolModel, Floats]:
        replies = corpus.replies
        scalars = np.stack([r.scalars for r in replies])
        lines = tuple(Line.fit(scalars, *names) for names in EXPLAINED)
        order, scores = OrderModel.fit(replies)
        model = PoolModel(corpus.counts(), len(replies), lines, order, corpus)
        words, beyond = model._words(replies, own=1), [line.beyond(scalars) for line in lines]
        seconds = scalars[:, SECONDS]
        past = [_over_past(one, seconds[: at - at % 2]) for at, one in enumerate(seconds)]
        return model, np.column_stack([words, *beyond, scores, past])

    def features(self, reply: EncodedReply) -> Floats:
        beyond = [line.beyond(reply.scalars[None])[0] for line in self.lines]
        before = np.array([one.scalars[SECONDS] for one in self.corpus.replies[-RECENT:]])
        past = _over_past(float(reply.scalars[SECONDS]), before)
        words, order = self._words([reply], own=0)[0], self.order.score(reply)
        return np.array([*words, *beyond, *order, past])

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


def _over_past(seconds: float, before: Floats) -> float:
    """Logarithm of the seconds over the usual ones of the replies to the last earlier pairs, which
    drift as a service is more or less busy."""
    recent = before[-RECENT:]
    if len(recent) < FEWEST or not seconds > 0 or not (recent > 0).all():
        return math.nan
    return math.log(seconds / float(np.median(recent)))


LEAST = 0.1  # smallest value that a line predicts, as a share of the median
FEWEST = 8  # smallest number of replies for which a line is fitted


@dataclass(frozen=True, slots=True)
class Line:
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


MOST_KEYS = 24  # openings whose order is compared, which makes 276 pairs
OFTEN = 4  # number of replies in which an opening must occur
SHRINK = 6.0  # pseudo-replies without an order that are added to each pair of openings
ORDER_ROUNDS = 4  # rounds of fitting members and orders in turn; more rounds change nothing


@dataclass(frozen=True, slots=True)
class OrderModel:
    """Which of two openings usually comes first, overall and in the rarer of two orders."""

    keys: Ints
    mean: Floats
    odds: Floats

    @staticmethod
    def fit(replies: Sequence[EncodedReply]) -> tuple[OrderModel, Floats]:
        """Fit the model, and score each reply with a model of the other replies."""
        every = np.bincount(np.concatenate([np.unique(r.openings) for r in replies]))
        often = np.flatnonzero(every >= OFTEN)
        keys = often[np.argsort(-every[often], kind="stable")][:MOST_KEYS]
        if keys.size < 2:
            none = np.zeros(0)
            return OrderModel(none.astype(int), none, np.zeros((2, 0))), np.zeros((len(replies), 2))
        signs = _precedence(replies, keys)
        pairs = _Pairs(signs, np.abs(signs), np.sqrt(np.abs(signs).sum(1) + 1))
        first = pairs.likeness(pairs.means(np.ones(len(signs))))
        score, member = first, np.ones(len(signs))
        for _ in range(ORDER_ROUNDS):
            distance = (score - np.quantile(score, RARE)) / (score.std() + 1e-9)
            member = np.asarray(1 / (1 + np.exp(-SHARPNESS * distance)))
            score = pairs.ratio(_odds(pairs.means(member), pairs.means(1 - member)))
        mean = pairs.mean(np.ones(len(signs)))
        odds = _odds(pairs.mean(member), pairs.mean(1 - member))
        return OrderModel(keys, mean, odds), np.column_stack([first, score])

    def score(self, reply: EncodedReply) -> Floats:
        """How much a new reply follows the common order, beyond the usual, and the rarer one."""
        if self.keys.size < 2:
            return np.zeros(2)
        signs = _precedence([reply], self.keys)
        pairs = _Pairs(signs, np.abs(signs), np.sqrt(np.abs(signs).sum(1) + 1))
        return np.array([pairs.likeness(self.mean)[0], pairs.ratio(self.odds)[0]])


@dataclass(frozen=True, slots=True)
class _Pairs:
    """(replies, pairs) signs: 1 if first before second, -1 if reversed, 0 if one is missing."""

    signs: Floats
    there: Floats
    size: Floats

    def mean(self, weight: Floats) -> Floats:
        return np.asarray(weight @ self.signs / (weight @ self.there + SHRINK))

    def means(self, weight: Floats) -> Floats:
        """(replies, pairs) `mean` without the contribution of the reply itself."""
        own = weight[:, None]
        mass = weight @ self.there - own * self.there
        return np.asarray((weight @ self.signs - own * self.signs) / (mass + SHRINK))

    def likeness(self, mean: Floats) -> Floats:
        return np.asarray(((self.signs - mean) * mean * self.there).sum(1) / self.size)

    def ratio(self, odds: Floats) -> Floats:
        up, down = odds
        return np.asarray(
            (np.maximum(self.signs, 0) * up + np.maximum(-self.signs, 0) * down).sum(1) / self.size
        )


def _precedence(replies: Sequence[EncodedReply], keys: Ints) -> Floats:
    """(replies, pairs of keys) signs; 0 where a reply lacks one of the two."""
    column = {int(key): at for at, key in enumerate(keys)}
    place = np.full((len(replies), len(keys)), np.nan)
    for row, reply in zip(place, replies, strict=True):
        for at in range(len(reply.openings) - 1, -1, -1):  # the first occurrence counts
            if (key := column.get(int(reply.openings[at]))) is not None:
                row[key] = at
    i, j = _both(len(keys))
    signs = np.sign(place[:, j] - place[:, i])
    return np.where(np.isnan(signs), 0.0, signs)


@lru_cache(maxsize=MOST_KEYS)
def _both(count: int) -> tuple[Ints, Ints]:
    return np.triu_indices(count, 1)


RARE = 0.8  # quantile of the score above which a reply more likely follows the rarer order
SHARPNESS = 4.0  # slope of that membership, in standard deviations of the score


SURE = 0.02  # smallest probability of either order of two openings


def _odds(rare: Floats, usual: Floats) -> Floats:
    p, q = (np.clip((1 + m) / 2, SURE, 1 - SURE) for m in (rare, usual))
    return np.stack([np.log(p / q), np.log((1 - p) / (1 - q))])
