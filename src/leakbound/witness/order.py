"""Detect an unusual order of sentences with a mixture of two orders, fitted without labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from leakbound.stats.arrays import Floats, Ints
from leakbound.witness.corpus import EncodedReply

MOST_KEYS = 24  # openings whose order is compared, which makes 276 pairs
FEWEST = 4  # number of replies in which an opening must occur
SHRINK = 6.0  # pseudo-replies without an order that are added to each pair of openings
ROUNDS = 4  # rounds of fitting members and orders in turn; more rounds change nothing


@dataclass(frozen=True, slots=True)
class OrderModel:
    """Which of two openings usually comes first, overall and in the rarer of two orders."""

    keys: Ints
    mean: Floats
    odds: Floats

    @staticmethod
    def fit(replies: Sequence[EncodedReply]) -> tuple[OrderModel, Floats]:
        """Fit the model, and score each reply with a model of the other replies."""
        keys = _frequent(replies)
        if keys.size < 2:
            none = np.zeros(0)
            return OrderModel(none.astype(int), none, np.zeros((2, 0))), np.zeros((len(replies), 2))
        signs = _precedence(replies, keys)
        pairs = _Pairs(signs, np.abs(signs), np.sqrt(np.abs(signs).sum(1) + 1))
        first = pairs.likeness(pairs.means(np.ones(len(signs))))
        score, member = first, np.ones(len(signs))
        for _ in range(ROUNDS):
            member = _members(score)
            score = pairs.ratio(_odds(pairs.means(member), pairs.means(1 - member)))
        mean = pairs.mean(np.ones(len(signs)))
        odds = _odds(pairs.mean(member), pairs.mean(1 - member))
        return OrderModel(keys, mean, odds), np.column_stack([first, score])

    def score(self, reply: EncodedReply) -> Floats:
        """Score how much a new reply follows the common order, beyond the usual, and the rarer
        one.
        """
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


def _frequent(replies: Sequence[EncodedReply]) -> Ints:
    every = np.concatenate([np.unique(r.openings) for r in replies])
    count = np.bincount(every)
    often = np.flatnonzero(count >= FEWEST)
    return np.asarray(often[np.argsort(-count[often], kind="stable")][:MOST_KEYS])


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


def _members(score: Floats) -> Floats:
    distance = (score - np.quantile(score, RARE)) / (score.std() + 1e-9)
    return np.asarray(1 / (1 + np.exp(-SHARPNESS * distance)))


SURE = 0.02  # smallest probability of either order of two openings


def _odds(rare: Floats, usual: Floats) -> Floats:
    p, q = (np.clip((1 + m) / 2, SURE, 1 - SURE) for m in (rare, usual))
    return np.stack([np.log(p / q), np.log((1 - p) / (1 - q))])
