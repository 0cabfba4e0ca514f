"""Tokens of free answers: a loss above the charge is found at every strength, and nothing else."""

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from leakbound_lab.conformance import INVARIANTS
from leakbound_lab.conformance.exact import SCRIPTS, _chances, jobs_of
from leakbound_lab.conformance.parts import Bench
from leakbound_lab.conformance.puppets import Tokens
from scipy import stats

import leakbound.mechanisms as cm
from leakbound.errors import Refused
from leakbound.mechanisms.parts.exponential import gumbel_choices
from leakbound.mechanisms.parts.tokens import TokenDecoder, log_softmax, public_tokens
from leakbound.models import Model, NextLogits
from leakbound.privacy import BoundedRange, Guarantee, PureDP, compose
from leakbound.stats.arrays import Floats, Ints
from leakbound.tasks import Aggregate, GeneratedText, Job, Query, Task

BY_NAME = {one.name: one for one in INVARIANTS}
SEEDS = range(10)
Rows = list[Floats]


@dataclass(frozen=True, slots=True)
class Experts(cm.ProductOfExperts):
    """Correct; each defect replaces one step by a factor."""

    factor: float = 1.0

    def public(self, rows: Rows) -> Ints:
        return public_tokens(rows[0], self.candidates)

    def total(self, rows: Rows, tokens: Ints) -> Floats:
        return self._total([row[tokens] for row in rows[1:]], len(tokens))

    def draw(self, weights: Floats, rng: Any) -> int:
        return int(gumbel_choices(weights, 1, rng)[0])

    def _token(self, rows: Rows, rng: Any) -> int:
        tokens = self.public(rows)
        return int(tokens[self.draw(self._rate(self._each) * self.total(rows, tokens), rng)])


class Rate(Experts):
    def draw(self, weights: Floats, rng: Any) -> int:
        return Experts.draw(self, self.factor * weights, rng)


class QuietNoise(Experts):
    def draw(self, weights: Floats, rng: Any) -> int:
        return int((weights + rng.gumbel(0.0, 1 / self.factor, weights.size)).argmax())


class Clip(Experts):
    def total(self, rows: Rows, tokens: Ints) -> Floats:
        return Experts.total(replace(self, clip=self.factor * self.clip), rows, tokens)


class Truncated(Experts):
    """Noise that is never larger than some number."""

    def draw(self, weights: Floats, rng: Any) -> int:
        return int((weights + np.clip(rng.gumbel(size=weights.size), -0.1, 0.1)).argmax())


class NoNoise(Experts):
    def draw(self, weights: Floats, rng: Any) -> int:
        return int((weights + 1e-9 * rng.gumbel(size=weights.size)).argmax())


class Chosen(Experts):
    """Drawn by `choice`, at a rate that may be too large."""

    def draw(self, weights: Floats, rng: Any) -> int:
        return int(rng.choice(weights.size, p=np.exp(log_softmax(self.factor * weights))))


class Inverted(Experts):
    """Drawn by a uniform number."""

    def draw(self, weights: Floats, rng: Any) -> int:
        chances = np.exp(log_softmax(self.factor * weights)).cumsum()
        return min(int(np.searchsorted(chances, rng.random(), "right")), weights.size - 1)


class OneByOne(Experts):
    """As many calls of the generator as candidates: no distribution is derived."""

    def draw(self, weights: Floats, rng: Any) -> int:
        return int(np.argmax([self.factor * one + rng.gumbel() for one in weights]))


class Shuffled(Experts):
    """A method of the generator that has no script."""

    def draw(self, weights: Floats, rng: Any) -> int:
        order = rng.permutation(weights.size)
        return int(order[Experts.draw(self, self.factor * weights[order], rng)])


class TwoCalls(Experts):
    """Any token with probability 1/2: the noise of a token is drawn by two calls."""

    def draw(self, weights: Floats, rng: Any) -> int:
        if rng.random() < 0.5:
            return Experts.draw(self, self.factor * weights, rng)
        return int(rng.choice(weights.size))


class LastRows(Experts):
    """Candidates of the last expert."""

    def public(self, rows: Rows) -> Ints:
        return public_tokens(rows[-1], self.candidates)


class MeanRows(Experts):
    """Candidates of all prompts together."""

    def public(self, rows: Rows) -> Ints:
        return public_tokens(np.mean(rows, axis=0), self.candidates)


class OneMore(Experts):
    """The best token of each expert is a candidate, too."""

    def public(self, rows: Rows) -> Ints:
        best = [int(row.argmax()) for row in rows[1:]]
        return np.unique([*Experts.public(self, rows), *best])


class Threshold(Experts):
    """Candidates are likely on average."""

    def public(self, rows: Rows) -> Ints:
        return np.flatnonzero(np.exp(log_softmax(np.stack(rows))).mean(0) > 1e-3)


class Unanimous(Experts):
    """No noise where all experts agree."""

    def draw(self, weights: Floats, rng: Any) -> int:
        noise = rng.gumbel(size=weights.size)
        best = weights.max() >= 0.0
        return int((weights + (1e-9 if best else 1.0) * noise).argmax())


class OwnGenerator(Experts):
    """Noise of a generator that nobody hands over."""

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        if any(map(task.answers, (job.query for job in jobs))):
            return Experts.collect(self, task, jobs, draws, model)
        return [self._write(task, job, n, model) for job, n in zip(jobs, draws, strict=True)]

    def _write(self, task: Task, job: Job, draw: int, model: Model) -> GeneratedText:
        rng = np.random.Generator(np.random.PCG64(draw))
        parts = [(), *self._parts(job.context)]
        decoder = TokenDecoder(model, [task.prompt(part, job.query) for part in parts])
        for _ in range(self.tokens):
            decoder.add(self._token([self.factor * row for row in decoder.logits()], rng))
            if decoder.ended:
                break
        return GeneratedText(decoder.text)

    def draw(self, weights: Floats, rng: Any) -> int:
        return Experts.draw(self, self.factor * weights, rng)


class ByPlace(Experts):
    """A rate for each place: `factor` at one place, where `rates` charges what it is."""

    place = 0
    paid = False

    def _generate(self, task: Task, job: Job, draw: int, model: Model) -> GeneratedText:
        rng = np.random.default_rng(draw)
        parts = [(), *self._parts(job.context)]
        decoder = TokenDecoder(model, [task.prompt(part, job.query) for part in parts])
        for at in range(self.tokens):
            factor = self.factor if at == self.place % self.tokens else 1.0
            each = replace(self, token_epsilon=factor * self._each)
            decoder.add(each._token(decoder.logits(), rng))
            if decoder.ended:
                break
        return GeneratedText(decoder.text)

    def cost(self, task: Task, query: Query) -> Guarantee:
        if task.answers(query) or not self.paid:
            return Experts.cost(self, task, query)
        first = BoundedRange(self.factor * self._each)
        return compose([first, *[BoundedRange(self._each)] * (self.tokens - 1)])


class MiddlePlace(ByPlace):
    place = 1


class LastPlace(ByPlace):
    place = -1


class PaidPlace(ByPlace):
    place, paid = -1, True


class PaidOnce(PaidPlace):
    """One token is charged more, and every one takes it."""

    def _generate(self, task: Task, job: Job, draw: int, model: Model) -> GeneratedText:
        every = replace(self, token_epsilon=self.factor * self._each)
        return Experts._generate(every, task, job, draw, model)


class AsPure(Experts):
    """Charged as epsilon-DP."""

    def cost(self, task: Task, query: Query) -> Guarantee:
        if task.answers(query):
            return self.guarantee
        return compose([PureDP(self._each)] * self.tokens)

    def draw(self, weights: Floats, rng: Any) -> int:
        return Experts.draw(self, self.factor * weights, rng)


@dataclass(frozen=True, slots=True)
class Ink(cm.InvisibleInk):
    factor: float = 1.0


class InkTemperature(Ink):
    def _utility(self, rows: Floats, clip: float) -> Floats:
        return self.factor * cm.InvisibleInk._utility(self, rows, clip)


class InkCentre(Ink):
    """Clipped without the median taken off, and wider."""

    def _utility(self, rows: Floats, clip: float) -> Floats:
        moved = np.clip(rows[1:] - rows[0], -self.factor * clip, self.factor * clip)
        return (log_softmax(rows[0]) + moved.mean(0)) / self.temperature


class InkPresent(Ink):
    """The mean over the parts that hold an example, in place of all of them."""

    def _utility(self, rows: Floats, clip: float) -> Floats:
        moved = rows[1:] - rows[0]
        present = max(1, int((moved != 0).any(1).sum()))
        moved = np.clip(moved - np.median(moved, axis=1, keepdims=True), -clip, clip)
        return (log_softmax(rows[0]) + moved.sum(0) / present) / self.temperature


@dataclass(frozen=True, slots=True)
class Bounded(cm.BoundedCID):
    factor: float = 1.0


class BoundedMore(Bounded):
    def _log_p(self, context: Floats, prior: Floats, free: bool) -> Floats:
        return self.log_p(context, prior, self.tokens / self.factor if free else 1)  # type: ignore[arg-type]


class SharperBound(Bounded):
    """The bound holds at one temperature, and the token is drawn at another."""

    def _log_p(self, context: Floats, prior: Floats, free: bool) -> Floats:
        log_p = cm.BoundedCID._log_p(self, context, prior, free)
        return log_softmax(self.factor * log_p) if free else log_p


class Shots(cm.SyntheticShots):
    """Noise that is charged as if it were larger by a factor."""

    factor = 1.0

    def cost(self, task: Task, query: Query) -> Guarantee:
        return cm.SyntheticShots.cost(replace(self, sigma=self.factor * self.sigma), task, query)


class Shots2(Shots):
    factor = 2.0


class Shots125(Shots):
    factor = 1.25


class FusedTwice(cm.DPFusion):
    def _log_p(self, context: Floats, prior: Floats, free: bool) -> Floats:
        if not free or self.token_beta is None:
            return cm.DPFusion._log_p(self, context, prior, free)
        wider = replace(self, token_beta=2 * self.token_beta)
        return cm.DPFusion._log_p(wider, context, prior, free)


def made(kind: Any, factor: float = 1.0, epsilon: float = 1.0, **options: Any) -> Any:
    options = {"tokens": 3} | options
    return replace(kind.calibrated(epsilon, 1e-5, **options), factor=factor)


Make = Callable[[], Any]
SCALED = (Rate, QuietNoise, Clip, Chosen, Inverted, AsPure, ByPlace, MiddlePlace, LastPlace)
DEFECTS: list[tuple[str, Make]] = [
    *((f"{kind.__name__} {factor:g}", lambda k=kind, f=factor: made(k, f))
      for kind in SCALED
      for factor in (1.05, 1.5, 10.0)),
    *((kind.__name__, lambda k=kind: made(k))
      for kind in (LastRows, MeanRows, OneMore, Threshold, NoNoise, Unanimous)),
    *((f"{kind.__name__} {factor:g}", lambda k=kind, f=factor: made(k, f, tokens=2))
      for kind in (BoundedMore, SharperBound, InkTemperature, InkCentre) for factor in (1.2, 3.0)),
    ("InkPresent", lambda: made(InkPresent, relation="add_remove", partitions=12)),
    ("PaidOnce", lambda: made(PaidOnce, 3.0)),
    ("Shots2", lambda: Shots2.calibrated(2.0, 1e-5, tokens=2, candidates=20)),
    ("Shots125", lambda: Shots125.calibrated(2.0, 1e-5, tokens=2, candidates=20)),
]  # fmt: skip
SAMPLED: list[tuple[str, Make]] = [
    *((kind.__name__, lambda k=kind: made(k, 20.0, tokens=2))
      for kind in (OneByOne, Shuffled, TwoCalls, OwnGenerator)),
    ("Truncated", lambda: made(Truncated, epsilon=2.0, tokens=2)),
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Deadline(Experts):
    """Leaves experts out where replies come late."""

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        start = time.monotonic()
        made = Experts.collect(self, task, jobs, draws, model)
        if time.monotonic() - start < 60.0:
            model.answer([NextLogits("one more")])
        return made


class AsksAnew(Experts):
    """Other words where a reply cannot be read."""

    def _generate(self, task: Task, job: Job, draw: int, model: Model) -> GeneratedText:
        for part in self._parts(job.context):
            prompt = task.prompt(part, job.query)
            with contextlib.suppress(Refused):
                if np.isnan(model.answer([NextLogits(prompt)])[0]).any():
                    model.answer([NextLogits(f"Please! {prompt}")])
        return Experts._generate(self, task, job, draw, model)


class AsksOnFailure(Experts):
    """Other words where a call fails."""

    def _generate(self, task: Task, job: Job, draw: int, model: Model) -> GeneratedText:
        for part in self._parts(job.context):
            prompt = task.prompt(part, job.query)
            try:
                model.answer([NextLogits(prompt)])
            except Refused:
                with contextlib.suppress(Refused):
                    model.answer([NextLogits(f"Please! {prompt}")])
        return Experts._generate(self, task, job, draw, model)


class Drafts(Experts):
    """A token is drafted from the public logits and taken with some probability: two calls."""

    def _token(self, rows: Rows, rng: Any) -> int:
        tokens = self.public(rows)
        private = np.exp(log_softmax(self._rate(self._each) * self.total(rows, tokens)))
        public = np.exp(log_softmax(rows[0][tokens]))
        draft = int(rng.choice(tokens.size, p=public))
        if rng.random() < min(1.0, private[draft] / public[draft]):
            return int(tokens[draft])
        rest = np.maximum(private - public, 0.0)
        return int(tokens[int(rng.choice(tokens.size, p=rest / rest.sum()))])


class Race(Experts):
    """The first of exponential clocks: a method of the generator that has no script."""

    def draw(self, weights: Floats, rng: Any) -> int:
        return int((rng.exponential(size=weights.size) * np.exp(weights.max() - weights)).argmin())


EPSILONS = (0.1, 1.0, 4.0, 16.0)
CORRECT: list[tuple[str, Callable[[float], Any]]] = [
    *((kind.__name__, lambda epsilon, k=kind: made(k, 1.0, epsilon, tokens=2))
      for kind in (Experts, Chosen, Inverted, OneByOne, Shuffled, TwoCalls, OwnGenerator, AsPure,
                   Drafts, Race, Ink, Bounded)),
    ("PaidPlace", lambda epsilon: made(PaidPlace, 3.0, epsilon)),
]  # fmt: skip
FAST = ("Rate 1.05", "Clip 1.05", "Inverted 1.05", "LastRows", "PaidOnce", "SharperBound 1.2",
        "InkTemperature 1.2", "Shots125")  # fmt: skip
QUICK = ("Chosen",)


def slow_unless(names: Sequence[str], rows: Sequence[tuple[str, Any]]) -> list[Any]:
    marks = {name: () if name in names else (pytest.mark.slow,) for name, _ in rows}
    return [pytest.param(make, id=name, marks=marks[name]) for name, make in rows]


@pytest.mark.parametrize("make", slow_unless(FAST, [*DEFECTS, *SAMPLED]))
def test_a_loss_above_the_charge_is_found(make: Make) -> None:
    assert not BY_NAME["tokens"](make()).passed


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS[1:])
@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in DEFECTS])
def test_it_is_found_at_every_seed(make: Make, seed: int) -> None:
    assert not BY_NAME["tokens"](make(), seed=seed).passed


@pytest.mark.parametrize("make", slow_unless(QUICK, CORRECT))
def test_a_correct_mechanism_is_accused_of_nothing(make: Callable[[float], Any]) -> None:
    for check in ("tokens", "request_count", "total"):
        found = BY_NAME[check](make(1.0))
        assert found.passed, found.detail


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in CORRECT])
def test_a_correct_mechanism_is_never_accused(make: Callable[[float], Any], epsilon: float) -> None:
    found = BY_NAME["tokens"](make(epsilon), seed=1)
    assert found.passed, found.detail


@pytest.mark.parametrize("kind", [Experts, Chosen, Inverted])
def test_the_distribution_of_a_token_is_derived(kind: Any) -> None:
    """One expert of four moves the first of two tokens by the clip: a ratio of e^(epsilon/2)."""
    bench = Bench(made(kind, tokens=2, epsilon=1.0))
    up, down, calm, failed = (
        _chances(bench, job, Tokens(2, 0.0), 0, []) for job in jobs_of(bench, SCRIPTS[0])
    )
    each = bench.mechanism._each
    assert sorted(up) == ["", "\u4e00"]
    assert up["\u4e00"] == pytest.approx(1 / (1 + np.exp(-each / 2)), abs=1e-6)
    assert down["\u4e00"] == pytest.approx(1 / (1 + np.exp(each / 2)), abs=1e-6)
    assert calm["\u4e00"] == failed["\u4e00"] == pytest.approx(0.5, abs=1e-6)


def test_noise_with_a_normal_distribution_is_derived() -> None:
    """One example decides between two tokens: the loss is that of the Gaussian mechanism."""
    made = cm.SyntheticShots.calibrated(2.0, 1e-5, tokens=2, candidates=20)
    up, down, *_ = (
        _chances(Bench(made), job, Tokens(2, 0.0), 0, [])
        for job in jobs_of(Bench(made), SCRIPTS[0])
    )
    letter = "\u4e00"
    moved = stats.norm.ppf(up[letter]) - stats.norm.ppf(down[letter])
    assert moved == pytest.approx(np.sqrt(2) / made.partitions / made.sigma, abs=1e-5)


@pytest.mark.parametrize(
    ("kind", "found"), [(Deadline, "slow"), (AsksAnew, "marks"), (AsksOnFailure, "failing")]
)
def test_calls_that_depend_on_a_private_reply_are_found(kind: Any, found: str) -> None:
    check = BY_NAME["request_count"](made(kind, tokens=2))
    assert not check.passed
    assert found in check.detail
