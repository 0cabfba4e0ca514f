"""What the conformance battery stands on: the bench that holds a mechanism, and its neighbours."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any, TypeVar
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

from leakbound.errors import Refused, UsageError
from leakbound.mechanisms.parts.contextual_calibration import CONTENT_FREE
from leakbound.models import Counted, Embed, Model, Request, Scripted
from leakbound.privacy import Guarantee, NonPrivate
from leakbound.stats.arrays import Floats, Ints
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

GIVEN = (Task("conformance", ("red apple", "blue pear", "green plum")), Query("Which one?"))
PLANTED = re.compile(r"zq\d{6}v")  # every private text holds one
FLIP = "flipflop"  # an example that changes the answer of whoever sees it
PATTERNS = ("agree", "random", "mumble", "huge", "broken", "echo")
MUMBLES = ("", " ", "red apple or blue pear", "no idea", "RED APPLE.", "blue pear, of course", "\n")
DIM, VOCABULARY = 4, 256  # of embeddings; of tokens, which are bytes


class Puppet(Scripted):
    """Answers by one of PATTERNS; tokens are bytes.

    agree: the first answer, with certainty, or the second where FLIP is shown; without examples the
    second is unlikely, and for a content-free query all are alike. random: any answer. mumble: also
    empty, twofold and unreadable ones. huge: scores and embeddings of +-1e9. broken: also NaN and
    infinities. echo: the text of a shown example. mute: no text where FLIP is shown.
    """

    def __init__(
        self,
        pattern: str,
        seed: int = 0,
        answers: Sequence[str] = GIVEN[0].labels,
        wide: bool = False,
        gap: float = 9.0,
    ) -> None:
        super().__init__(
            complete=self._complete,
            label_scores=self._scores,
            next_logits=self._logits,
            embed=self._embed,
            name=f"puppet/{pattern}/{seed}",
        )
        self.pattern, self.seed, self.answers, self.wide = pattern, seed, tuple(answers), wide
        self.gap = gap

    def encode(self, text: str) -> tuple[int, ...]:
        return tuple(text.encode())

    def text(self, ids: Sequence[int]) -> str:
        return bytes(ids).decode("utf-8", "replace")

    def end_ids(self) -> frozenset[int]:
        return frozenset({0})

    def _bytes(self, text: str, count: int) -> Ints:
        """(count,) numbers below 256, fixed by the seed and the text."""
        digest = hashlib.blake2b(f"{self.seed} {text}".encode(), digest_size=64).digest()
        return np.resize(np.frombuffer(digest, np.uint8), count).astype(np.int64)

    def _complete(self, prompt: str) -> str:
        shown = PLANTED.findall(prompt)
        first, second = (int(b) for b in self._bytes(prompt, 2))
        if self.pattern == "agree":
            return self.answers[int(FLIP in prompt)]
        if self.pattern == "mute":
            return "" if FLIP in prompt else self.answers[0]
        if self.pattern == "echo" and shown:
            return str(shown[-1])
        words = (*self.answers, *MUMBLES) if self.pattern == "mumble" else self.answers
        return words[(256 * first + second) % len(words)]

    def _scores(self, prompt: str, labels: Sequence[str]) -> Any:
        if self.pattern != "agree":
            scale = 10.0 ** (self._bytes(prompt, 9)[-1] % 3 - 1) if self.wide else 0.1
            return self._numbers(prompt, len(labels), scale)
        if f": {CONTENT_FREE}\n" in prompt:
            return np.zeros(len(labels))
        sure = np.full(len(labels), -1000.0)
        sure[int(FLIP in prompt)] = 0.0
        without = np.where(np.arange(len(labels)) == 0, 0.0, -self.gap)
        return sure if PLANTED.search(prompt) else without

    def _numbers(self, text: str, count: int, scale: float) -> Floats:
        """Numbers of both signs, with the oddities of the pattern."""
        raw = self._bytes(text, count)
        values = (raw - 127.5) / 20 * scale
        if self.pattern in ("huge", "broken"):
            values = np.where(raw % 2 == 0, np.sign(values) * 1e9, values)
        if self.pattern == "broken":
            values = np.where(raw % 5 == 0, np.array([np.nan, np.inf, -np.inf])[raw % 3], values)
        return np.asarray(values, float)

    def _embed(self, text: str) -> Any:
        if self.pattern == "agree":
            return np.eye(DIM)[0] * (-1e3 if self.answers[1] in text else 1e3)
        return self._numbers(text, DIM, 1.0)

    def _logits(self, prompt: str | tuple[int, ...], response: tuple[int, ...]) -> Floats:
        text = prompt if isinstance(prompt, str) else self.text((*prompt, *response))
        letters = np.arange(VOCABULARY)
        if self.pattern == "agree":
            logits = np.where(letters == ord("b" if FLIP in text else "a"), 20.0, 0.0)
        else:
            logits = self._bytes(text, VOCABULARY) / 20.0
            if self.pattern == "echo":
                logits[_next_letter(text)] += 50.0
        written = (letters >= 97) & (letters <= 122) | (letters == 0)
        return np.asarray(np.where(written, logits, logits - 20.0)[None, :], float)


def _next_letter(text: str) -> int:
    """The byte that continues a planted text at the end of the prompt."""
    for word in PLANTED.findall(text)[-1:]:
        done = next(n for n in range(len(word), -1, -1) if text.endswith(word[:n]))
        return ord(word[done]) if done < len(word) else 0
    return ord("a")


# What a row shows, and how it moves tokens as ln p: the first up and the last down (FLIP), or the
# other way round; up the one that is least likely in public; all to NaN.
DOWN, STRAY, MUTE = "downdown", "straystray", "mutemute"
HAN = 0x4E00  # tokens are Han letters, which no prompt holds


class Tokens(Puppet):
    """Writes tokens as letters and moves them by the marks in a prompt; the last ends an answer."""

    def __init__(self, size: int, gap: float) -> None:
        super().__init__(f"tokens/{size}/{gap:g}")
        self.level = np.where(np.arange(size) < 20, 0.0, -8.0)
        self.level[-2:] = -30.0 * (size > 2), gap

    def text(self, ids: Sequence[int]) -> str:
        return "".join(chr(HAN + one) for one in ids)

    def end_ids(self) -> frozenset[int]:
        return frozenset({len(self.level) - 1})

    def _complete(self, prompt: str) -> str:
        return "".join(one for one in prompt if ord(one) >= HAN)

    def _logits(self, prompt: str | tuple[int, ...], response: tuple[int, ...]) -> Floats:
        shown = prompt if isinstance(prompt, str) else bytes(prompt).decode("utf-8", "replace")
        up, stray = shown.count(FLIP) - shown.count(DOWN), shown.count(STRAY)
        moved = np.zeros(len(self.level))
        moved[0], moved[-1] = 30.0 * up, -30.0 * up
        moved[-2] += 500.0 * stray
        return (self.level + (np.nan if MUTE in shown else moved))[None, :]


R = TypeVar("R")

# Two answers without a word in common, of more words than a keyword mechanism counts.
TWO = (
    GIVEN[0],
    Query("Which of two?", ("red apple from a garden wall", "blue pear on white kitchen plates")),
)
# Three tokens: the fewest with a first, a middle and a last one.
FREE = (Task("conformance", max_answer_tokens=3), Query("Say something."))
VOTERS = 12  # experts or partitions of the contexts: enough for a crowd against one example
FAR = 1e9  # noise that decides a choice alone
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
        each = -(-self.pairs // len(self.patterns))
        for at, pattern in enumerate(self.patterns):
            contexts, pairs = self._neighbours(each, np.random.default_rng([self.seed, at]))
            puppet = Puppet(pattern, self.seed + at, wide=True)
            yield self._family(pattern, contexts, pairs, puppet)

    def _family(
        self, pattern: str, contexts: Sequence[Context], pairs: npt.ArrayLike, puppet: Puppet
    ) -> Family:
        jobs = [Job(context, GIVEN[1]) for context in contexts]
        found = self.mechanism.collect(GIVEN[0], jobs, [self.seed] * len(jobs), puppet)
        return Family(pattern, found, np.asarray(pairs, np.int64))

    @property
    def removing(self) -> bool:
        return self.mechanism.guarantee.relation == "add_remove"

    def _every_place(self) -> Iterator[Family]:
        """Each place of a context replaced by strangers, or removed."""
        base = context_of(np.random.default_rng([self.seed, 96]), self.size)
        for place, row in enumerate(base[:PLACES]):
            puppet = Puppet("random", self.seed * PLACES + place, wide=True)
            before, after = base[:place], base[place + 1 :]
            new = [(*before, one, *after) for one in strangers(row)]
            contexts = [(*before, *after), base, new[0]] if self.removing else [base, *new]
            pairs = [(0, i) for i in range(1, len(contexts))]
            yield self._family(f"random at place {place}", contexts, pairs, puppet)

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
    before it choose the first of all, and later ones the last."""

    def __init__(self, at: int = 1 << 30, noise: npt.ArrayLike | None = None) -> None:
        super().__init__(np.random.PCG64(0))
        self.at, self.noise = at, noise
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
        if kind in ("choice", "uniform"):
            return late * (size - 1 if kind == "choice" else 1 - 2**-53)
        return np.where(np.arange(size) == late * (size - 1), FAR, 0.0)
