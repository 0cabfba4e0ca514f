"""What the conformance battery stands on:

puppet models, neighbouring worlds, and the bench that holds a mechanism.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from leakbound.errors import UsageError
from leakbound.models import Counted, Model, Request, Scripted
from leakbound.privacy import NonPrivate
from leakbound.tasks import Context, Example, Job, Query, Task, Vector, Votes

__all__ = ["FREE", "GIVEN", "PATTERNS", "PLANTED", "TWO", "Bench", "Broken", "Family", "Puppet", "Skipped", "Watched",
           "values_of", "context_of", "example", "families", "size_of"]  # fmt: skip

Floats = npt.NDArray[np.float64]
R = TypeVar("R")

GIVEN = (Task("conformance", ("red apple", "blue pear", "green plum")), Query("Which one?"))
TWO = (GIVEN[0], Query("Which of two?", ("red apple", "blue pear")))
FREE = (Task("conformance", max_answer_tokens=3), Query("Say something."))
PLANTED = re.compile(r"zq\d{6}v")  # every private text holds one
FLIP = "flipflop"  # an example that changes the answer of whoever sees it
PATTERNS = ("agree", "random", "mumble", "huge", "broken", "echo")
MUMBLES = ("", " ", "red apple or blue pear", "no idea", "RED APPLE.", "blue pear, of course", "\n")
DIM, VOCABULARY = 4, 256


class Puppet(Scripted):
    """Answers depend on nothing but the prompt, by one of PATTERNS.

    agree: the first answer, with certainty, or the second where FLIP is shown; without examples the
    second is unlikely.
    random: any answer. mumble: also empty, twofold and unreadable ones. huge: scores and embeddings
    of +-1e9. broken: also
    NaN and infinities. echo: the text of a shown example. Tokens are bytes. `wide`: scores of
    several magnitudes.
    """

    def __init__(
        self,
        pattern: str,
        seed: int = 0,
        answers: Sequence[str] = GIVEN[0].labels,
        wide: bool = False,
    ) -> None:
        super().__init__(
            complete=self._complete, label_scores=self._scores, next_logits=self._logits, embed=self._embed,
            name=f"puppet/{pattern}/{seed}",
        )  # fmt: skip
        self.pattern, self.seed, self.answers, self.wide = pattern, seed, tuple(answers), wide

    def encode(self, text: str) -> tuple[int, ...]:
        """Bytes."""
        return tuple(text.encode())

    def text(self, ids: Sequence[int]) -> str:
        """The text of bytes."""
        return bytes(ids).decode("utf-8", "replace")

    def end_ids(self) -> frozenset[int]:
        """Byte 0."""
        return frozenset({0})

    def _bytes(self, text: str, count: int) -> npt.NDArray[np.int64]:
        """(count,) numbers below 256, fixed by the seed and the text."""
        digest = hashlib.blake2b(f"{self.seed} {text}".encode(), digest_size=64).digest()
        return np.resize(np.frombuffer(digest, np.uint8), count).astype(np.int64)

    def _complete(self, prompt: str) -> str:
        shown = PLANTED.findall(prompt)
        first, second = (int(b) for b in self._bytes(prompt, 2))
        if self.pattern == "agree":
            return self.answers[int(FLIP in prompt)]
        if self.pattern == "echo" and shown:
            return str(shown[-1])
        words = (*self.answers, *MUMBLES) if self.pattern == "mumble" else self.answers
        return words[(256 * first + second) % len(words)]

    def _scores(self, prompt: str, labels: Sequence[str]) -> Any:
        if self.pattern != "agree":
            scale = 10.0 ** (self._bytes(prompt, 9)[-1] % 3 - 1) if self.wide else 0.1
            return self._numbers(prompt, len(labels), scale)
        sure = np.full(len(labels), -1000.0)
        sure[int(FLIP in prompt)] = 0.0
        return sure if PLANTED.search(prompt) else np.where(np.arange(len(labels)) == 0, 0.0, -9.0)

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

    def _logits(self, prompt: Any, response: Any) -> Floats:
        text = self.text((*prompt, *response)) if not isinstance(prompt, str) else prompt
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


class Watched(Counted):
    """Passes asks on and keeps them, to see what a mechanism asks.

    For tests only: it holds private prompts.
    """

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.asked: list[Request[Any]] = []

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        self.asked.extend(requests)
        return super().answer(requests)

    def words(self, ask: Request[Any]) -> str:
        """What an ask shows to the model, as text."""
        shown: Any = getattr(ask, "prompt", None) or getattr(ask, "text", "")
        inner: Any = self.model
        return shown if isinstance(shown, str) else str(inner.text(shown))


def example(rng: np.random.Generator, flip: bool = False) -> Example:
    """A private example: its input and its label are planted."""
    word = f"zq{rng.integers(10**6):06d}v"
    label = str(rng.choice(GIVEN[0].labels))
    return Example(f"{word} {FLIP}" if flip else word, label)


def context_of(rng: np.random.Generator, size: int) -> Context:
    """`size` examples, none of which flips."""
    return tuple(example(rng) for _ in range(size))


def size_of(mechanism: Any) -> int:
    """How many examples a context needs: one a partition, and at least 12 partitions or groups."""
    return max(
        12 * int(getattr(mechanism, "group_size", 1)), int(getattr(mechanism, "partitions", 0))
    )


@dataclass(frozen=True, slots=True)
class Family:
    """Clean aggregates of neighbouring contexts:

    pairs (n, 2) index which of them are neighbours.
    """

    pattern: str
    cleans: list[Any]
    pairs: npt.NDArray[np.int64]


def families(
    mechanism: Any, pairs: int, seed: int, patterns: Sequence[str] = PATTERNS
) -> Iterator[Family]:
    """At least `pairs` neighbouring pairs, shared among the patterns; contexts differ in one place."""
    each = -(-pairs // len(patterns))
    for at, pattern in enumerate(patterns):
        rng = np.random.default_rng([seed, at])
        contexts, near = _neighbours(mechanism, each, rng)
        jobs = [Job(context, GIVEN[1]) for context in contexts]
        cleans = mechanism.collect(
            GIVEN[0], jobs, [seed] * len(jobs), Puppet(pattern, seed + at, wide=True)
        )
        yield Family(pattern, cleans, near)


def _neighbours(
    mechanism: Any, pairs: int, rng: np.random.Generator
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


def values_of(aggregate: Any) -> Floats | None:
    """The numbers of a aggregate; None for a text."""
    if isinstance(aggregate, Votes):
        return np.asarray(aggregate.counts, float)
    return np.asarray(aggregate.values, float) if isinstance(aggregate, Vector) else None


class Broken(Exception):
    """The law does not hold."""


class Skipped(Exception):
    """The law has nothing to say."""


@dataclass(frozen=True, slots=True)
class Bench:
    """One mechanism on trial, and what the trial is made of."""

    mechanism: Any
    seed: int = 0
    pairs: int = 200
    model: Model | None = None
    patterns: Sequence[str] = PATTERNS

    def job(self, query: Query, flip: bool = False) -> Job:
        """A job over a planted context; `flip` replaces its last example by one that changes
        answers.
        """
        rng = np.random.default_rng([self.seed, 99])
        context = context_of(rng, size_of(self.mechanism))
        return Job((*context[:-1], example(rng, flip=True)) if flip else context, query)

    def neighbours(self, query: Query) -> list[Job]:
        """Eight jobs that differ in their last example; the last one's changes answers."""
        rng, base = np.random.default_rng([self.seed, 98]), self.job(query).context[:-1]
        return [Job((*base, example(rng, flip=i == 7)), query) for i in range(8)]

    def watched(self, pattern: str, task: Task) -> Watched:
        """A puppet that keeps what it is asked; for free queries the given model, if any."""
        return Watched(self.model if self.model and not task.labels else Puppet(pattern, self.seed))

    def queries(self) -> Iterator[tuple[Task, Query]]:
        """The queries that the mechanism takes: one with answers, one without."""
        for task, query in (GIVEN, FREE):
            with contextlib.suppress(UsageError):
                self.mechanism.requests(task, self.job(query), 0)
                yield task, query

    def families(self) -> Iterator[Family]:
        """Neighbouring worlds under each pattern."""
        return families(self.mechanism, self.pairs, self.seed, self.patterns)

    def promised(self) -> Any:
        """The guarantee, if there is one."""
        if isinstance(self.mechanism.guarantee, NonPrivate):
            raise Skipped("no guarantee")
        return self.mechanism.guarantee
