"""SyntheticShots: private synthetic examples, written token by token, then an ordinary answer from
them (Tang et al. 2024).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from leakbound._check import positive
from leakbound.mechanisms.answering import Answering, with_gaussian_noise
from leakbound.mechanisms.single import answer_tokens, as_given, heard
from leakbound.mechanisms.tokens import Speller, log_softmax, public_tokens
from leakbound.models import Complete, Model, NextLogits, Request
from leakbound.models.content import text_only
from leakbound.privacy import Gaussian
from leakbound.tasks import (
    Access,
    Aggregate,
    CategoricalLaw,
    Context,
    Example,
    Job,
    Outputs,
    Query,
    Task,
)
from leakbound.tasks.partition import split_by_position

__all__ = ["SyntheticShots"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SyntheticShots(Answering):
    """For each label, `shots` synthetic inputs of at most `tokens` tokens; each token by a noisy
    vote of M disjoint prompts.

    Inputs: context, votes (PRIVATE); labels, query, candidates, M, sigma (public). A prompt shows
    the examples of one label in one
    partition (by place in the context; none is as good as any) and asks for another; the mean of
    the M probability vectors over the
    `candidates` likeliest tokens of a prompt without examples gets Gaussian noise, the largest is
    written. Sensitivity: sqrt(2)/M a
    token in L2. Replacing an example, label and all, changes one prompt of two labels, so 2 shots
    tokens votes count:
    guarantee sqrt(2 shots tokens) sqrt(2)/(M sigma)-GDP under replace_one, for any number of
    answers from one set of synthetic
    examples (here every answer draws its own and pays for it). A task without labels touches half
    of these votes.
    """

    name: ClassVar[str] = "synthetic_shots"
    access: ClassVar[frozenset[Access]] = frozenset({"black_box"})
    needs: ClassVar[frozenset[type[Request[Any]]]] = frozenset({Complete, NextLogits})
    sigma: float
    partitions: int = 10
    shots: int = 1
    tokens: int = 8
    candidates: int = 50

    def __post_init__(self) -> None:
        for name in ("sigma", "partitions", "shots", "tokens", "candidates"):
            positive(name, getattr(self, name))

    @classmethod
    def calibrated(
        cls, epsilon: float, delta: float, partitions: int = 10, calibration: Literal["analytic", "classical"] = "analytic",
        shots: int = 1, tokens: int = 8, candidates: int = 50,
    ) -> SyntheticShots:  # fmt: skip
        """With the noise that (epsilon, delta) needs for a whole set of synthetic examples."""
        return with_gaussian_noise(
            cls(1.0, partitions, shots, tokens, candidates), epsilon, delta, calibration
        )

    @property
    def guarantee(self) -> Gaussian:
        """All votes that one example can touch, composed."""
        return Gaussian(
            math.sqrt(2 * self.shots * self.tokens) * math.sqrt(2) / self.partitions, self.sigma
        )

    def requests(self, task: Task, job: Job, draw: int) -> list[Request[Any]]:
        """The first tokens of the first label."""
        label = task.labels[0] if task.labels else ""
        parts = split_by_position(job.context, self.partitions)
        return [NextLogits(_writing(task, part, label), ()) for part in ((), *parts)]

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        """Write the synthetic examples of each job from its draw, then answer from them in one
        batch.
        """
        made = [
            self._write_all(task, job.context, draw, model)
            for job, draw in zip(jobs, draws, strict=True)
        ]
        requests = [
            Complete(
                task.prompt(rows, job.query), max_tokens=answer_tokens(task, job.query), draw=draw
            )
            for rows, job, draw in zip(made, jobs, draws, strict=True)
        ]
        return [
            heard(task, job.query, text)
            for job, text in zip(jobs, model.answer(requests), strict=True)
        ]

    def _write_all(self, task: Task, context: Context, draw: int, model: Model) -> Context:
        rng = np.random.default_rng(draw)
        parts = split_by_position(context, self.partitions)
        return tuple(
            Example(self._write(task, parts, label, rng, model), label)
            for _ in range(self.shots)
            for label in (task.labels or ("",))
        )

    def _write(
        self,
        task: Task,
        parts: Sequence[Context],
        label: str,
        rng: np.random.Generator,
        model: Model,
    ) -> str:
        """One synthetic input."""
        speller = Speller(
            model, [_writing(task, (), label), *(_writing(task, part, label) for part in parts)]
        )
        for _ in range(self.tokens):
            public, *private = speller.logits()
            tokens = public_tokens(public, self.candidates)
            votes = np.exp(log_softmax(np.stack(private)[:, tokens])).mean(0)
            speller.add(int(tokens[(votes + rng.normal(0.0, self.sigma, votes.size)).argmax()]))
            if speller.ended:
                break
        return speller.text

    def noise_in_collect(self, task: Task, query: Query) -> bool:
        """Always: synthetic examples are written while collecting."""
        return True

    def release(self, aggregate: Aggregate, draws: int, rng: np.random.Generator) -> Outputs:
        """The answer that was given from the synthetic examples."""
        return as_given(aggregate, draws)

    def output_distribution(self, aggregate: Aggregate) -> CategoricalLaw | None:
        """None: the noise was drawn while writing."""
        return None


def _writing(task: Task, part: Context, label: str) -> str:
    """A prompt that shows inputs of one label and leaves the next one open."""
    rows = [row for row in part if row.label == label or not label]
    head = f"{task.label_name}: {label}\n" if label else ""
    blocks = "".join(
        f"{head}{task.input_name}: {text_only(row.input, 'synthetic_shots')}\n\n" for row in rows
    )
    return f"{task.head()}{blocks}{head}{task.input_name}:"
