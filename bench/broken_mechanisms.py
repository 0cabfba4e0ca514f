"""Broken mechanisms that once conformed: each has one defect that a narrower battery did not see.

None of this is a mechanism that anyone should use.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
from leakbound_lab.planted.planted_mechanisms import DELTA, VotingBase

from leakbound.mechanisms import KeywordMean, ProductOfExperts
from leakbound.mechanisms.keyword_mean import words_of
from leakbound.mechanisms.parts.tokens import TokenDecoder, find_tokenizer, log_softmax
from leakbound.models import Complete, Model
from leakbound.privacy import Gaussian, Guarantee
from leakbound.stats.arrays import Floats
from leakbound.tasks import (
    EMPTY_SLOT,
    Aggregate,
    AnyRequest,
    Example,
    GeneratedText,
    Job,
    Mechanism,
    Query,
    Task,
    Vector,
    Votes,
    present,
)

Rng = np.random.Generator
LONG = 40  # characters of a query
FEW = 4  # answers


class _Votes(VotingBase):
    """A correct vote; what is collected or who votes is changed by a defect."""

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        made = zip(jobs, draws, strict=True)
        return [self.changed(self.counts(task, job, n, model), job) for job, n in made]

    def counts(self, task: Task, job: Job, draw: int, model: Model) -> Floats:
        (found,) = VotingBase.collect(self, task, [job], [draw], model)
        return np.array(cast(Votes, found).counts)

    def changed(self, counts: Floats, job: Job) -> Votes:
        return Votes(tuple(counts.tolist()))

    def requests(self, task: Task, job: Job, draw: int) -> list[AnyRequest]:
        return VotingBase.requests(self, task, Job(self.rows(job.context), job.query), draw)

    def rows(self, context: tuple[Example, ...]) -> tuple[Example, ...]:
        return context


class FewNoisy(_Votes):
    """Noise on the first four counts only."""

    def noisy(self, votes: Votes, draws: int, rng: Rng) -> Floats:
        noisy = np.tile(np.asarray(votes.counts, float), (draws, 1))
        return noisy + np.where(np.arange(noisy.shape[1]) < FEW, 1.0, 0.0) * rng.normal(
            0.0, self.sigma, noisy.shape
        )


class LessNoiseIfUnread(_Votes):
    """Noise in proportion to the votes that could be read."""

    def noisy(self, votes: Votes, draws: int, rng: Rng) -> Floats:
        read = sum(votes.counts[:-1]) / max(1, sum(votes.counts))
        return VotingBase.noisy(
            replace(self, sigma=self.sigma * max(read, 0.05)), votes, draws, rng
        )


class CutNoise(_Votes):
    """No noise is larger than 4.5 standard deviations."""

    def noisy(self, votes: Votes, draws: int, rng: Rng) -> Floats:
        size, most = (draws, len(votes.counts)), 4.5 * self.sigma
        return np.asarray(votes.counts) + np.clip(rng.normal(0.0, self.sigma, size), -most, most)


class WeightOfLongQueries(_Votes):
    """A vote about a long query counts ten times."""

    def changed(self, counts: Floats, job: Job) -> Votes:
        weight = 10 if len(str(job.query.text)) > LONG else 1
        return Votes(tuple((weight * counts).tolist()))


class UnreadToMajority(_Votes):
    """A vote that cannot be read counts for the majority."""

    def changed(self, counts: Floats, job: Job) -> Votes:
        counts[int(counts[:-1].argmax())] += counts[-1]
        return Votes((*counts[:-1].tolist(), 0))


class NoneIfOneFails(_Votes):
    """The answer is "none of them" if one call fails."""

    def counts(self, task: Task, job: Job, draw: int, model: Model) -> Floats:
        made = [one for one in self.requests(task, job, draw) if isinstance(one, Complete)]
        try:
            model.answer(made)
        except Exception:
            return np.array([0] * len(task.answers(job.query)) + [1000])
        return _Votes.counts(self, task, job, draw, model)


class EqualRowsOnce(_Votes):
    """A row that equals an earlier one is not shown."""

    def rows(self, context: tuple[Example, ...]) -> tuple[Example, ...]:
        return tuple(
            EMPTY_SLOT if row in context[:place] else row for place, row in enumerate(context)
        )


class EmptySlotsLast(_Votes):
    """Empty slots are left out before a context is split."""

    def rows(self, context: tuple[Example, ...]) -> tuple[Example, ...]:
        return present(context)


class SharedBatch(_Votes):
    """Private requests may be answered in one batch with others."""

    def requests(self, task: Task, job: Job, draw: int) -> list[AnyRequest]:
        made = _Votes.requests(self, task, job, draw)
        return [replace(one, alone=False) for one in made if isinstance(one, Complete)]


class PriceOfManyLabels(VotingBase):
    """An answer costs a tenth in some cases: here among many labels."""

    def cheap(self, task: Task, query: Query) -> bool:
        return len(task.answers(query)) > FEW

    def cost(self, task: Task, query: Query) -> Guarantee:
        cheap = Gaussian(math.sqrt(2), 10 * self.sigma)
        return cheap if self.cheap(task, query) else self.guarantee


class PriceOfOwnAnswers(PriceOfManyLabels):
    def cheap(self, task: Task, query: Query) -> bool:
        return len(query.labels) > 2


class PriceOfLongQueries(PriceOfManyLabels):
    def cheap(self, task: Task, query: Query) -> bool:
        return len(str(query.text)) > 1600


class PriceOfGreek(PriceOfManyLabels):
    def cheap(self, task: Task, query: Query) -> bool:
        return any("\u0370" <= one <= "\u03ff" for one in str(query.text))


class EveryOccurrence(KeywordMean):
    """A word counts as often as a reply repeats it."""

    def _aggregate(self, task: Task, query: Query, texts: Sequence[str], model: Model) -> Vector:
        found = KeywordMean._aggregate(self, task, query, texts, model)
        names = tuple(dict.fromkeys(word for one in found.choices for word in words_of(one)))
        names = names if found.points else found.choices
        shown = [[w for w in words_of(text) if w in names][: self.per_answer] for text in texts]
        counts = [sum(words.count(name) for words in shown) / len(texts) for name in names]
        return replace(found, values=tuple(counts))


class _Tokens(ProductOfExperts):
    """Correct; a defect changes the rate or the rows of a token, or the end."""

    def _generate(self, task: Task, job: Job, draw: int, model: Model) -> GeneratedText:
        rng = np.random.default_rng(draw)
        parts = [(), *self._parts(job.context)]
        decoder = TokenDecoder(model, [task.prompt(part, job.query) for part in parts])
        for at in range(self.tokens):
            rows = decoder.logits()
            if self.ends(at, rows, find_tokenizer(model).end_ids()):
                break
            rate = replace(self, token_epsilon=self.factor(at, job) * self._each)
            decoder.add(ProductOfExperts._token(rate, self.shown(at, rows), rng))
            if decoder.ended:
                break
        return GeneratedText(decoder.text)

    def ends(self, at: int, rows: list[Floats], end_ids: frozenset[int]) -> bool:
        return False

    def factor(self, at: int, job: Job) -> float:
        return 1.0

    def shown(self, at: int, rows: list[Floats]) -> list[Floats]:
        return rows


class PrivateEnd(_Tokens):
    """A text ends where the private prompts prefer the end."""

    def ends(self, at: int, rows: list[Floats], end_ids: frozenset[int]) -> bool:
        return at > 0 and int(np.mean([log_softmax(r) for r in rows[1:]], 0).argmax()) in end_ids


class PrivateCandidatesLater(_Tokens):
    """Tokens in the middle are chosen among those of a private prompt."""

    def shown(self, at: int, rows: list[Floats]) -> list[Floats]:
        return [rows[-1], *rows[1:]] if 1 < at < self.tokens - 1 else rows


class RateBetween(_Tokens):
    """Ten times the rate, but for the first token, the middle one and the last."""

    def factor(self, at: int, job: Job) -> float:
        return 1.0 if at in (0, self.tokens // 2, self.tokens - 1) else 10.0


class RateOfLongQueries(_Tokens):
    """Ten times the rate if the query is long."""

    def factor(self, at: int, job: Job) -> float:
        return 10.0 if len(str(job.query.text)) > LONG else 1.0


@dataclass(frozen=True, slots=True)
class Row:
    """A broken mechanism and an invariant that finds it."""

    id: str
    found_by: str
    make: Callable[[], Mechanism]


def _row(name: str, found_by: str, kind: Any, **options: Any) -> Row:
    return Row(name, found_by, partial(kind.calibrated, 1.0, DELTA, **options))


BROKEN = (
    _row("noise on four counts", "outputs", FewNoisy),
    _row("noise of what was read", "outputs", LessNoiseIfUnread),
    _row("noise cut at 4.5 deviations", "outputs", CutNoise),
    _row("weight of long queries", "loss", WeightOfLongQueries),
    _row("unreadable votes to the majority", "loss", UnreadToMajority),
    _row("none of them if one call fails", "loss", NoneIfOneFails),
    _row("equal rows once", "loss", EqualRowsOnce),
    _row("empty slots left out", "loss", EmptySlotsLast),
    _row("shared batch", "requests", SharedBatch),
    _row("price of many labels", "cost", PriceOfManyLabels),
    _row("price of own answers", "cost", PriceOfOwnAnswers),
    _row("price of a long query", "cost", PriceOfLongQueries),
    _row("price of a script", "cost", PriceOfGreek),
    _row("every occurrence of a word", "loss", EveryOccurrence, per_answer=3, candidates=3),
    _row("private end", "tokens", PrivateEnd),
    _row("candidates of later tokens", "tokens", PrivateCandidatesLater),
    _row("rate of tokens between", "tokens", RateBetween),
    _row("rate of long queries", "tokens", RateOfLongQueries),
)
