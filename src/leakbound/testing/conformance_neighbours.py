"""Invariants over neighbouring contexts: on everything that is returned, and on what is public.

The tests of distributions are two-sample tests against the guarantee at `LEVEL`: exact bounds on
both rates of an event, over all events of a pair by Bonferroni.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import TypeVar, cast

import numpy as np
import numpy.typing as npt
from scipy import stats

from leakbound.models import Model, Request
from leakbound.models.wrappers import Wrapper
from leakbound.privacy import Guarantee, Subsampled, trade_off
from leakbound.tasks import AnyRequest, Job, Outputs, Query, Task
from leakbound.testing.conformance_outputs import LEVEL, draws_of
from leakbound.testing.conformance_parts import (
    GIVEN,
    TWO,
    Bench,
    Broken,
    Puppet,
    context_of,
    strangers,
)

DRAWS = 20_000  # outputs of a context: an answer that is certain in one of two shows at mu = 6
TEXTS = 200  # the same where noise is drawn while collecting: shows at epsilon = 2
MOST = 40  # events of a kind that are tested: the most frequent ones

KINDS = ("the text", "the order of the chosen words")

R = TypeVar("R")
Floats = npt.NDArray[np.float64]
Rates = tuple[Floats, Floats]


class Remembered(Wrapper):
    """Answers a request as it did before: a puppet is a function of the prompt."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._known: dict[AnyRequest, object] = {}

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        """Answers in order; only what is new is asked."""
        new = [one for one in dict.fromkeys(requests) if one not in self._known]
        self._known.update(zip(new, self.model.answer(new), strict=True))
        return [cast(R, self._known[one]) for one in requests]


def returned(bench: Bench) -> str:
    """Whatever is returned for two neighbouring contexts keeps the guarantee.

    Answers, words, texts, their lengths and noisy aggregates, in contexts around a tie, with one
    example of a kind among others, and with one that the model repeats.
    """
    bench.guaranteed()
    count = 0
    for task, query, pattern, one, other in _cases(bench):
        guarantee = bench.mechanism.cost(task, query)
        drawn = [samples(bench, task, job, pattern) for job in (one, other)]
        for name, rates, sizes in _events(task, query, *drawn):
            count += rates[0].size
            if _excess(guarantee, rates, sizes):
                raise Broken(
                    f"{name} tells neighbouring contexts apart under {pattern!r} more than the "
                    f"guarantee allows ({guarantee.describe()})"
                )
    return f"{count} events of neighbouring contexts are within the guarantee"


def _cases(bench: Bench) -> Iterator[tuple[Task, Query, str, Job, Job]]:
    """Neighbouring jobs, and the script of the puppet that answers them."""
    for one, other in itertools.pairwise(bench.near_ties()):
        yield *TWO, "agree", *_related(bench, one, other)
    for task, query in bench.queries():
        base = bench.job(query)
        for stranger, pattern in zip(strangers(base.context[-1]), ("agree", "echo"), strict=False):
            changed = Job((*base.context[:-1], stranger), query)
            yield task, query, pattern, *_related(bench, base, changed)


def _related(bench: Bench, one: Job, other: Job) -> tuple[Job, Job]:
    """The same two, or the second and what it is without the example that differs."""
    if bench.mechanism.guarantee.relation == "replace_one":
        return one, other
    pairs = enumerate(zip(one.context, other.context, strict=True))
    place = next((i for i, (a, b) in pairs if a != b), 0)
    return Job((*other.context[:place], *other.context[place + 1 :]), other.query), other


def samples(bench: Bench, task: Task, job: Job, pattern: str) -> Outputs:
    """Outputs of one context, with everything that is drawn on the way drawn afresh."""
    mechanism, puppet = bench.mechanism, Remembered(_puppet(bench, pattern, job.query))
    rng = np.random.default_rng([bench.seed, 5])
    if isinstance(mechanism.guarantee, Subsampled) or mechanism.noise_in_collect(task, job.query):
        draws = [bench.seed + i for i in range(bench.scaled(TEXTS))]
        found = mechanism.collect(task, [job] * len(draws), draws, puppet)
        return _join([mechanism.release(aggregate, 1, rng) for aggregate in found])
    (aggregate,) = mechanism.collect(task, [job], [bench.seed], puppet)
    count = min(bench.scaled(DRAWS), draws_of(bench, mechanism.release(aggregate, 2, rng)))
    return mechanism.release(aggregate, count, rng)


def _puppet(bench: Bench, pattern: str, query: Query) -> Puppet:
    answers = query.labels or GIVEN[0].labels
    return Puppet(pattern, bench.seed, answers)


def _join(outputs: Sequence[Outputs]) -> Outputs:
    """Single outputs together; each may have choices of its own."""
    choices = tuple(dict.fromkeys(text for one in outputs for text in one.choices))
    at = {text: i for i, text in enumerate(choices)}

    def index(one: Outputs, answer: int) -> int:
        inside = bool(one.choices) and answer < len(one.choices)
        return at[one.choices[answer]] if inside else len(choices) if one.choices else answer

    answers = [index(one, int(one.answers[0])) for one in outputs]
    noisy = [one.noisy for one in outputs if one.noisy is not None]
    return Outputs(np.array(answers), np.concatenate(noisy) if noisy else None, choices)


def _events(
    task: Task, query: Query, one: Outputs, other: Outputs
) -> Iterator[tuple[str, Rates, tuple[int, int]]]:
    """Counts of events in both contexts, and of how many outputs."""
    sizes = (len(one.answers), len(other.answers))
    for name, *counts in zip(
        KINDS, _counters(task, query, one), _counters(task, query, other), strict=True
    ):
        kinds = [kind for kind, _ in sum(counts, Counter[object]()).most_common(MOST)]
        if len(kinds) > 1:
            yield name, _count(counts, kinds), sizes
    lengths = [
        np.repeat(*np.array([(len(str(k).split()), n) for k, n in c.items()]).T)
        for c in (_counters(task, query, o)[0] for o in (one, other))
    ]
    levels = np.unique(np.concatenate(lengths))
    yield "the length of the text", _above(lengths[0], lengths[1], levels), sizes
    if one.noisy is not None and other.noisy is not None:
        yield _along(np.asarray(one.noisy, float), np.asarray(other.noisy, float))


def _counters(task: Task, query: Query, outputs: Outputs) -> list[Counter[object]]:
    """How often each text and each row of chosen words came."""
    names = (*(outputs.choices or task.answers(query)), "")
    values, counts = np.unique(np.asarray(outputs.answers), return_counts=True)
    texts: Counter[object] = Counter()
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        texts[names[min(value, len(names) - 1)]] += count
    if outputs.picked is None:
        return [texts, Counter({(): len(outputs.answers)})]
    rows, counts = np.unique(outputs.picked, axis=0, return_counts=True)
    chosen: Counter[object] = Counter(
        {tuple(row): n for row, n in zip(rows.tolist(), counts.tolist(), strict=True)}
    )
    return [texts, chosen]


def _count(counts: Sequence[Counter[object]], kinds: Sequence[object]) -> Rates:
    one, other = (np.array([found[kind] for kind in kinds], float) for found in counts)
    return one, other


def _above(one: Floats, other: Floats, levels: Floats) -> Rates:
    first, second = ((found[:, None] >= levels).sum(0).astype(float) for found in (one, other))
    return first, second


def _along(one: Floats, other: Floats) -> tuple[str, Rates, tuple[int, int]]:
    """Noisy aggregates above levels on the line between their means; both from the first halves."""
    half, rest = len(one) // 2, len(other) // 2
    line = one[:half].mean(0) - other[:rest].mean(0)
    levels = np.quantile(np.concatenate([one[:half], other[:rest]]) @ line, np.linspace(0, 1, 25))
    rates = _above(one[half:] @ line, other[rest:] @ line, levels)
    return "the noisy aggregate", rates, (len(one) - half, len(other) - rest)


def _excess(guarantee: Guarantee, rates: Rates, sizes: tuple[int, int]) -> bool:
    """Whether some rate is larger than the other allows, in either direction."""
    alpha = LEVEL / (4 * rates[0].size)  # two directions, two bounds each
    for a, b, of_a, of_b in ((*rates, *sizes), (*rates[::-1], *sizes[::-1])):
        low = np.where(a > 0, stats.beta.ppf(alpha, np.maximum(a, 1), of_a - a + 1), 0.0)
        high = np.where(b < of_b, stats.beta.isf(alpha, b + 1, np.maximum(of_b - b, 1)), 1.0)
        if (low > trade_off(guarantee, np.clip(high, 0.0, 1.0)) + 1e-12).any():
            return True
    return False


def public_facts(bench: Bench) -> str:
    """What a private row cannot change: choices, sizes, limits, and whether there is an answer."""
    bench.guaranteed()
    rng, count = np.random.default_rng([bench.seed, 97]), 0
    for task, query in bench.queries():
        base = context_of(rng, len(bench.job(query).context))
        rows = [base, *((*base[:-1], row) for row in strangers(base[-1]))]
        for pattern in bench.patterns:
            facts = {_facts(bench, task, Job(row, query), pattern) for row in rows}
            count += len(rows)
            if len(facts) > 1:
                raise Broken(
                    f"the choices, sizes or limits of an answer under {pattern!r} depend on one "
                    "example; they must be fixed by public facts"
                )
    return f"choices, sizes and limits of {count} answers are those of their neighbours"


def _facts(bench: Bench, task: Task, job: Job, pattern: str) -> tuple[object, ...]:
    mechanism, model = bench.mechanism, Remembered(_puppet(bench, pattern, job.query))
    asked = Counter(_shape(request) for request in mechanism.requests(task, job, bench.seed))
    (aggregate,) = mechanism.collect(task, [job], [bench.seed], model)
    if mechanism.noise_in_collect(task, job.query):
        return (frozenset(asked.items()),)
    out = mechanism.release(aggregate, 3, np.random.default_rng(bench.seed))
    sizes = [None if a is None else np.asarray(a).shape for a in (out.noisy, out.picked)]
    points = None if out.points is None else np.asarray(out.points).tobytes()
    return frozenset(asked.items()), out.choices, points, out.scale, *sizes


def _shape(request: AnyRequest) -> tuple[object, ...]:
    """A request without its prompt."""
    if not is_dataclass(request):
        return (type(request),)
    shown = {"prompt", "text", "draw"}
    kept = (getattr(request, one.name) for one in fields(request) if one.name not in shown)
    return type(request), *kept


def state(bench: Bench) -> str:
    """An aggregate depends on its own job alone, and a text on its output, whatever came before."""
    mechanism = bench.mechanism
    for task, query in (*bench.queries(), TWO):
        model = Remembered(_puppet(bench, "agree", query))
        job, other = (bench.flipped(query, voters) for voters in (0, bench.crowd))
        first, between, again, last = (
            mechanism.collect(task, [one], [bench.seed], model)[0] for one in (job, other, job, job)
        )
        if not first == again == last:
            raise Broken("an aggregate depends on contexts that were collected before")
        out = mechanism.release(first, 5, np.random.default_rng(bench.seed))
        texts = mechanism.decode(task, query, out, model)
        mechanism.release(between, 5, np.random.default_rng(bench.seed))
        mechanism.collect(task, [other], [bench.seed], model)
        if mechanism.decode(task, query, out, model) != texts:
            raise Broken("a text depends on contexts that were collected before")
        together = mechanism.collect(task, [other, job], [bench.seed] * 2, model)
        if together[1] != first:
            raise Broken("an aggregate depends on other jobs of its batch")
    _require_samples(bench)
    return "aggregates and texts depend on nothing that came before"


def _require_samples(bench: Bench) -> None:
    """Under amplification by subsampling, each answer needs a sample of its own."""
    guarantee = bench.mechanism.guarantee
    if not isinstance(guarantee, Subsampled) or guarantee.rate in (0.0, 1.0):
        return
    task, query = GIVEN
    made = [tuple(bench.mechanism.requests(task, bench.job(query), i)) for i in range(8)]
    if len(set(made)) < len(made):
        raise Broken("different answers share a sample, which amplification does not allow")
