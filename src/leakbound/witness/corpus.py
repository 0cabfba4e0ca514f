"""The replies so far as arrays. Each string is numbered once, and every refit reads the arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from leakbound.stats.arrays import Floats, Ints
from leakbound.witness.features import ReplyFeatures

# kinds of strings; among strings that occur in the same replies, the earliest kind is kept
KINDS = ("tool", "tools", "finish", "argument", "word", "mark", "opening", "first", "last",
         "bigram", "times", "run", "token", "whole", "line", "call", "calls", "gram",
         "skip")  # fmt: skip


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
        return EncodedReply(
            scalars=reply.scalars,
            strings=np.array(strings, np.int64),
            words=np.array(words, np.int64),
            openings=np.array(openings, np.int64),
            scores=reply.scores,
        )

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
