"""Utility of mechanisms over freshly drawn contexts: accuracy, or ROUGE of free answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from leakbound.attacks.templates import REPEAT
from leakbound.errors import DataError
from leakbound.tasks import Aggregate, Context, Example, Job, Mechanism, Query, Task, Votes
from leakbound.tasks.synthetic import HELP_DESK, QUEUES, TOPICS, help_desk, message
from leakbound.utility import rouge
from leakbound_lab.reproduce.context import RecipeContext
from leakbound_lab.reproduce.values import MeasuredValue, Quantity, Sample

Metric = Literal["accuracy", "rouge1", "rougeL"]
QUANTITIES: Mapping[Metric, Quantity] = {
    "accuracy": Quantity.ACCURACY, "rouge1": Quantity.ROUGE_1, "rougeL": Quantity.ROUGE_L,
}  # fmt: skip
DRAWS = 400  # outputs per query for an expected accuracy: a standard error of at most 2.5 points
BUNDLED_ROWS = 300


@dataclass(frozen=True, slots=True)
class NoiseGroup:
    """Mechanisms that differ only in their noise."""

    collector: Mechanism
    settings: Mapping[str, Mechanism]

    @classmethod
    def of(cls, setting: str, mechanism: Mechanism) -> NoiseGroup:
        return cls(mechanism, {setting: mechanism})


@dataclass(frozen=True, slots=True)
class Repetition:
    """A context (PRIVATE) with queries and their correct answers."""

    task: Task
    jobs: list[Job]
    truth: list[str]
    seed: int  # no other one of this or another run has it

    @property
    def shared(self) -> bool:
        """Whether all queries ask one context."""
        return all(job.context is self.jobs[0].context for job in self.jobs)

    def collect(self, mechanism: Mechanism, context: RecipeContext) -> list[Aggregate]:
        draws = [1_000_003 * self.seed + i for i in range(len(self.jobs))]
        return list(mechanism.collect(self.task, self.jobs, draws, context.model()))

    def values(
        self,
        mechanism: Mechanism,
        aggregates: Sequence[Aggregate],
        context: RecipeContext,
        metric: Metric,
    ) -> list[float]:
        if metric == "accuracy":
            return [100 * share for share in self._accuracies(mechanism, aggregates)]
        return [100 * score for score in self._rouges(mechanism, aggregates, context, metric)]

    def _accuracies(self, mechanism: Mechanism, aggregates: Sequence[Aggregate]) -> list[float]:
        rng = np.random.default_rng([self.seed, 1])
        answers = [np.asarray(mechanism.release(one, DRAWS, rng).answers) for one in aggregates]
        right = [self.task.labels.index(label) for label in self.truth]
        return [float(np.mean(a == label)) for a, label in zip(answers, right, strict=True)]

    def _rouges(
        self,
        mechanism: Mechanism,
        aggregates: Sequence[Aggregate],
        context: RecipeContext,
        metric: Metric,
    ) -> list[float]:
        rng, model = np.random.default_rng([self.seed, 3]), context.model()
        texts = [
            mechanism.decode(self.task, job.query, mechanism.release(one, 1, rng), model)[0]
            for job, one in zip(self.jobs, aggregates, strict=True)
        ]
        scores = [rouge(truth, text) for truth, text in zip(self.truth, texts, strict=True)]
        return [score[metric].f1 for score in scores]


def repeats_of(
    context: RecipeContext, shots: int, free: bool = False, sentences: int = 1
) -> Iterator[Repetition]:
    """Contexts with queries about other rows.

    For each repeat, the bundled help desk draws a new routing of topics to queues, so only the
    context knows it. Its free-text task is to complete a sentence that examples hold.
    """
    first = context.seed * context.scale.repeats
    queries = context.scale.queries
    for seed in range(first, first + context.scale.repeats):
        if context.source:
            rows, task = context.rows({"seed": seed})
            yield _draw(rows, task, seed, shots, queries, free)
        elif free:
            yield _sentences(seed, shots, queries, sentences)
        else:
            rows = help_desk(max(BUNDLED_ROWS, shots + queries), np.random.default_rng([seed, 7]))
            yield _draw(rows, HELP_DESK, seed, shots, queries, False)


def _draw(rows: Context, task: Task, seed: int, shots: int, queries: int, free: bool) -> Repetition:
    _check_rows(len(rows), task, shots, queries, free)
    chosen = np.random.default_rng([seed, shots]).choice(len(rows), shots + queries, replace=False)
    context, asked = tuple(rows[i] for i in chosen[:shots]), [rows[i] for i in chosen[shots:]]
    jobs = [Job(context, Query(row.input)) for row in asked]
    return Repetition(task, jobs, [row.label for row in asked], seed)


def _check_rows(rows: int, task: Task, shots: int, queries: int, free: bool) -> None:
    if free == bool(task.labels):
        kind = (
            "texts for answers, such as --task samsum" if free else "labels, such as --task agnews"
        )
        raise DataError(
            f"this recipe needs rows with {kind}; choose others with --task, --data or --data-dir."
        )
    if shots + queries > rows:
        raise DataError(
            f"{shots} examples and {queries} queries need {shots + queries} rows, and the data "
            f"has {rows}; use fewer --queries."
        )


def _sentences(seed: int, shots: int, queries: int, different: int) -> Repetition:
    """Contexts whose examples hold one of so many sentences. The query is the first half of one."""
    rng, jobs, truth = np.random.default_rng([seed, 11]), [], []
    for _ in range(queries):
        words, *others = (
            message(str(rng.choice(list(TOPICS))), rng).split() for _ in range(different)
        )
        names = rng.choice(1000 + shots, shots, replace=False)
        held = [words, *others]
        drawn = rng.integers(different, size=shots) if others else [0] * shots
        context = tuple(
            Example(f"{' '.join(held[which])} {name}", QUEUES[i % 2])
            for i, (which, name) in enumerate(zip(drawn, names, strict=True))
        )
        half = len(words) // 2
        jobs.append(Job(context, Query(REPEAT.format(prefix=" ".join(words[:half])), free=True)))
        truth.append(" ".join(words[half:]))
    return Repetition(HELP_DESK, jobs, truth, seed)


def utility(
    context: RecipeContext, shots: int, groups: Sequence[NoiseGroup], metric: Metric = "accuracy",
    sentences: int = 1,
) -> list[MeasuredValue]:  # fmt: skip
    """The mean utility of each setting over repeats."""
    if metric != "accuracy":
        rouge("", "")  # raises if its package is missing
    found: dict[str, list[list[float]]] = {}
    shared = True  # whether the queries of a repeat ask one context
    ceilings: dict[str, float] = {}
    for at, repeat in enumerate(repeats_of(context, shots, metric != "accuracy", sentences), 1):
        shared = repeat.shared
        for group in groups:
            number = f"repeat {at} of {context.scale.repeats}"
            context.report(f"{group.collector.name}, {shots} examples, {number}")
            aggregates = repeat.collect(group.collector, context)
            for setting, mechanism in group.settings.items():
                values = repeat.values(mechanism, aggregates, context, metric)
                found.setdefault(setting, []).append(values)
                if metric == "accuracy" and setting not in ceilings:
                    ceilings[setting] = _unanimous(mechanism, aggregates[0])
    quantity = QUANTITIES[metric]
    return [
        _utility(setting, quantity, values, shots, ceilings.get(setting, 100.0), shared)
        for setting, values in found.items()
    ]


def _unanimous(mechanism: Mechanism, aggregate: Aggregate) -> float:
    """Percent of correct outputs if all votes are correct, which bounds every accuracy."""
    if not isinstance(aggregate, Votes):
        return 100.0
    counts = (sum(aggregate.counts), *(0 for _ in aggregate.counts[1:]))
    outputs = mechanism.release(Votes(counts), 10 * DRAWS, np.random.default_rng(0))
    return 100 * float(np.mean(np.asarray(outputs.answers) == 0))


def _utility(
    setting: str, quantity: str, values: Sequence[Sequence[float]], shots: int, ceiling: float,
    shared: bool,
) -> MeasuredValue:  # fmt: skip
    """The mean over repeats, with the queries as its sample."""
    every = tuple(value for repeat in values for value in repeat)
    drawn = f"queries of {len(values)} contexts of {shots} examples"
    shown = mean_with_error(setting, quantity, [float(np.mean(repeat)) for repeat in values])
    contexts = tuple(i for i, repeat in enumerate(values) for _ in repeat) if shared else ()
    sample = Sample(every, "query", drawn, ceiling=ceiling, contexts=contexts)
    return replace(shown, sample=sample, ceiling=ceiling)


def mean_with_error(setting: str, quantity: str, values: Sequence[float]) -> MeasuredValue:
    mean = float(np.mean(values))
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else None
    shown = f"{mean:.1f}" + ("" if error is None else f" ± {error:.1f}")
    sample = Sample(tuple(values), "re-run", f"{len(values)} re-runs")
    return MeasuredValue(setting, quantity, mean, shown, sample)
