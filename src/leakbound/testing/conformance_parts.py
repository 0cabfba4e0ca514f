"""What the conformance battery stands on: the bench that holds a mechanism, and its neighbours."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from leakbound.errors import UsageError
from leakbound.models import Counted, Embed, Model, Request
from leakbound.privacy import Guarantee, NonPrivate
from leakbound.tasks import (
    Aggregate,
    AnyRequest,
    Context,
    Example,
    Job,
    Mechanism,
    Query,
    Task,
    Vector,
    Votes,
)
from leakbound.testing.puppet import FLIP, GIVEN, PATTERNS, PLANTED, Puppet

__all__ = [
    "FREE",
    "GIVEN",
    "PATTERNS",
    "PLANTED",
    "TWO",
    "Bench",
    "Broken",
    "Family",
    "Puppet",
    "Skipped",
    "Watched",
    "context_of",
    "example",
    "families",
    "size_of",
    "strangers",
    "values_of",
]

Floats = npt.NDArray[np.float64]
R = TypeVar("R")

# Two answers without a word in common, of more words than a keyword mechanism counts.
TWO = (
    GIVEN[0],
    Query("Which of two?", ("red apple from a garden wall", "blue pear on white kitchen plates")),
)
# Three tokens: the fewest with a first, a middle and a last one.
FREE = (Task("conformance", max_answer_tokens=3), Query("Say something."))
VOTERS = 12  # experts or partitions of the contexts: enough for a crowd against one example
FULL = 200  # pairs from which on tests of distributions have their full size
PLACES = 40  # of a context that are tried one by one
WORDS = 400  # of an example that is longer than any other
SIZES = (12, 1536)  # smallest and largest context that is tried for so many


class Watched(Counted):
    """Passes requests on and keeps them; for tests only, since it holds private prompts."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.rounds: list[list[AnyRequest]] = []

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        """Keep the batch, and answer it."""
        self.rounds.append(list(requests))
        return super().answer(requests)

    @property
    def requests(self) -> list[AnyRequest]:
        """All of them, in order."""
        return [request for batch in self.rounds for request in batch]

    def words(self, request: AnyRequest) -> str:
        """What a request shows to the model, as text."""
        if isinstance(request, Embed):
            return request.text
        shown = request.prompt  # type: ignore[attr-defined]
        return shown if isinstance(shown, str) else str(self.model.text(shown))  # type: ignore[attr-defined]


def example(rng: np.random.Generator, flip: bool = False) -> Example:
    """A private example whose input is planted."""
    word = f"zq{rng.integers(10**6):06d}v"
    label = str(rng.choice(GIVEN[0].labels))
    return Example(f"{word} {FLIP}" if flip else word, label)


def context_of(rng: np.random.Generator, size: int) -> Context:
    """Examples, none of which flips."""
    return tuple(example(rng) for _ in range(size))


def size_of(mechanism: Mechanism) -> int:
    """How many examples a context needs."""
    size, largest = SIZES
    while mechanism.voters(size) < VOTERS <= mechanism.voters(largest):
        size *= 2
    size = max(size, mechanism.voters(size))
    return size if _takes(mechanism, size) else mechanism.voters(size)


def _takes(mechanism: Mechanism, size: int) -> bool:
    """Whether a context may have so many examples; a part of its own for each may be the limit."""
    rows = context_of(np.random.default_rng(0), size)
    for task, query in (GIVEN, FREE):
        with contextlib.suppress(UsageError):
            mechanism.requests(task, Job(rows, query), 0)
            return True
    return False


@dataclass(frozen=True, slots=True)
class Family:
    """Aggregates of neighbouring contexts."""

    pattern: str
    aggregates: list[Aggregate]
    pairs: npt.NDArray[np.int64]


def families(
    mechanism: Mechanism, pairs: int, seed: int, patterns: Sequence[str] = PATTERNS
) -> Iterator[Family]:
    """Neighbouring contexts under each script; they differ in one place."""
    yield from _every_place(mechanism, seed)
    each = -(-pairs // len(patterns))
    for at, pattern in enumerate(patterns):
        rng = np.random.default_rng([seed, at])
        contexts, near = _neighbours(mechanism, each, rng)
        jobs = [Job(context, GIVEN[1]) for context in contexts]
        puppet = Puppet(pattern, seed + at, wide=True)
        aggregates = mechanism.collect(GIVEN[0], jobs, [seed] * len(jobs), puppet)
        yield Family(pattern, aggregates, near)


def strangers(row: Example) -> list[Example]:
    """Examples that may stand in place of one: what a private row may hold."""
    return [
        Example(f"{row.input} {FLIP}", row.label),
        Example(f"{row.input} {FLIP} " + "and so on " * WORDS, row.label),
        Example(f"{row.input} {FLIP}", "a label of its own"),
        Example("", row.label),
    ]


def _every_place(mechanism: Mechanism, seed: int) -> Iterator[Family]:
    """Each place of a context replaced by strangers, or removed."""
    base = context_of(np.random.default_rng([seed, 96]), size_of(mechanism))
    removing = mechanism.guarantee.relation == "add_remove"
    for place, row in enumerate(base[:PLACES]):
        puppet = Puppet("random", seed * PLACES + place, wide=True)
        before, after = base[:place], base[place + 1 :]
        new = [(*before, one, *after) for one in strangers(row)]
        contexts = [(*before, *after), base, new[0]] if removing else [base, *new]
        jobs = [Job(context, GIVEN[1]) for context in contexts]
        found = mechanism.collect(GIVEN[0], jobs, [seed] * len(jobs), puppet)
        pairs = [(0, i) for i in range(1, len(jobs))]
        yield Family(f"random at place {place}", found, np.array(pairs, np.int64))


def _neighbours(
    mechanism: Mechanism, pairs: int, rng: np.random.Generator
) -> tuple[list[Context], npt.NDArray[np.int64]]:
    """Replaced: one place, many examples, every two contexts are neighbours.

    Removed: the first lacks what the others have.
    """
    base = context_of(rng, size_of(mechanism))
    place = int(rng.integers(len(base)))
    removing = mechanism.guarantee.relation == "add_remove"
    count = pairs if removing else 2 + int(np.sqrt(2 * pairs))
    new = [example(rng, flip=i == 0) for i in range(count)]
    changed = [(*base[:place], row, *base[place + 1 :]) for row in new]
    if not removing:
        return changed, np.array(list(itertools.combinations(range(count), 2)), np.int64)
    shorter = (*base[:place], *base[place + 1 :])
    return [shorter, *changed], np.stack([np.zeros(count, np.int64), np.arange(1, count + 1)], 1)


def values_of(aggregate: Aggregate) -> Floats | None:
    """The numbers of an aggregate."""
    if isinstance(aggregate, Votes):
        return np.asarray(aggregate.counts, float)
    return np.asarray(aggregate.values, float) if isinstance(aggregate, Vector) else None


class Broken(Exception):
    """The invariant does not hold."""


class Skipped(Exception):
    """The invariant has nothing to say."""


@dataclass(frozen=True, slots=True)
class Bench:
    """One mechanism on trial, and what the trial is made of."""

    mechanism: Mechanism
    seed: int = 0
    pairs: int = 200
    model: Model | None = None
    patterns: Sequence[str] = PATTERNS

    def job(self, query: Query, flip: bool = False, factor: int = 1) -> Job:
        """A job over a planted context."""
        rng = np.random.default_rng([self.seed, 99])
        context = context_of(rng, factor * size_of(self.mechanism))
        return Job((*context[:-1], example(rng, flip=True)) if flip else context, query)

    def flipped(self, query: Query, voters: int) -> Job:
        """A job in which so many voters are shown an example that changes their answer."""
        context = self.job(query).context
        parts = self.mechanism.disjoint_parts(len(context))
        places = {part[0] for part in parts[:voters]} if parts else set(range(voters))
        rows = (
            Example(f"{row.input} {FLIP}", row.label) if place in places else row
            for place, row in enumerate(context)
        )
        return Job(tuple(rows), query)

    @property
    def crowd(self) -> int:
        """How many voters `flipped` can turn."""
        size = len(self.job(TWO[1]).context)
        return len(self.mechanism.disjoint_parts(size)) or size

    def near_ties(self) -> list[Job]:
        """Jobs from one vote below a tie of `TWO` to one above it; each neighbours the next."""
        middle = self.crowd // 2
        return [self.flipped(TWO[1], max(0, middle + more)) for more in (-1, 0, 1)]

    def neighbours(self, query: Query) -> list[Job]:
        """Jobs that differ in their last example; the last one's changes answers."""
        rng, base = np.random.default_rng([self.seed, 98]), self.job(query).context[:-1]
        return [Job((*base, example(rng, flip=i == 7)), query) for i in range(8)]

    def watched(self, pattern: str, task: Task) -> Watched:
        """A model that keeps what it is asked."""
        return Watched(self.model if self.model and not task.labels else Puppet(pattern, self.seed))

    def scaled(self, count: int) -> int:
        """How many of so many draws are made: fewer where few pairs are asked for, never less
        than a hundredth."""
        return max(count * min(self.pairs, FULL) // FULL, -(-count // 100))

    def queries(self) -> Iterator[tuple[Task, Query]]:
        """The queries that the mechanism takes: one with answers, one without."""
        for task, query in (GIVEN, FREE):
            with contextlib.suppress(UsageError):
                self.mechanism.requests(task, self.job(query), 0)
                yield task, query

    def families(self) -> Iterator[Family]:
        """Neighbouring contexts under each script."""
        return families(self.mechanism, self.pairs, self.seed, self.patterns)

    def guaranteed(self) -> Guarantee:
        """The guarantee."""
        if isinstance(self.mechanism.guarantee, NonPrivate):
            raise Skipped("no guarantee")
        return self.mechanism.guarantee
