"""Stores that tests audit: plain word overlap in place of embeddings."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from leakbound.systems import CallOptions, Reply
from leakbound.tasks import Context, Example

DISPOSABLE = CallOptions(disposable=True)  # these stores hold nothing of anybody
WORDS = [f"w{i}" for i in range(500)]


def documents(number: int, seed: int = 0) -> list[tuple[str, str]]:
    """Rows of twelve words each, without labels."""
    rng = random.Random(seed)
    return [(" ".join(rng.choices(WORDS, k=12)), "") for _ in range(number)]


@dataclass
class NearestStore:
    """Answers with the record that shares most words with the query."""

    records: dict[str, Example] = field(default_factory=dict)
    builds: int = 0
    planted: int = 0
    fail_at: int = -1
    asked: int = 0

    def plant(self, record: Example) -> str:
        self.planted += 1
        self.records[str(self.planted)] = record
        return str(self.planted)

    def remove(self, record_id: str) -> None:
        del self.records[record_id]

    def open(self, context: Context) -> NearestSession:
        self.builds += 1
        return NearestSession(self, context)

    def said(self, rows: Sequence[Example], query: str) -> str:
        words = set(query.split())
        best = max(rows, key=lambda row: len(words & set(str(row.input).split())))
        return str(best.input)


@dataclass
class NearestSession:
    """A session of a `NearestStore`."""

    store: NearestStore
    context: Context

    def ask(self, query: str) -> Reply:
        self.store.asked += 1
        if self.store.asked == self.store.fail_at:
            raise RuntimeError("private text")
        rows = [*self.store.records.values(), *self.context]
        return Reply(self.store.said(rows, query))

    def close(self) -> None:
        pass


class PrivateStore(NearestStore):
    """Says the same whatever it holds."""

    def said(self, rows: Sequence[Example], query: str) -> str:
        return "I cannot tell."


@dataclass
class NoisyStore(NearestStore):
    """Says yes or no truthfully with probability e^epsilon / (1 + e^epsilon)."""

    truth: float = 0.5
    rng: random.Random = field(default_factory=random.Random)

    def said(self, rows: Sequence[Example], query: str) -> str:
        there = any(str(row.input) in query for row in rows)
        return "yes" if there == (self.rng.random() < self.truth) else "no"
