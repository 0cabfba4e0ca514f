"""A model that counts what it is asked, and the size that the papers' runs have."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import numpy as np
from leakbound_lab.reproduce import Scale

from leakbound.models import Complete, Embed, NextLogits, Request, ScoreLabels, ScoreTokens
from leakbound.models.content import Parts, images_in, readable
from leakbound.models.model import Wrapper
from leakbound.models.request import Prompt

__all__ = ["CHARACTERS", "IMAGE", "REAL", "Asked", "Counting", "Tally"]

R = TypeVar("R")
REAL = Scale(pairs=200, repeats=25, queries=100, contexts=1000, tokens=50)
CHARACTERS, IMAGE = 4, 256  # characters a token of English text, and tokens an image
FEW = 24  # tokens of the counting model that may be sampled


@dataclass(frozen=True)
class Asked:
    """Calls of a model, and tokens that it reads and writes."""

    calls: float = 0.0
    read: float = 0.0
    written: float = 0.0

    def __add__(self, other: Asked) -> Asked:
        return Asked(self.calls + other.calls, self.read + other.read, self.written + other.written)

    def __sub__(self, other: Asked) -> Asked:
        return self + other * -1

    def __mul__(self, times: float) -> Asked:
        return Asked(times * self.calls, times * self.read, times * self.written)

    def seconds(self, read: float, written: float) -> float:
        """At so many tokens a second."""
        return self.read / read + self.written / written

    def plain(self) -> list[float]:
        return [round(value, 2) for value in (self.calls, self.read, self.written)]


@dataclass
class Tally:
    """A sum that can be paused."""

    asked: Asked = field(default_factory=Asked)
    counts: bool = True
    seen: set[int] = field(default_factory=set)

    def add(self, more: Asked) -> None:
        if self.counts:
            self.asked = self.asked + more

    @contextmanager
    def paused(self) -> Iterator[None]:
        was, self.counts = self.counts, False
        try:
            yield
        finally:
            self.counts = was


class Counting(Wrapper):
    """Answers at once, with the tokenizer of a local model; texts are as long as they may be."""

    def __init__(self, model: Any, tally: Tally, name: str) -> None:
        super().__init__(model)
        self.tally, self.called = tally, name
        ends = model.end_ids()
        letters = [i for i in range(4, 400) if i not in ends and model.text((i,)).strip().isalpha()]
        self.logits = np.full(2048, -1e4, np.float32)
        self.logits[letters[:FEW]] = 0.0

    @property
    def name(self) -> str:
        return self.called

    @property
    def fingerprint(self) -> str:
        return f"counting {self.called}"

    def check(self, requests: Sequence[Request[object]], /) -> None:
        """Any prompt fits."""

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        return [cast("R", self._one(request)) for request in requests]

    def _one(self, request: Request[Any]) -> object:
        if isinstance(request, Complete):
            self.tally.add(Asked(1, tokens(request.prompt), request.max_tokens))
            return (
                f"answer {zlib.crc32(repr((readable_of(request.prompt), request.draw)).encode())}"
            )
        if isinstance(request, ScoreLabels):
            self.tally.add(Asked(1, tokens(request.prompt), 0))
            rng = np.random.default_rng(zlib.crc32(readable_of(request.prompt).encode()))
            return -1 - rng.random(len(request.labels), np.float32)
        if isinstance(request, Embed):
            self.tally.add(Asked(1, len(request.text) / CHARACTERS, 0))
            rng = np.random.default_rng(zlib.crc32(request.text.encode()))
            return rng.normal(size=32).astype(np.float32)
        if isinstance(request, ScoreTokens | NextLogits):
            return self._tokens(request)
        raise TypeError(type(request).__name__)

    def _tokens(self, request: ScoreTokens | NextLogits) -> object:
        response = request.response
        ids = response if isinstance(response, tuple) else self.model.encode_response(response)
        before, now = (hash((request.prompt, part)) for part in (ids[:-1], ids))
        if ids and before in self.tally.seen and isinstance(request, NextLogits):
            self.tally.add(Asked(1, 0, 1))  # the state of the token before is there
        else:
            self.tally.add(Asked(1, tokens(request.prompt) + len(ids), 0))
        self.tally.seen.add(now)
        if isinstance(request, ScoreTokens):
            return np.full(len(ids), -1.0, np.float32)
        return np.broadcast_to(self.logits, (len(ids) + 1, len(self.logits)))


def readable_of(prompt: Prompt) -> str:
    return (
        readable(prompt)
        if not isinstance(prompt, tuple)
        else str(zlib.crc32(repr(prompt).encode()))
    )


def tokens(prompt: Prompt) -> float:
    """Token ids as they are; else by characters, with so many an image."""
    if isinstance(prompt, tuple):
        return len(prompt)
    images = len(images_in(prompt)) if isinstance(prompt, Parts) else 0
    return len(readable(prompt)) / CHARACTERS + IMAGE * images
