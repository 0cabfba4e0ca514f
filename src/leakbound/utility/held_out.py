"""How often, or how nearly, a mechanism's released answer to a held-out query is the right one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from leakbound.errors import DataError
from leakbound.models import Distinct, Model
from leakbound.tasks import Aggregate, Context, Job, Mechanism, Query, Task
from leakbound.utility.rouge import rouge

__all__ = ["HeldOut", "Kind", "held_out"]

Kind = Literal["accuracy", "rougeL"]
DRAWS = 400


@dataclass(frozen=True, slots=True, repr=False)
class HeldOut:
    """One context and queries about rows that it does not hold, with their right answers (PRIVATE)."""

    task: Task
    jobs: tuple[Job, ...]
    truth: tuple[str, ...]
    draws: tuple[int, ...]

    def __repr__(self) -> str:
        return f"HeldOut({len(self.jobs)} queries, <private>)"

    @property
    def kind(self) -> Kind:
        """Accuracy where answers are labels, else ROUGE-L."""
        return "accuracy" if self.task.labels else "rougeL"

    def check(self, mechanism: Mechanism, model: Model) -> None:
        """Raises, before any call, what model or mechanism refuse of these queries."""
        for job, draw in zip(self.jobs, self.draws, strict=True):
            model.check(mechanism.requests(self.task, job, draw))

    def collect(self, mechanism: Mechanism, model: Model) -> list[Aggregate]:
        """The slow side: one aggregate a query (PRIVATE), equal asks once."""
        return mechanism.collect(self.task, self.jobs, self.draws, Distinct(model))

    def value(
        self,
        mechanism: Mechanism,
        aggregate: Sequence[Aggregate],
        model: Model,
        rng: np.random.Generator,
    ) -> float:
        """In [0, 1]: `accuracy` where answers are labels, else `rouge`."""
        return (
            self.accuracy(mechanism, aggregate, rng)
            if self.task.labels
            else self.rouge(mechanism, aggregate, model, rng)
        )

    def accuracy(
        self, mechanism: Mechanism, aggregate: Sequence[Aggregate], rng: np.random.Generator
    ) -> float:
        """Expected share of right answers over 400 releases a query."""
        hits = [
            (
                np.asarray(mechanism.release(one, DRAWS, rng).answers)
                == self.task.labels.index(label)
            ).mean()
            for one, label in zip(aggregate, self.truth, strict=True)
        ]
        return float(np.mean(hits))

    def rouge(
        self,
        mechanism: Mechanism,
        aggregate: Sequence[Aggregate],
        model: Model,
        rng: np.random.Generator,
    ) -> float:
        """Mean ROUGE-L F1 of one released text a query."""
        texts = [
            mechanism.decode(self.task, job.query, mechanism.release(one, 1, rng), model)[0]
            for job, one in zip(self.jobs, aggregate, strict=True)
        ]
        return float(
            np.mean(
                [rouge(t, text)["rougeL"].f1 for t, text in zip(self.truth, texts, strict=True)]
            )
        )


def held_out(
    rows: Context, task: Task, shots: int, queries: int, rng: np.random.Generator
) -> HeldOut:
    """A context of `shots` rows and as many other rows as queries.

    Raises DataError where there are too few.
    """
    if shots + queries > len(rows):
        raise DataError(
            f"{shots} examples and {queries} held-out queries need {shots + queries} rows, and "
            f"the data has {len(rows)}; use fewer "
            "queries (--utility) or more data."
        )
    chosen = [rows[i] for i in rng.choice(len(rows), shots + queries, replace=False)]
    context, asked = tuple(chosen[:shots]), chosen[shots:]
    draws = tuple(int(draw) for draw in rng.integers(1 << 31, size=queries))
    jobs = tuple(Job(context, Query(row.input)) for row in asked)
    return HeldOut(task, jobs, tuple(row.label for row in asked), draws)
