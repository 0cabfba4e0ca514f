"""Utility: how often, or how nearly, a mechanism's released answer is the right one, over contexts
drawn anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from leakbound.attacks.templates import REPEAT
from leakbound.errors import DataError
from leakbound.reproduce.context import RecipeContext
from leakbound.reproduce.recipe import Measured
from leakbound.tasks import Context, Example, Job, Query, Task
from leakbound.tasks.synthetic import HELP_DESK, QUEUES, TOPICS, help_desk, message
from leakbound.utility import rouge

__all__ = ["ACCURACY", "ROUGE_1", "ROUGE_L", "Round", "rounds", "spread", "utility"]

Kind = Literal["accuracy", "rouge1", "rougeL"]
ACCURACY, ROUGE_1, ROUGE_L = "accuracy, %", "ROUGE-1 F1, %", "ROUGE-L F1, %"
WORDS: dict[Kind, str] = {"accuracy": ACCURACY, "rouge1": ROUGE_1, "rougeL": ROUGE_L}
DRAWS = 400
BUNDLED_ROWS = 300
Families = Sequence[tuple[Any, Mapping[str, Any]]]


@dataclass(frozen=True)
class Round:
    """Some contexts (PRIVATE) and a query of each, with their right answers."""

    task: Task
    jobs: list[Job]
    truth: list[str]
    seed: int

    def collect(self, mechanism: Any, lab: RecipeContext) -> list[Any]:
        """The slow side: one aggregate a query."""
        draws = [1_000_003 * self.seed + i for i in range(len(self.jobs))]
        return list(mechanism.collect(self.task, self.jobs, draws, lab.model()))

    def value(
        self, mechanism: Any, aggregate: Sequence[Any], lab: RecipeContext, kind: Kind
    ) -> float:
        """In percent: the expected accuracy over many releases, or the mean ROUGE of one released
        text a query.
        """
        if kind == "accuracy":
            return 100 * self._accuracy(mechanism, aggregate)
        return 100 * self._rouge(mechanism, aggregate, lab, kind)

    def _accuracy(self, mechanism: Any, aggregate: Sequence[Any]) -> float:
        rng = np.random.default_rng([self.seed, 1])
        hits = [np.asarray(mechanism.release(c, DRAWS, rng).answers) == self.task.labels.index(label)
                for c, label in zip(aggregate, self.truth, strict=True)]  # fmt: skip
        return float(np.mean(hits))

    def _rouge(
        self, mechanism: Any, aggregate: Sequence[Any], lab: RecipeContext, kind: str
    ) -> float:
        rng = np.random.default_rng([self.seed, 3])
        texts = [mechanism.decode(self.task, job.query, mechanism.release(c, 1, rng), lab.model())[0]
                 for job, c in zip(self.jobs, aggregate, strict=True)]  # fmt: skip
        return float(
            np.mean([rouge(t, text)[kind].f1 for t, text in zip(self.truth, texts, strict=True)])
        )


def rounds(lab: RecipeContext, shots: int, free: bool = False) -> Iterator[Round]:
    """One a repeat: a context of `shots` rows and queries about other rows. free: answers are
    texts, not labels.

    The bundled help desk draws its own routing of topics to queues for each repeat, so only the
    context knows it; its free task is
    to end a sentence that every example shares. Raises DataError where the rows are of the other
    kind.
    """
    for seed in range(lab.sizes.repeats):
        if not lab.source:
            yield (_shared if free else _desk)(seed, shots, lab.sizes.queries)
        else:
            yield _drawn(*lab.rows(seed=seed), seed, shots, lab.sizes.queries, free)


def _desk(seed: int, shots: int, queries: int) -> Round:
    rows = help_desk(max(BUNDLED_ROWS, shots + queries), np.random.default_rng([seed, 7]))
    return _drawn(rows, HELP_DESK, seed, shots, queries, False)


def _drawn(rows: Context, task: Task, seed: int, shots: int, queries: int, free: bool) -> Round:
    if free == bool(task.labels):
        kind = (
            "texts for answers, such as --task samsum" if free else "labels, such as --task agnews"
        )
        raise DataError(
            f"this recipe needs rows with {kind}; choose others with --task, --data or --data-dir."
        )
    if shots + queries > len(rows):
        raise DataError(
            f"{shots} examples and {queries} queries need {shots + queries} rows, and the data "
            f"has {len(rows)}; use fewer --queries."
        )
    chosen = np.random.default_rng([seed, shots]).choice(len(rows), shots + queries, replace=False)
    context, asked = tuple(rows[i] for i in chosen[:shots]), [rows[i] for i in chosen[shots:]]
    return Round(
        task, [Job(context, Query(row.input)) for row in asked], [row.label for row in asked], seed
    )


def _shared(seed: int, shots: int, queries: int) -> Round:
    rng, jobs, truth = np.random.default_rng([seed, 11]), [], []
    for _ in range(queries):
        words = message(str(rng.choice(list(TOPICS))), rng).split()
        names = rng.choice(1000 + shots, shots, replace=False)
        context = tuple(
            Example(f"{' '.join(words)} {name}", QUEUES[i % 2]) for i, name in enumerate(names)
        )
        half = len(words) // 2
        jobs.append(Job(context, Query(REPEAT.format(prefix=" ".join(words[:half])), free=True)))
        truth.append(" ".join(words[half:]))
    return Round(HELP_DESK, jobs, truth, seed)


def utility(
    lab: RecipeContext, shots: int, families: Families, kind: Kind = "accuracy"
) -> list[Measured]:
    """Of every mechanism by its setting, the mean over repeats.

    families: who collects, and who releases what was collected.
    """
    if kind != "accuracy":
        rouge("", "")  # refuses, before any answer is asked for, where its package is missing
    found: dict[str, list[float]] = {}
    for turn in rounds(lab, shots, kind != "accuracy"):
        for collector, releasing in families:
            lab.tell(
                f"{collector.name}, {shots} examples, repeat {turn.seed + 1} of {lab.sizes.repeats}"
            )
            aggregate = turn.collect(collector, lab)
            for setting, mechanism in releasing.items():
                found.setdefault(setting, []).append(turn.value(mechanism, aggregate, lab, kind))
    return [spread(setting, WORDS[kind], values) for setting, values in found.items()]


def spread(setting: str, what: str, values: Sequence[float], digits: int = 1) -> Measured:
    """A mean with its standard error over repeats; one repeat has none."""
    mean = float(np.mean(values))
    error = (
        f" ± {np.std(values, ddof=1) / np.sqrt(len(values)):.{digits}f}" if len(values) > 1 else ""
    )
    return Measured(setting, what, mean, f"{mean:.{digits}f}{error}")
