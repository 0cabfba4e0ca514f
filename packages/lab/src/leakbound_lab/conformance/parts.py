"""What the conformance battery stands on: the bench that holds a mechanism, and its neighbours."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any, TypeVar
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

from leakbound.errors import Refused, UsageError
from leakbound.models import Counted, Embed, Model, Request
from leakbound.privacy import Guarantee, NonPrivate, Subsampled, leaves
from leakbound.stats.arrays import Floats, Ints
from leakbound.tasks import (
    EMPTY_SLOT,
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
from leakbound_lab.conformance.puppets import (
    FLIP,
    FREE,
    GIVEN,
    MANY,
    MUTE,
    PATTERNS,
    PLANTED,
    TWO,
    WORDINGS,
    Puppet,
)

R = TypeVar("R")
VOTERS = 12  # experts or partitions of the contexts: enough for a crowd against one example
FAR = 1e9  # noise that decides a choice alone
FULL = 200  # pairs from which on tests of distributions have their full size
PLACES = 40  # of a context that are tried one by one
WORDS = 400  # of an example that is longer than any other
SILENT = 4  # voters of a near tie who say nothing
SIZES = (12, 1536)  # smallest and largest context that is tried for so many


class Watched(Counted):
    """Passes requests on and keeps them; for tests only, since it holds private prompts."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.rounds: list[list[AnyRequest]] = []

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        self.rounds.append(list(requests))
        return super().answer(requests)

    @property
    def requests(self) -> list[AnyRequest]:
        return [request for batch in self.rounds for request in batch]

    def words(self, request: AnyRequest) -> str:
        return words_of(self.model, request)


class Troubled(Watched):
    """Where FLIP is shown, a content filter stops the prompt, or a reply comes an hour late."""

    def __init__(self, model: Model, trouble: str) -> None:
        super().__init__(model)
        self.trouble, self.late = trouble, 0.0

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        flipped = any(FLIP in words_of(self.model, request) for request in requests)
        if flipped and self.trouble == "failing":
            self.rounds.append(list(requests))
            raise Refused("a content filter has stopped the prompt.")
        self.late += 3600.0 * (flipped and self.trouble == "slow")
        return super().answer(requests)

    def count(self, bench: Bench, asked: tuple[Task, Query], job: Job) -> tuple[str, int]:
        """The text of an answer where it is drawn already, and the number of requests."""
        now, text = time.monotonic, ""

        def clock() -> float:
            return now() + self.late

        with patch.multiple(time, time=clock, monotonic=clock, perf_counter=clock):
            if bench.mechanism.noise_in_collect(*asked):
                text = Coins().run(bench, asked, job, self)
            else:
                bench.mechanism.collect(asked[0], [job], [bench.seed], self)
        sent = Counter[AnyRequest]()  # as often as in one batch: the same is sent after a failure
        for batch in self.rounds:
            if len(batch) > 1 or PLANTED.search(self.words(batch[0])):
                sent |= Counter(batch)
        return text, sent.total() if self.trouble == "failing" else self.calls


def words_of(model: Model, request: AnyRequest) -> str:
    """What a request shows to the model, as text."""
    shown: Any = request.text if isinstance(request, Embed) else request.prompt  # type: ignore[attr-defined]
    return shown if isinstance(shown, str) else str(model.text(shown))  # type: ignore[attr-defined]


def example(rng: np.random.Generator, flip: bool = False) -> Example:
    """A private example whose input is planted."""
    word = f"zq{rng.integers(10**6):06d}v"
    label = GIVEN[0].labels[rng.integers(len(GIVEN[0].labels))]
    return Example(f"{word} {FLIP}" if flip else word, label)


def context_of(rng: np.random.Generator, size: int) -> Context:
    """Examples, none of which flips."""
    return tuple(example(rng) for _ in range(size))


@lru_cache
def _context(seed: int, size: int, flip: bool) -> Context:
    rng = np.random.default_rng([seed, 99])
    context = context_of(rng, size)
    return (*context[:-1], example(rng, flip=True)) if flip else context


def size_of(mechanism: Mechanism) -> int:
    size, largest = SIZES
    while mechanism.voters(size) < VOTERS <= mechanism.voters(largest):
        size *= 2
    size = max(size, mechanism.voters(size))
    return size if takes(mechanism, size) else mechanism.voters(size)


def takes(mechanism: Mechanism, size: int) -> bool:
    """Whether a context may have so many examples; a part of its own for each may be the limit."""
    rows = context_of(np.random.default_rng(0), size)
    for task, query in (GIVEN, FREE):
        with contextlib.suppress(UsageError):
            mechanism.requests(task, Job(rows, query), 0)
            return True
    return False


@dataclass(frozen=True, slots=True)
class Family:
    pattern: str
    aggregates: list[Aggregate]
    pairs: Ints


def strangers(row: Example) -> list[Example]:
    """Examples that may stand in place of one: what a private row may hold."""
    return [
        Example(f"{row.input} {FLIP}", row.label),
        Example(f"{row.input} {FLIP} " + "and so on " * WORDS, row.label),
        Example(f"{row.input} {FLIP}", "a label of its own"),
        Example("", row.label),
    ]


def values_of(aggregate: Aggregate) -> Floats | None:
    if isinstance(aggregate, Votes):
        return np.asarray(aggregate.counts, float)
    return np.asarray(aggregate.values, float) if isinstance(aggregate, Vector) else None


class Broken(Exception):
    """The invariant does not hold."""


class Skipped(Exception):
    """The invariant has nothing to say."""


@dataclass(frozen=True, slots=True)
class Check:
    """One invariant over one mechanism or estimator.

    Attributes:
        name: Name of the invariant.
        passed: Whether it holds; also True where there was nothing to check.
        detail: What was found, or why it was skipped.
    """

    name: str
    passed: bool
    detail: str

    @property
    def skipped(self) -> bool:
        return self.detail.startswith("skipped: ")


B = TypeVar("B")


def check(name: str, body: Callable[[B], str], bench: B) -> Check:
    """Check one invariant, which returns what was found, or raises `Broken` or `Skipped`."""
    try:
        with np.errstate(all="ignore"):
            return Check(name, True, body(bench))
    except Skipped as nothing:
        return Check(name, True, f"skipped: {nothing}")
    except Broken as broken:
        return Check(name, False, str(broken))
    except Exception as error:
        return Check(name, False, f"raised {type(error).__name__}: {error}")


def broken_of(checks: Iterable[Check]) -> list[str]:
    return [f"{check.name}: {check.detail}" for check in checks if not check.passed]


@dataclass(frozen=True)
class Bench:
    """One mechanism on trial, and what the trial is made of."""

    mechanism: Mechanism
    seed: int = 0
    pairs: int = 200
    model: Model | None = None
    patterns: Sequence[str] = PATTERNS

    def job(self, query: Query, flip: bool = False, factor: int = 1) -> Job:
        return Job(_context(self.seed, factor * self.size, flip), query)

    @cached_property
    def size(self) -> int:
        return size_of(self.mechanism)

    def flipped(self, query: Query, voters: int, silent: int = 0) -> Job:
        """A job in which so many voters are shown an example that changes their answer; the last
        ones say nothing."""
        context = self.job(query).context
        parts = self.mechanism.disjoint_parts(len(context))
        places = [part[0] for part in parts] or [*range(len(context))]
        marks = dict.fromkeys(places[:voters], FLIP)
        marks |= dict.fromkeys(places[len(places) - silent :], MUTE)
        rows = (
            replace(row, input=f"{row.input} {marks[place]}") if place in marks else row
            for place, row in enumerate(context)
        )
        return Job(tuple(rows), query)

    @property
    def crowd(self) -> int:
        """How many voters `flipped` can turn."""
        size = len(self.job(TWO[1]).context)
        return len(self.mechanism.disjoint_parts(size)) or size

    def near_ties(self, query: Query = TWO[1], silent: int = 0) -> list[Job]:
        """Jobs from one vote below a tie of two answers to one above; each neighbours the next."""
        middle = (self.crowd - silent) // 2
        return [self.flipped(query, max(0, middle + more), silent) for more in (-1, 0, 1)]

    def neighbours(self, query: Query) -> list[Job]:
        """Jobs that differ in their last example; the last one's changes answers."""
        rng, base = np.random.default_rng([self.seed, 98]), self.job(query).context[:-1]
        return [Job((*base, example(rng, flip=i == 7)), query) for i in range(8)]

    def watched(self, pattern: str, task: Task) -> Watched:
        """A model that keeps what it is asked."""
        return Watched(self.model if self.model and not task.labels else Puppet(pattern, self.seed))

    def scaled(self, count: int) -> int:
        """How many of so many draws are made: fewer for few pairs, never less than a hundredth."""
        return max(count * min(self.pairs, FULL) // FULL, -(-count // 100))

    def queries(self) -> Iterator[tuple[Task, Query]]:
        """The queries that the mechanism takes: one with answers, one without."""
        for task, query in (GIVEN, FREE):
            with contextlib.suppress(UsageError):
                self.mechanism.requests(task, self.job(query), 0)
                yield task, query

    def families(self) -> Iterator[Family]:
        """Neighbouring contexts under each script; they differ in one place."""
        yield from self._every_place()
        if not self.removing:
            rows = [job.context for job in self.near_ties(GIVEN[1], min(SILENT, self.crowd // 2))]
            yield self._family("agree", rows, [(0, 1), (1, 2)], GIVEN, 0)
        patterns = (*self.patterns, "mute", "failing")
        each = -(-self.pairs // len(patterns))
        for at, pattern in enumerate(patterns):
            contexts, pairs = self._neighbours(each, np.random.default_rng([self.seed, at]))
            yield self._family(pattern, contexts, pairs, (MANY, GIVEN)[at % 2], at)

    def _family(
        self,
        pattern: str,
        contexts: Sequence[Context],
        pairs: npt.ArrayLike,
        asked: tuple[Task, Query],
        at: int,
    ) -> Family:
        query, seed = replace(asked[1], text=WORDINGS[at]), self.seed * PLACES + at
        puppet = Puppet(pattern, seed, query.labels or GIVEN[0].labels, wide=True)
        made = (  # one by one: a call that fails stops no other
            self.mechanism.collect(asked[0], [job], [self.seed], Troubled(puppet, pattern))
            for job in (Job(context, query) for context in contexts)
        )
        return Family(pattern, [one for (one,) in made], np.asarray(pairs, np.int64))

    @property
    def removing(self) -> bool:
        return self.mechanism.guarantee.relation == "add_remove"

    def _every_place(self) -> Iterator[Family]:
        """Each place of a context replaced by strangers, or removed."""
        base = context_of(np.random.default_rng([self.seed, 96]), self.size)
        for place, row in enumerate(base[:PLACES]):
            before, after = base[:place], base[place + 1 :]
            twice = (base[0], base[-1])  # a row may equal one before it, or one after it
            new = [(*before, one, *after) for one in (*twice, EMPTY_SLOT, *strangers(row)[:-1])]
            contexts = [(*before, *after), base, *new[:4]] if self.removing else [base, *new]
            pairs = [(0, i) for i in range(1, len(contexts))]
            pattern, asked = (("mumble", GIVEN), ("random", MANY))[place % 2]
            found = self._family(pattern, contexts, pairs, asked, place)
            yield replace(found, pattern=f"{pattern} at place {place}")

    def _neighbours(
        self, pairs: int, rng: np.random.Generator
    ) -> tuple[list[Context], npt.ArrayLike]:
        """Replaced: one place, many examples, every two contexts are neighbours.

        Removed: the first lacks what the others have.
        """
        base = context_of(rng, self.size)
        place = int(rng.integers(len(base)))
        count = pairs if self.removing else 2 + int(np.sqrt(2 * pairs))
        new = [example(rng, flip=i == 0) for i in range(count)]
        changed = [(*base[:place], row, *base[place + 1 :]) for row in new]
        if not self.removing:
            return changed, list(itertools.combinations(range(count), 2))
        return [(*base[:place], *base[place + 1 :]), *changed], [(0, i + 1) for i in range(count)]

    def puppet(self, pattern: str, query: Query) -> Puppet:
        return Puppet(pattern, self.seed, query.labels or GIVEN[0].labels)

    def guaranteed(self) -> Guarantee:
        if isinstance(self.mechanism.guarantee, NonPrivate):
            raise Skipped("no guarantee")
        return self.mechanism.guarantee


# Two claims (epsilon, delta) whose noise differs so much that any of it in an aggregate shows.
NOISY, QUIET = (0.1, 1e-5), (8.0, 1e-5)
DRAWS = 8  # runs over one context; a round that is the same in all of them saw no noise before it

Round = frozenset[Request[object]]


def part_count(guarantee: Guarantee) -> int:
    """Number of releases that a guarantee composes."""
    return sum(part.steps if isinstance(part, Subsampled) else 1 for part in leaves(guarantee))


def release_count(bench: Bench, task: Task, query: Query) -> int:
    """Number of noisy choices in one answer that depend on one example, as far as a puppet shows.

    A round of model calls that shows the example, with prompts that noise drawn before has changed,
    leads to a release of its own; so does the first round that shows it. Rounds that are the same
    whatever noise is drawn count once, so the number is never too large.
    """
    mechanism = bench.mechanism.recalibrated(*NOISY)  # much noise: runs part soon
    counts = [1]
    for pattern in ("random", "agree"):
        for flip in (False, True):
            job = bench.job(query, flip)
            runs = [
                _rounds(mechanism, task, job, bench.seed + draw, Puppet(pattern, bench.seed))
                for draw in range(DRAWS)
            ]
            common = frozenset.intersection(*runs)
            counts.append(max(len(run - common) for run in runs) + bool(common))
    return max(counts)


def _rounds(
    mechanism: Mechanism, task: Task, job: Job, draw: int, puppet: Puppet
) -> frozenset[Round]:
    """Different rounds of model calls of one run that show the last example."""
    watched = Watched(puppet)
    mechanism.collect(task, [job], [draw], watched)
    word = str(job.context[-1].input)
    return frozenset(
        frozenset(requests)
        for requests in watched.rounds
        if any(word in watched.words(request) for request in requests)
    )


class Underived(Exception):
    """A distribution does not follow from the noise."""


NoiseCall = tuple[str, int, Floats | None]  # kind of noise, its size, and probabilities where given
UNKNOWN: NoiseCall = ("", 0, None)
# Arguments of the methods of a generator that `Coins` has a script for.
NOISE = {
    "gumbel": ("loc", "scale", "size"), "normal": ("loc", "scale", "size"),
    "standard_normal": ("size",), "random": ("size",), "choice": ("a", "size", "replace", "p"),
}  # fmt: skip


class Coins(np.random.Generator):
    """A generator by a script: call `at` gets `noise`, standard or the place of a choice; calls
    before it choose the first of all (or a later one), and later ones the last."""

    def __init__(
        self, at: int = 1 << 30, noise: npt.ArrayLike | None = None, first: int = 0
    ) -> None:
        super().__init__(np.random.PCG64(0))
        self.at, self.noise, self.first = at, noise, first
        self.calls: list[NoiseCall] = []

    def run(self, bench: Bench, free: tuple[Task, Query], job: Job, model: Model) -> str:
        with patch.object(np.random, "default_rng", lambda *_, **__: self):
            (found,) = bench.mechanism.collect(free[0], [job], [bench.seed], model)
        out = bench.mechanism.release(found, 1, np.random.default_rng(bench.seed))
        return bench.mechanism.decode(*free, out, model)[0]

    def __getattribute__(self, name: str) -> Any:
        if name in NOISE:
            return partial(self._draw, name)
        if name in vars(np.random.Generator) and not name.startswith("_"):
            self.calls.append(UNKNOWN)
        return super().__getattribute__(name)

    def _draw(self, method: str, *args: Any, **options: Any) -> Any:
        given = dict(zip(NOISE[method], args, strict=False)) | options
        loc, scale, size = given.get("loc", 0.0), given.get("scale", 1.0), given.get("size")
        shape = np.broadcast(loc, scale).shape if size is None else size
        count = int(np.prod(shape))
        if method not in ("random", "choice"):
            noise = self._next("gumbel" if method == "gumbel" else "normal", count)
            return loc + scale * np.reshape(noise, shape)
        if count > 1:
            self.calls.append(UNKNOWN)
            return getattr(np.random.Generator, method)(self, *args, **options)
        if method == "random":
            return np.reshape(self._next("uniform", 1), shape)[()]
        among, p = given["a"], given.get("p")
        among = np.arange(among) if np.ndim(among) == 0 else np.asarray(among)
        p = np.full(len(among), 1 / len(among)) if p is None else np.asarray(p, float)
        return np.reshape(among[self._next("choice", len(among), p)], shape)[()]

    def _next(self, kind: str, size: int, p: Floats | None = None) -> Any:
        self.calls.append((kind, size, p))
        late = len(self.calls) > self.at
        if self.noise is not None and len(self.calls) == self.at + 1:
            return self.noise
        if kind == "uniform":
            return late * (1 - 2**-53)
        place = size - 1 if late else min(self.first, size - 1)
        return place if kind == "choice" else np.where(np.arange(size) == place, FAR, 0.0)
