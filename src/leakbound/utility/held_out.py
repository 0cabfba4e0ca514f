"""Utility: how often, or how nearly, a mechanism's answer to a held-out query is right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from leakbound.errors import DataError
from leakbound.models import Distinct, Model
from leakbound.tasks import Aggregate, Context, Job, Mechanism, Query, Task
from leakbound.utility.rouge import rouge

UtilityKind = Literal["accuracy", "rougeL"]
DRAWS = 400  # outputs per query: the noise of an accuracy stays below that of 100 queries


@dataclass(frozen=True, slots=True, repr=False)
class HeldOut:
    """One context and queries about rows outside it, with their right answers (PRIVATE).

    Attributes:
        task: The task.
        jobs: The context with each query.
        truth: The right answer to each query.
        draws: Names of the random draws of each query.
    """

    task: Task
    jobs: tuple[Job, ...]
    truth: tuple[str, ...]
    draws: tuple[int, ...]

    def __repr__(self) -> str:
        return f"HeldOut({len(self.jobs)} queries, <private>)"

    @property
    def kind(self) -> UtilityKind:
        """Accuracy where answers are labels, else ROUGE-L."""
        return "accuracy" if self.task.labels else "rougeL"

    def check(self, mechanism: Mechanism, model: Model) -> None:
        """Refuse, before any call, what mechanism or opened model refuse of these queries."""
        for job, draw in zip(self.jobs, self.draws, strict=True):
            model.check(mechanism.requests(self.task, job, draw))

    def collect(self, mechanism: Mechanism, model: Model) -> list[Aggregate]:
        """The slow side: aggregates before noise (PRIVATE), in the order of the queries; equal
        requests are sent once.
        """
        return mechanism.collect(self.task, self.jobs, self.draws, Distinct(model))

    def value(
        self, mechanism: Mechanism, aggregate: Sequence[Aggregate], model: Model,
        rng: np.random.Generator,
    ) -> float:  # fmt: skip
        """`accuracy` where answers are labels, else `rouge`: a number in [0, 1]."""
        if self.task.labels:
            return self.accuracy(mechanism, aggregate, rng)
        return self.rouge(mechanism, aggregate, model, rng)

    def accuracy(
        self, mechanism: Mechanism, aggregate: Sequence[Aggregate], rng: np.random.Generator
    ) -> float:
        """Expected share of right answers, in [0, 1], over 400 outputs per query."""
        said = [mechanism.release(one, DRAWS, rng).answers for one in aggregate]
        right = [self.task.labels.index(label) for label in self.truth]
        return float(np.mean(np.array(said) == np.array(right)[:, None]))

    def rouge(
        self, mechanism: Mechanism, aggregate: Sequence[Aggregate], model: Model,
        rng: np.random.Generator,
    ) -> float:  # fmt: skip
        """Mean ROUGE-L F1, in [0, 1], of one released text per query; the model may decode it."""
        texts = [
            mechanism.decode(self.task, job.query, mechanism.release(one, 1, rng), model)[0]
            for job, one in zip(self.jobs, aggregate, strict=True)
        ]
        each = zip(self.truth, texts, strict=True)
        return float(np.mean([rouge(true, text)["rougeL"].f1 for true, text in each]))


def draw_held_out(
    rows: Context, task: Task, shots: int, queries: int, rng: np.random.Generator
) -> HeldOut:
    """Draw a context of all rows (PRIVATE), and rows outside of it whose inputs are the queries.

    Raises:
        DataError: If there are too few rows.
    """
    if shots + queries > len(rows):
        raise DataError(
            f"{shots} examples and {queries} held-out queries need {shots + queries} rows, and "
            f"the data has {len(rows)}; use fewer queries (--queries) or more data."
        )
    chosen = [rows[i] for i in rng.choice(len(rows), shots + queries, replace=False)]
    context, held = tuple(chosen[:shots]), chosen[shots:]
    draws = tuple(int(draw) for draw in rng.integers(1 << 31, size=queries))
    jobs = tuple(Job(context, Query(row.input)) for row in held)
    return HeldOut(task, jobs, tuple(row.label for row in held), draws)
