"""Utility of free answers: the end of a sentence that all examples share, asked for by its
beginning.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from utility_cells import NO_NOISE, Remembering, Table, columns, grouped

from leakbound.attacks.templates import REPEAT
from leakbound.mechanisms import FewShot, ZeroShot
from leakbound.tasks import Example, Job, Query, Task
from leakbound.utility import rouge

TOKENS = 10  # of an answer; all of them together cost epsilon
NOTES = Task("notes", ("a", "b"), max_answer_tokens=12)
RULES = (
    "Edith measured a feather during the war", "The green salad chased the old owl",
    "Nora praised the forest under the bridge", "Every pocket remembered our golden tiger",
    "Walter admired the marble at the market", "Our singer lost a northern whistle today",
)  # fmt: skip
GENERATORS: dict[str, dict[str, Any]] = {
    "embedding_mean": {},
    "keyword_mean": {"per_answer": 4, "top": 4},
    "product_of_experts": {"tokens": TOKENS},
    "synthetic_shots": {},
    "bounded_cid": {"tokens": TOKENS},
    "invisible_ink": {"tokens": TOKENS},
    "dp_fusion": {"tokens": TOKENS},
}


def questions(seed: int, shots: int) -> tuple[list[Job], list[str]]:
    """A context and a query for each rule, and how the rule ends."""
    rng, jobs, truth = np.random.default_rng([seed, 11]), [], []
    for rule in RULES:
        words, names = rule.split(), rng.choice(1000, shots, replace=False)
        context = tuple(Example(f"{rule} {name}", "ab"[i % 2]) for i, name in enumerate(names))
        prefix = " ".join(words[: len(words) // 2])
        jobs.append(Job(context, Query(REPEAT.format(prefix=prefix), free=True)))
        truth.append(" ".join(words[len(words) // 2 :]))
    return jobs, truth


def released(mechanism: Any, jobs: list[Job], seed: int, model: Remembering) -> list[str]:
    """One output text for each job."""
    rng, draws = np.random.default_rng([seed, 3]), [1_000_003 * seed + i for i in range(len(jobs))]
    aggregates = mechanism.collect(NOTES, jobs, draws, model)
    model.forget()
    return [
        mechanism.decode(NOTES, job.query, mechanism.release(one, 1, rng), model)[0]
        for job, one in zip(jobs, aggregates, strict=True)
    ]


def free_answers(repeats: int, shots: int, model: Remembering, say: Callable[[str], None]) -> Table:
    """ROUGE-L F1 of one output for each query and repeat."""
    table = Table(shots)
    systems: list[tuple[str, float, Any]] = [
        ("zero_shot", NO_NOISE, ZeroShot()),
        ("few_shot", NO_NOISE, FewShot()),
    ]
    for name, options in GENERATORS.items():
        make = partial(_made, name, shots, options)
        systems += [(name, epsilon, mechanism) for epsilon, mechanism in columns(make)]
    for seed in range(repeats):
        jobs, truth = questions(seed, shots)
        for name, epsilon, mechanism in systems:
            texts = released(mechanism, jobs, seed, model)
            scores = [rouge(t, text)["rougeL"].f1 for t, text in zip(truth, texts, strict=True)]
            table.note(name, epsilon, float(np.mean(scores)))
        model.forget(everything=True)
        say(f"free answers, J = {shots}: repeat {seed + 1} of {repeats}")
    return table


def _made(name: str, shots: int, options: dict[str, Any], epsilon: float) -> Any:
    return grouped(name, epsilon, shots, 0, **options)
