"""How much accuracy each mechanism costs: every mechanism against epsilon, on the bundled help desk
or on a file of real rows.

J is the number of examples in a context. Examples are grouped by the public rule that `answer` and
`serve` use, unless a row says otherwise. A cell is the mean over repeats (a fresh context and fresh
queries each) of the chance that the answer is right, with the standard error over repeats. The
chance is computed from the distribution of outputs where that is known, and is a share of 400
outputs elsewhere. Epsilon is the true guarantee of one answer at delta = 1e-5 under replace_one,
except for `subsample_average`, whose guarantee is under add_remove.

"No noise" is the same mechanism with its noise off, or with a bound that nothing reaches. What it
loses against `few_shot` is the price of its form, and the rest is the price of privacy. A mechanism
that samples its answer (`invisible_ink`, `dp_fusion`, `bounded_cid`) still samples there. The
zero-shot baseline is the answer without examples, and `few_shot`, the answer with all of them, is
the non-private upper bound. A cell marked ° is not better than the zero-shot baseline, repeat by
repeat, by two standard errors.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from utility_cells import (
    DELTA,
    EPSILONS,
    NO_NOISE,
    Checkpoint,
    Remembering,
    Table,
    chance,
    columns,
    grouped,
)
from utility_free import free_answers

from leakbound.mechanisms import FewShot, SubsampleAverage, ZeroShot
from leakbound.mechanisms.parts.exponential import clip_log_probabilities
from leakbound.models import Model, ScoreLabels, open_model
from leakbound.tasks import Context, Job, Query, Task
from leakbound.tasks.rows.datasets import infer_task, load_rows
from leakbound.tasks.synthetic import HELP_DESK, help_desk
from leakbound.utility import HeldOut

Make = Callable[[float, int, int], Any]  # of epsilon, J and the number of labels
GOAL_SHARE, GOAL_EPSILON, GOAL_SHOTS = 0.9, 4.0, 20
GOAL_FREE = 8.0  # largest epsilon of a free answer that should beat the zero-shot baseline


def rule(name: str, **options: Any) -> Make:
    return lambda epsilon, shots, labels: grouped(name, epsilon, shots, labels, **options)


def one_each(**options: Any) -> Make:
    """Report noisy max over as many partitions as examples."""
    return lambda epsilon, shots, labels: grouped(
        "report_noisy_max", epsilon, shots, labels, partitions=shots, **options
    )


@functools.cache
def subsampled(epsilon: float) -> SubsampleAverage:
    """Its noise takes seconds to calibrate."""
    return SubsampleAverage.calibrated(epsilon, DELTA)


MECHANISMS: dict[str, Make] = {
    "report_noisy_max": rule("report_noisy_max"),
    "report_noisy_max, prior content_free": rule("report_noisy_max", prior="content_free"),
    "report_noisy_max, 1 example each": one_each(),
    "report_noisy_max, 1 each, prior content_free": one_each(prior="content_free"),
    "embedding_mean": rule("embedding_mean"),
    "keyword_mean": rule("keyword_mean"),
    "product_of_experts": rule("product_of_experts"),
    "product_of_experts, prior content_free": rule("product_of_experts", prior="content_free"),
    "product_of_experts, 1 example each": rule("product_of_experts", group_size=1),
    "bounded_cid": rule("bounded_cid"),
    "invisible_ink": rule("invisible_ink"),
    "dp_fusion": rule("dp_fusion"),
}
SLOW: dict[str, Make] = {
    "subsample_average": lambda epsilon, shots, labels: subsampled(epsilon),
    "synthetic_shots": rule("synthetic_shots"),
}


@dataclass(frozen=True)
class Round:
    """One context and the queries asked of it, with their true labels."""

    test: HeldOut
    seed: int

    def accuracy(self, mechanism: Any, model: Model) -> float:
        """Mean chance of the right answer."""
        test, rng = self.test, np.random.default_rng([self.seed, 1])
        aggregates = mechanism.collect(test.task, test.jobs, test.draws, model)
        pairs = zip(aggregates, test.truth, strict=True)
        labels = test.task.labels
        return float(np.mean([chance(mechanism, a, labels.index(t), rng) for a, t in pairs]))

    def one_draw(self) -> Round:
        """All queries with the same random draws: synthetic examples are written once."""
        test = self.test
        return Round(HeldOut(test.task, test.jobs, test.truth, test.draws[:1] * len(test.jobs)),
                     self.seed)  # fmt: skip


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
        load_rows(str(file), None, None) for file in (train, train.with_name("test.jsonl"))
    )
    task = infer_task(pool, None)
    return lambda seed, shots, queries: round_of(task, pool, tests, shots, queries, seed)


def one_round(table: Table, turn: Round, model: Remembering, slow: bool) -> None:
    labels = len(turn.test.task.labels)
    for name, baseline in (("zero_shot", ZeroShot()), ("few_shot", FewShot())):
        table.note(name, NO_NOISE, turn.accuracy(baseline, model))
    for name, make in (MECHANISMS | (SLOW if slow else {})).items():
        asked = turn.one_draw() if name == "synthetic_shots" else turn
        made = functools.partial(_with_shots, make, table.shots, labels)
        for epsilon, mechanism in columns(made):
            table.note(name, epsilon, asked.accuracy(mechanism, model))
            model.forget()
    model.forget(everything=True)


def _with_shots(make: Make, shots: int, labels: int, epsilon: float) -> Any:
    return make(epsilon, shots, labels)


def hard_or_soft(rounds: Sequence[Round], model: Model) -> str:
    """One expert's probabilities p, made hard (1 at its largest) or soft (clipped at e^-2,
    normalised): which stays nearer to p?
    """
    found = np.mean([_hard_or_soft(turn, model) for turn in rounds], 0)
    hard, soft, own, far_hard, far_soft = 100 * found
    return (
        f"Hard or soft, one expert of one example: mean predictive likelihood of the true label: "
        f"hard {hard:.1f} %, soft {soft:.1f} %, the expert's own {own:.1f} %; mean largest change "
        f"of a probability: hard {far_hard:.1f} %, soft {far_soft:.1f} %."
    )


def _hard_or_soft(turn: Round, model: Model) -> list[float]:
    test = turn.test
    requests = [
        ScoreLabels(test.task.prompt(job.context[:1], job.query), test.task.labels)
        for job in test.jobs
    ]
    scores = np.stack(model.answer(requests))
    p = np.exp(clip_log_probabilities(scores, 1e9))
    hard = np.eye(p.shape[1])[p.argmax(1)]
    soft = np.exp(clip_log_probabilities(scores, 2.0))
    soft /= soft.sum(1, keepdims=True)
    at = np.arange(len(p)), np.array([test.task.labels.index(label) for label in test.truth])
    near = [float(one[at].mean()) for one in (hard, soft, p)]
    return [*near, *(float(abs(p - one).max(1).mean()) for one in (hard, soft))]


def goals(labels: Sequence[Table], free: Sequence[Table]) -> list[str]:
    """What utility was to reach on the bundled task, and whether it did."""
    return [_rises_with_epsilon(labels), _rises_with_shots(labels), _near_few_shot(labels),
            *([_beats_zero_shot(free)] if free else [])]  # fmt: skip


def _goal(met: bool, what: str, figure: str) -> str:
    return f"- {'met' if met else '**missed**'}: {what}: {figure}."


def _votes(table: Table) -> list[float]:
    return [table.cells["report_noisy_max", epsilon].mean for epsilon in EPSILONS]


def _rises_with_epsilon(tables: Sequence[Table]) -> str:
    rows = [_votes(table) for table in tables]
    shown = "; ".join(
        f"J = {table.shots}: " + ", ".join(f"{100 * one:.1f}" for one in row)
        for table, row in zip(tables, rows, strict=True)
    )
    return _goal(all(row == sorted(row) for row in rows), "report noisy max rises with ε", shown)


def _rises_with_shots(tables: Sequence[Table]) -> str:
    rows = list(zip(*map(_votes, tables), strict=True))
    shown = "; ".join(
        f"ε = {epsilon:g}: " + ", ".join(f"{100 * one:.1f}" for one in row)
        for epsilon, row in zip(EPSILONS, rows, strict=True)
    )
    met = all(list(row) == sorted(row) for row in rows)
    return _goal(met, "report noisy max rises with J", shown)


def _near_few_shot(tables: Sequence[Table]) -> str:
    what = (
        f"product of experts has at least {100 * GOAL_SHARE:g} % of few-shot at "
        f"ε = {GOAL_EPSILON:g}, J = {GOAL_SHOTS}"
    )
    for table in tables:
        if table.shots == GOAL_SHOTS:
            private = table.cells["product_of_experts", GOAL_EPSILON].mean
            share = private / table.cells["few_shot", NO_NOISE].mean
            return _goal(share >= GOAL_SHARE, what, f"{100 * share:.1f} %")
    return _goal(False, what, f"J = {GOAL_SHOTS} was not measured")


def _beats_zero_shot(tables: Sequence[Table]) -> str:
    won = [
        f"{name} at ε = {epsilon:g}, J = {table.shots} ({100 * cell.mean:.1f} of "
        f"{100 * table.zero_shot.mean:.1f})"
        for table in tables
        for (name, epsilon), cell in table.cells.items()
        if epsilon <= GOAL_FREE and cell.beats(table.zero_shot)
    ]
    what = f"a private free answer beats zero-shot at ε at most {GOAL_FREE:g}"
    return _goal(bool(won), what, "; ".join(won) or "none does")


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, help="train.jsonl, with test.jsonl beside it")
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--queries", type=int, default=12)
    parser.add_argument("--experts", type=int, nargs="+", default=[4, 8, 20])
    parser.add_argument("--free-experts", type=int, nargs="*", default=[8, 20])
    parser.add_argument("--free-repeats", type=int, default=4)
    parser.add_argument("--write", type=Path, help="also write the tables to this Markdown file")
    parser.add_argument("--checkpoint", type=Path, help="JSON file of tables to go on from")
    parser.add_argument(
        "--fast", action="store_true", help="leave out synthetic_shots and subsample_average"
    )
    return parser.parse_args()


def main() -> None:
    given, began = options(), time.perf_counter()

    def say(text: str) -> None:
        print(f"[{time.perf_counter() - began:.0f} s] {text}", file=sys.stderr, flush=True)

    model, make = Remembering(open_model("pocket")), real(given.data) if given.data else synthetic
    kept = Checkpoint(given.checkpoint)

    def labelled(shots: int) -> Table:
        table = Table(shots)
        for seed in range(given.repeats):
            one_round(table, make(seed, shots, given.queries), model, not given.fast)
            say(f"J = {shots}: repeat {seed + 1} of {given.repeats}")
        return table

    def free(shots: int) -> Table:
        return free_answers(given.free_repeats, shots, model, say)

    tables = [kept.table(f"labels {j}", functools.partial(labelled, j)) for j in given.experts]
    last = [make(seed, given.experts[-1], given.queries) for seed in range(given.repeats)]
    texts = [] if given.data else given.free_experts
    generated = [kept.table(f"free {j}", functools.partial(free, j)) for j in texts]
    text = page(tables, generated, hard_or_soft(last, model), given)
    print(text)
    if given.write:  # the part on real rows is that of real_model/utility.py
        known = given.write.read_text(encoding="utf-8") if given.write.exists() else ""
        _, title, rest = known.partition("\n## Real rows and a real model\n")
        given.write.write_text(text + title + rest, encoding="utf-8")


def page(
    labelled: Sequence[Table], free: Sequence[Table], split: str, given: argparse.Namespace
) -> str:
    parts = [
        "# What accuracy costs",
        f"Written by `make utility`. {(__doc__ or '').strip()}",
        f"## Labels\n\nAccuracy in %, {given.repeats} repeats of {given.queries} queries, pocket "
        "model, ± standard error over repeats.",
        *map(str, labelled),
        split,
    ]
    if free:
        parts += [
            f"## Free answers\n\nROUGE-L (F, times 100), {given.free_repeats} repeats of 6 "
            "queries: the end of a sentence that every example shares, asked for by its "
            "beginning. One output per query; all tokens of an answer together cost ε.",
            *map(str, free),
        ]
    worse = [line for table in labelled for line in table.no_better("labels")]
    worse += [line for table in free for line in table.no_better("free answers")]
    parts.append("## No better than zero-shot\n\n" + ("\n".join(worse) or "None."))
    if not given.data:
        parts.append("## Goals\n\n" + "\n".join(goals(labelled, free)))
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    main()
