"""Utility against epsilon: every mechanism on the bundled help desk, and on a file of real rows if
one is given.

J is the number of examples in a context, one for each expert or partition. For every J and repeat
(a fresh context and fresh queries), the model is called once; every epsilon is then computed from
the stored aggregates. A cell is the mean over repeats of the expected accuracy (averaged over many
outputs), with the standard error over repeats. Epsilon is the true guarantee of one answer at
delta = 1e-5 under replace_one, except for `subsample_average`, whose guarantee is under add_remove.
The zero-shot baseline is the answer without examples. The non-private upper bound is few_shot, the
answer with all of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from leakbound.attacks.templates import REPEAT
from leakbound.mechanisms import (
    BoundedCID,
    EmbeddingMean,
    FewShot,
    KeywordMean,
    ProductOfExperts,
    ReportNoisyMax,
    SubsampleAverage,
    SyntheticShots,
    ZeroShot,
)
from leakbound.mechanisms.exponential import clipped_log_probabilities
from leakbound.models import Model, ScoreLabels, open_model
from leakbound.tasks import Context, Example, Job, Query, Task
from leakbound.tasks.datasets import infer_task, read_rows
from leakbound.tasks.synthetic import HELP_DESK, help_desk
from leakbound.utility import HeldOut

DELTA, EPSILONS = 1e-5, (1.0, 2.0, 4.0, 8.0)
Make = Callable[[float, int], Any]
ONCE: dict[str, Make] = {  # one collection serves every epsilon
    "report_noisy_max": lambda e, j: ReportNoisyMax.calibrated(e, DELTA, j),
    "embedding_mean": lambda e, j: EmbeddingMean.calibrated(e, DELTA, j),
    "keyword_mean": lambda e, j: KeywordMean.calibrated(e, DELTA, j),
    "product_of_experts": lambda e, j: ProductOfExperts(e),
    "bounded_cid": lambda e, j: BoundedCID(epsilon=e),
}
EACH: dict[str, Make] = {  # the noise is part of the collection, or its size decides it
    "synthetic_shots": lambda e, j: SyntheticShots.calibrated(e, DELTA, j),
}


@dataclass
class Cell:
    """Accuracies of the repeats."""

    values: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        mean = 100 * np.mean(self.values)
        error = (
            100 * np.std(self.values, ddof=1) / np.sqrt(len(self.values))
            if len(self.values) > 1
            else float("nan")
        )
        return f"{mean:.1f} ± {error:.1f}"


@dataclass(frozen=True)
class Round:
    """One context and the queries asked of it, with their true labels."""

    test: HeldOut
    seed: int

    def accuracy(self, mechanism: Any, aggregate: Sequence[Any]) -> float:
        return self.test.accuracy(mechanism, aggregate, np.random.default_rng([self.seed, 1]))

    def first(self, queries: int) -> Round:
        """Fewer queries, for what writes a whole context anew for each."""
        test = self.test
        return replace(
            self,
            test=HeldOut(
                test.task, test.jobs[:queries], test.truth[:queries], test.draws[:queries]
            ),
        )

    def collect(self, mechanism: Any, model: Model) -> list[Any]:
        return self.test.collect(mechanism, model)


def round_of(
    task: Task, pool: Context, tests: Context, shots: int, queries: int, seed: int
) -> Round:
    rng = np.random.default_rng([seed, shots])
    context = tuple(pool[i] for i in rng.choice(len(pool), shots, replace=False))
    asked = [tests[i] for i in rng.choice(len(tests), queries, replace=False)]
    jobs = tuple(Job(context, Query(row.input)) for row in asked)
    draws = tuple(1_000_003 * seed + i for i in range(queries))
    return Round(HeldOut(task, jobs, tuple(row.label for row in asked), draws), seed)


def synthetic(seed: int, shots: int, queries: int) -> Round:
    """Each repeat draws its own routing of topics to queues, so only the context knows it."""
    rows = help_desk(300, np.random.default_rng([seed, 7]))
    return round_of(HELP_DESK, rows[:200], rows[200:], shots, queries, seed)


def real(train: Path) -> Callable[[int, int, int], Round]:
    pool, tests = (
        read_rows(str(file), None, None) for file in (train, train.with_name("test.jsonl"))
    )
    task = infer_task(pool, None)
    return lambda seed, shots, queries: round_of(task, pool, tests, shots, queries, seed)


def one_round(
    found: dict[tuple[str, float], Cell], turn: Round, shots: int, model: Model, slow: bool
) -> None:
    def note(name: str, epsilon: float, value: float) -> None:
        found.setdefault((name, epsilon), Cell()).values.append(value)

    for name, mechanism in (("zero_shot", ZeroShot()), ("few_shot", FewShot())):
        note(name, np.inf, turn.accuracy(mechanism, turn.collect(mechanism, model)))
    for name, make in ONCE.items():
        aggregate = turn.collect(make(1.0, shots), model)
        for epsilon in EPSILONS:
            note(name, epsilon, turn.accuracy(make(epsilon, shots), aggregate))
        if name in ("report_noisy_max", "product_of_experts"):
            exact = replace(
                make(1.0, shots),
                **({"sigma": 1e-6} if name == "report_noisy_max" else {"epsilon": 1e6}),
            )
            note(name, np.inf, turn.accuracy(exact, aggregate))
    if slow:
        for epsilon in EPSILONS:
            for name, make in EACH.items():
                mechanism, few = make(epsilon, shots), turn.first(10)
                note(name, epsilon, few.accuracy(mechanism, few.collect(mechanism, model)))
        aggregate = turn.collect(SubsampleAverage(1.0), model)
        for epsilon in EPSILONS:
            note("subsample_average", epsilon, turn.accuracy(subsampled(epsilon), aggregate))


KNOWN: dict[float, SubsampleAverage] = {}


def subsampled(epsilon: float) -> SubsampleAverage:
    """Its noise takes seconds to calibrate."""
    if epsilon not in KNOWN:
        KNOWN[epsilon] = SubsampleAverage.calibrated(epsilon, DELTA)
    return KNOWN[epsilon]


def table(
    found: dict[tuple[str, float], Cell], shots: int, epsilons: tuple[float, ...] = EPSILONS
) -> str:
    names = list(dict.fromkeys(name for name, _ in found))
    columns = (*epsilons, np.inf)
    lines = [
        f"| J = {shots} | "
        + " | ".join("no noise" if e == np.inf else f"ε = {e:g}" for e in columns)
        + " |"
    ]
    lines.append("| --- " * (len(columns) + 1) + "|")
    for name in names:
        lines.append(
            f"| {name} | " + " | ".join(str(found.get((name, e), "")) for e in columns) + " |"
        )
    return "\n".join(lines)


def hard_or_soft(rounds: Sequence[Round], model: Model) -> str:
    """One expert's probabilities p, made hard (1 at its largest) or soft (clipped at e^-2,
    normalised): which stays nearer to p?
    """
    rows = []
    for turn in rounds:
        test = turn.test
        requests = [
            ScoreLabels(test.task.prompt(job.context[:1], job.query), test.task.labels)
            for job in test.jobs
        ]
        p = np.exp(clipped_log_probabilities(np.stack(model.answer(requests)), 1e9))
        hard = np.eye(p.shape[1])[p.argmax(1)]
        soft = np.exp(clipped_log_probabilities(np.stack(model.answer(requests)), 2.0))
        soft /= soft.sum(1, keepdims=True)
        at = np.arange(len(p)), np.array([test.task.labels.index(label) for label in test.truth])
        rows.append(
            [
                (hard[at]).mean(),
                (soft[at]).mean(),
                p[at].mean(),
                abs(p - hard).max(1).mean(),
                abs(p - soft).max(1).mean(),
            ]
        )
    h, s, own, far_h, far_s = 100 * np.mean(rows, 0)
    return (
        f"mean predictive likelihood of the true label: hard {h:.1f} %, soft {s:.1f} %, the "
        f"expert's own {own:.1f} %; "
        f"mean largest change of a probability: hard {far_h:.1f} %, soft {far_s:.1f} %"
    )


NOTES = Task("notes", ("a", "b"), max_answer_tokens=12)
GENERATION: dict[str, Make] = {
    "embedding_mean": ONCE["embedding_mean"],
    "keyword_mean": lambda e, j: KeywordMean.calibrated(e, DELTA, j, per_answer=4, top=4),
    "product_of_experts": lambda e, j: ProductOfExperts.calibrated(e, DELTA, tokens=10),
    "bounded_cid": lambda e, j: BoundedCID.calibrated(e, DELTA, tokens=10),
    "synthetic_shots": EACH["synthetic_shots"],
}
RULES = (
    "Edith measured a feather during the war", "The green salad chased the old owl",
    "Nora praised the forest under the bridge", "Every pocket remembered our golden tiger",
    "Walter admired the marble at the market", "Our singer lost a northern whistle today",
)  # fmt: skip


def generation(repeats: int, shots: int, model: Model) -> str:
    """ROUGE-L (F) of the end of a sentence that all examples share, asked for by its beginning."""
    from rouge_score.rouge_scorer import RougeScorer

    scorer, found = RougeScorer(["rougeL"]), dict[tuple[str, float], Cell]()
    for seed in range(repeats):
        rng = np.random.default_rng([seed, 11])
        jobs, truth = [], []
        for rule in RULES:
            words, names = rule.split(), rng.choice(1000, shots, replace=False)
            context = tuple(Example(f"{rule} {name}", "ab"[i % 2]) for i, name in enumerate(names))
            query = Query(REPEAT.format(prefix=" ".join(words[: len(words) // 2])), free=True)
            jobs.append(Job(context, query))
            truth.append(" ".join(words[len(words) // 2 :]))
        systems = [("zero_shot", np.inf, ZeroShot()), ("few_shot", np.inf, FewShot())]
        systems += [
            ("product_of_experts", np.inf, ProductOfExperts(1e6, tokens=10, token_epsilon=1e6))
        ]
        systems += [("bounded_cid", np.inf, BoundedCID(1.0, 10, 1e6))]
        systems += [
            (name, e, make(e, shots))
            for name, make in GENERATION.items()
            for e in (*EPSILONS, 32.0)
        ]
        for name, epsilon, mechanism in systems:
            texts = spoken(mechanism, jobs, seed, model)
            scores = [
                scorer.score(t, text)["rougeL"].fmeasure
                for t, text in zip(truth, texts, strict=True)
            ]
            found.setdefault((name, epsilon), Cell()).values.append(float(np.mean(scores)))
    return table(found, shots, (*EPSILONS, 32.0))


def spoken(mechanism: Any, jobs: list[Job], seed: int, model: Model) -> list[str]:
    """One output text for each job."""
    rng, draws = np.random.default_rng([seed, 3]), [1_000_003 * seed + i for i in range(len(jobs))]
    aggregate = mechanism.collect(NOTES, jobs, draws, model)
    return [
        mechanism.decode(NOTES, job.query, mechanism.release(c, 1, rng), model)[0]
        for job, c in zip(jobs, aggregate, strict=True)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data", type=Path, help="train.jsonl of real rows, with test.jsonl beside it"
    )
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--queries", type=int, default=40)
    parser.add_argument("--experts", type=int, nargs="+", default=[4, 8, 20])
    parser.add_argument("--write", type=Path, help="also write the tables to this Markdown file")
    parser.add_argument(
        "--fast", action="store_true", help="leave out synthetic_shots and subsample_average"
    )
    given = parser.parse_args()
    model, make = open_model("pocket"), real(given.data) if given.data else synthetic
    parts = [
        f"Accuracy in %, {given.repeats} repeats of {given.queries} queries, pocket model, ± "
        "standard error over repeats."
    ]
    for shots in given.experts:
        found: dict[tuple[str, float], Cell] = {}
        rounds = [make(seed, shots, given.queries) for seed in range(given.repeats)]
        for turn in rounds:
            one_round(found, turn, shots, model, not given.fast)
        parts.append(table(found, shots))
        print(parts[-1], flush=True)
    parts.append(f"Hard or soft, one expert: {hard_or_soft(rounds, model)}.")
    print(parts[0], parts[-1], sep="\n")
    if not given.data:
        parts.append(
            "ROUGE-L (F, times 100) of free replies, 4 repeats of 6 queries, J = 8; the whole "
            "answer costs epsilon."
        )
        parts.append(generation(4, 8, model))
        print(*parts[-2:], sep="\n")
    if given.write:
        given.write.write_text("\n\n".join((__doc__ or "", *parts)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
