"""SyntheticShots: private synthetic examples, generated token by token, then an ordinary answer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from leakbound._check import positive, whole
from leakbound.mechanisms.parts.base import CalibratedMechanism, GaussianCalibration, PublicFacts
from leakbound.mechanisms.parts.single import answer_tokens, as_aggregate, release_unchanged
from leakbound.mechanisms.parts.tokens import TokenDecoder, log_softmax, public_tokens
from leakbound.mechanisms.parts.total_calls import answer_total
from leakbound.models import Complete, Model, NextLogits
from leakbound.models.content import Content, text_only
from leakbound.privacy import Gaussian, Guarantee, calibrate_gaussian, compose
from leakbound.tasks import (
    Access,
    Aggregate,
    AnyRequest,
    CategoricalLaw,
    Context,
    Example,
    Job,
    Outputs,
    Query,
    RequestKinds,
    Task,
    present,
)
from leakbound.tasks.mechanism import Exactness
from leakbound.tasks.partition import split_by_position


@dataclass(frozen=True, slots=True)
class SyntheticShots(CalibratedMechanism):
    """Generates `shots` synthetic inputs for each label, by noisy votes of M disjoint prompts.

    A prompt shows the examples of one label in one partition (by position in the context; there may
    be none) and asks for another example. The M probability vectors over the most likely tokens of
    a prompt without examples are averaged, and Gaussian noise is added. The token with the largest
    value is written. The query is then answered from the synthetic examples. If the call of a
    partition fails, all its candidates are equally likely. Every answer generates its own synthetic
    examples and pays for them. Private: context, votes. Public: labels, query, candidate tokens, M,
    sigma.

    Attributes:
        sigma: Standard deviation of the noise on each mean probability.
        partitions: M, the number of disjoint parts of the context.
        shots: Number of synthetic examples for each label.
        tokens: Largest number of tokens of a synthetic input.
        candidates: Number of public candidate tokens.

    Guarantee:
        sqrt(2 shots tokens) sqrt(2)/(M sigma)-GDP under replace_one, for any number of answers from
        one set of synthetic examples. A vote changes by sqrt(2)/M in L2. Replacing an example,
        including its label, changes one prompt for each of two labels, so 2 shots tokens votes
        count. In a task without labels, half as many votes change.

    Reference:
        Tang et al., "Privacy-preserving in-context learning with differentially private few-shot
        generation" (ICLR 2024). Proof: docs/mechanisms/synthetic_shots.md.
    """

    name: ClassVar[str] = "synthetic_shots"
    access: ClassVar[frozenset[Access]] = frozenset({"black_box"})
    needs: ClassVar[RequestKinds] = frozenset({Complete, NextLogits})
    exactness: ClassVar[Exactness] = "none"
    sigma: float
    partitions: int = 10
    shots: int = 1
    tokens: int = 8
    candidates: int = 50

    def __post_init__(self) -> None:
        positive("sigma", self.sigma)
        for name in ("partitions", "shots", "tokens", "candidates"):
            whole(name, getattr(self, name))

    @classmethod
    def calibrated(
        cls,
        epsilon: float,
        delta: float,
        partitions: int = 10,
        calibration: GaussianCalibration = "analytic",
        shots: int = 1,
        tokens: int = 8,
        candidates: int = 50,
    ) -> Self:
        """The mechanism with the noise that a claim requires for a whole set of synthetic examples.

        Args:
            calibration: "analytic" is exact; "classical" does not satisfy every claim above
                epsilon 1.
        """
        made = cls(1.0, partitions, shots, tokens, candidates)
        sensitivity = made.guarantee.sensitivity
        return replace(made, sigma=calibrate_gaussian(epsilon, delta, sensitivity, calibration))

    @classmethod
    def group_options(cls, facts: PublicFacts, given: Mapping[str, Any]) -> dict[str, Any]:
        """Partitions that show two examples of each label, or four without labels."""
        return {"partitions": facts.partitions(2 * facts.labels or facts.least)}

    @property
    def guarantee(self) -> Gaussian:
        """Composition of all votes that one example can change."""
        return Gaussian(math.sqrt(self._votes) * math.sqrt(2) / self.partitions, self.sigma)

    @property
    def _votes(self) -> int:
        return 2 * self.shots * self.tokens

    def cost(self, task: Task, query: Query) -> Guarantee:
        """`guarantee` as a composition, with one part for each vote."""
        return compose([Gaussian(math.sqrt(2) / self.partitions, self.sigma)] * self._votes)

    def voters(self, shots: int) -> int:
        """One probability vector for each partition."""
        return self.partitions

    def noise_in_collect(self, task: Task, query: Query) -> bool:
        """True: synthetic examples are generated while collecting."""
        return True

    def requests(self, task: Task, job: Job, draw: int) -> list[AnyRequest]:
        """Requests for the first token of every label, with room for a whole synthetic input, and
        of those without examples also for the prompt of the answer."""
        final = self._room(task, job.query)
        found: list[AnyRequest] = []
        for label in task.labels or ("",):
            public, *private = self._prompts(task, job.context, label)
            found.append(NextLogits(public, (), max(self.tokens, final), alone=True))
            found += [NextLogits(prompt, (), self.tokens, alone=True) for prompt in private]
        return found

    def _room(self, task: Task, query: Query) -> int:
        """Bound on the tokens of synthetic examples, query and answer: one for each public byte."""
        frames = [_bytes(task.block(Example("", label))) for label in task.labels or ("",)]
        examples = self.shots * sum(size + self.tokens for size in frames)
        return examples + _bytes(task.open_block(query.text)) + answer_tokens(task, query)

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        """Generate the synthetic examples of each job, then answer from them in one batch."""
        made = [
            self._write_all(task, job.context, draw, model)
            for job, draw in zip(jobs, draws, strict=True)
        ]
        requests = []
        for rows, job, draw in zip(made, jobs, draws, strict=True):
            prompt, length = task.prompt(rows, job.query), answer_tokens(task, job.query)
            requests.append([Complete(prompt, max_tokens=length, draw=draw)])
        replies = answer_total(model, task, jobs, requests)
        return [
            as_aggregate(task, job.query, text) for job, (text,) in zip(jobs, replies, strict=True)
        ]

    def _write_all(self, task: Task, context: Context, draw: int, model: Model) -> Context:
        rng = np.random.default_rng(draw)
        return tuple(
            Example(self._write(self._prompts(task, context, label), rng, model), label)
            for _ in range(self.shots)
            for label in (task.labels or ("",))
        )

    def _prompts(self, task: Task, context: Context, label: str) -> list[str]:
        """The prompt without examples, then that of each partition."""
        parts = split_by_position(context, self.partitions)
        return [_prompt(task, part, label) for part in ((), *parts)]

    def _write(self, prompts: Sequence[str], rng: np.random.Generator, model: Model) -> str:
        decoder = TokenDecoder(model, prompts)
        for _ in range(self.tokens):
            public, *private = decoder.logits()
            tokens = public_tokens(public, self.candidates)
            votes = np.exp(log_softmax(np.stack(private)[:, tokens])).mean(0)
            decoder.add(int(tokens[(votes + rng.normal(0.0, self.sigma, votes.size)).argmax()]))
            if decoder.ended:
                break
        return decoder.text

    def release(self, aggregate: Aggregate, draws: int, rng: np.random.Generator) -> Outputs:
        return release_unchanged(aggregate, draws)

    def output_distribution(self, aggregate: Aggregate) -> CategoricalLaw | None:
        """None: the noise was drawn while collecting."""
        return None


def _bytes(text: Content) -> int:
    return len(text_only(text, "synthetic_shots").encode())


def _prompt(task: Task, part: Context, label: str) -> str:
    """A prompt that shows inputs of one label and leaves the next one open."""
    rows = [row for row in present(part) if row.label == label or not label]
    head = f"{task.label_name}: {label}\n" if label else ""
    blocks = "".join(
        f"{head}{task.input_name}: {text_only(row.input, 'synthetic_shots')}\n\n" for row in rows
    )
    return f"{task.head()}{blocks}{head}{task.input_name}:"
