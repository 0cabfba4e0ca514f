"""Accuracy of every mechanism, from stored label probabilities: the numbers and their page.

Each mechanism's own code collects from a model that looks its scores up in the store, and releases.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from label_store import (
    CONTEXTS,
    DELTA,
    EACH,
    EPSILONS,
    GROUPS,
    MECHANISMS,
    SCHEMA_VERSION,
    SHOTS,
    Edited,
    Missing,
    Store,
    read_store,
    task_of,
)

from leakbound.mechanisms import AnswerProbabilities, build_mechanism
from leakbound.models import Scripted
from leakbound.stats.counts.bounds import binomial_lower, binomial_upper
from leakbound.tasks import Job, Query

sys.path.append(str(Path(__file__).parents[1]))
from utility_cells import DRAWS, chance

SLACK = 1e-6  # of numbers that another machine computes again
PAPERS = (
    ("Private PoEtry, table 1: PoE, J = 8", 4, 8, {"agnews": 86.3, "trec": 78.9}),
    ("Private PoEtry, table 1: PoE, J = 25", 4, 8, {"agnews": 87.0, "trec": 78.8}),
    ("Private PoEtry, table 1: report noisy max, J = 8", 4, None, {"agnews": 65.5, "trec": 52.4}),
    ("Private PoEtry, table 1: report noisy max, J = 25", 4, None, {"trec": 76.7}),
    ("Private PoEtry, table 1: no privacy, J = 8", None, None, {"agnews": 87.5, "trec": 80.5}),
)  # accuracy in %, with the epsilon that is stated, and the true one under replace_one


class Evaluation:
    """One task of a store, and every mechanism on its complete queries."""

    def __init__(self, store: Store, name: str, vectors: dict[str, list[float]]) -> None:
        self.store, self.name, self.task = store, name, task_of(name)
        scores = store.scores()

        def answered(prompt: str) -> str:
            return f" {self.task.labels[int(np.nanargmax(scores[prompt]))]}"

        self.model = Scripted(
            answered, lambda prompt, labels: scores[prompt], embed=lambda text: vectors[text]
        )
        self.asked = [*store.asked(name)]
        self.truth = [store.query(name, query)[1] for _, query in self.asked]

    def jobs(self, shown: bool = True) -> list[Job]:
        return [
            Job(
                self.store.context(self.name, context) if shown else (),
                Query(self.store.query(self.name, query)[0]),
            )
            for context, query in self.asked
        ]

    def cell(self, mechanism: Any, place: Sequence[int], jobs: Sequence[Job]) -> dict[str, float]:
        """Right answers of one output a query, and the chance of a right one."""
        rng = np.random.default_rng([self.store.design["seed"], *place])
        found = mechanism.collect(self.task, jobs, [0] * len(jobs), self.model)
        outputs = [mechanism.release(one, 1, rng).answers[0] for one in found]
        right = int(sum(out == true for out, true in zip(outputs, self.truth, strict=True)))
        each = [chance(mechanism, a, t, rng) for a, t in zip(found, self.truth, strict=True)]
        return {"right": right, "expected": round(float(np.mean(each)), 6)}

    def cells(self) -> Iterator[tuple[str, dict[str, float]]]:
        """Cells by mechanism and claim; none without a complete query."""
        if not self.asked:
            return
        plain = AnswerProbabilities()
        yield "zero_shot", self.cell(plain, [0], self.jobs(shown=False))
        yield "few_shot", self.cell(plain, [1], self.jobs())
        for number, (text, options) in enumerate(MECHANISMS.items()):
            kind, _, option = text.partition(":")
            chosen = dict([option.split("=")]) if option else {}
            for epsilon in EPSILONS:
                made = build_mechanism(kind, {**options, **chosen}, epsilon, DELTA)
                cell = self.cell(made, [2, number, int(epsilon)], self.jobs())
                true = round(made.guarantee.epsilon(DELTA), 6)
                yield f"{text} at {epsilon:g}", {**cell, "true_epsilon": true}


def numbers_of(folder: Path) -> dict[str, Any]:
    """Everything that the store shows, computed from it alone."""
    store = read_store(folder)
    try:
        written = (folder / "embeddings.json").read_bytes()
    except OSError as error:
        raise Missing(f"{folder} holds no embeddings of labels: {error}.") from None
    design = hashlib.sha256((folder / "design.json").read_bytes()).hexdigest()
    tasks = {}
    for name in store.design["data"]:
        evaluation = Evaluation(store, name, json.loads(written))
        tasks[name] = {"queries": len(evaluation.asked),
                       "contexts": len({context for context, _ in evaluation.asked}),
                       "cells": dict(evaluation.cells())}  # fmt: skip
    return {"schema_version": SCHEMA_VERSION, "design": design, "scores": store.head,
            "embeddings": hashlib.sha256(written).hexdigest(), "tasks": tasks}  # fmt: skip


def check(folder: Path) -> str:
    """Compute all numbers again, and hold them against those that were written.

    Raises:
        Missing: If there is no store, or no numbers.
        Edited: If the store or a number is not what was written.
    """
    try:
        written = json.loads((folder / "numbers.json").read_text(encoding="utf-8"))
    except OSError as error:
        raise Missing(f"{folder} holds no numbers: {error}.") from None
    again = numbers_of(folder)
    differ = [
        place for place, (one, other) in _both(written, again).items() if not _same(one, other)
    ]
    if differ:
        raise Edited(f"{differ[0]} is not what the store shows ({len(differ)} differ).")
    cells = sum(len(task["cells"]) for task in again["tasks"].values())
    return (
        f"AS WRITTEN: {folder.name}\n  {cells} cells, computed again from the store, are the same"
    )


def _both(one: Any, other: Any, place: str = "") -> dict[str, tuple[Any, Any]]:
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return {place: (one, other)}
    found = {}
    for key in {**one, **other}:
        found |= _both(one.get(key), other.get(key), f"{place}/{key}".lstrip("/"))
    return found


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= SLACK
    return bool(one == other)


def measured(cell: dict[str, float], queries: int) -> str:
    """A share of right answers in %, the count behind it, and its exact interval."""
    right = int(cell["right"])
    low, high = (float(f(right, queries, 0.025)) for f in (binomial_lower, binomial_upper))
    expected = 100 * cell["expected"]
    return f"{expected:.1f} · {right}/{queries} [{100 * low:.0f}, {100 * high:.0f}]"


def table(name: str, found: dict[str, Any]) -> str:
    cells, queries = found["cells"], found["queries"]
    many = "s" * (found["contexts"] > 1)
    heads = [
        f"{name}, {queries} queries of {found['contexts']} context{many}",
        *(f"ε = {one:g}" for one in EPSILONS),
    ]
    rows = [heads, ["---"] * len(heads)]
    for baseline in ("zero_shot", "few_shot"):
        rows.append([f"{baseline} (no ε)", measured(cells[baseline], queries), "", ""])
    for text in MECHANISMS:
        shown = [measured(cells[f"{text} at {one:g}"], queries) for one in EPSILONS]
        rows.append([text.replace(":", ", "), *shown])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def papers() -> str:
    names = ("trec", "agnews")
    rows = [["printed", "stated ε", "true ε", *names], ["---"] * 5]
    for says, stated, true, values in PAPERS:
        shown = [f"{values[name]:.1f}" if name in values else "" for name in names]
        rows.append(
            [says, str(stated or ""), str(true or ("not stated" if stated else "")), *shown]
        )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


TITLE = "## Real rows and a real model\n"
HEAD = f"""{TITLE}
Made by `python bench/real_model/utility.py write` from `evidence/utility`, without the model and
the rows; without `write` it checks the store and every number. Qwen2.5-Coder-1.5B-Instruct (Q4_K_M)
completes the plain prompts of the tasks `trec`, `subj` and `agnews`. The score of a label is the
log-probability of its first token. Rows, seed, sizes and mechanisms were committed before the first
call: {CONTEXTS} contexts of {SHOTS} examples, {EACH} queries each. A query takes {GROUPS + 2} calls
(no examples, {GROUPS} groups of two, all {SHOTS}), which all mechanisms and claims share. Votes of
two examples each are fewer examples a vote than `answer` would choose.

A cell has the expected accuracy in %, computed from the distribution of outputs (`embedding_mean`:
{DRAWS} outputs), then the right answers of one output for each query with the exact 95 % interval
of that count. The interval is about these contexts, over queries. ε is the true guarantee of one
answer at δ = 1e-5 under replace_one. `few_shot` and `zero_shot` give the likeliest label.
`embedding_mean` takes the likeliest label of each group as its answer, and embeds labels with
all-MiniLM-L6-v2. `synthetic_shots` needs all probabilities of a next token, which no endpoint
shows, and `subsample_average` 20 prompts of its own for each query: neither was measured."""
TAIL = """What Private PoEtry prints is of other models and other contexts. Its PoE spends twice the
stated ε under replace_one ([why](../reproduce.md)), so its rows stand beside ours at ε = 8."""


def section(found: dict[str, Any]) -> str:
    parts, whole = [HEAD], CONTEXTS * EACH
    if (fewest := min(one["queries"] for one in found["tasks"].values())) < whole:
        parts.append(
            f"The store is not complete: it has {fewest} of {whole} queries of a task, because it "
            "was stopped by the\nclock: so few rank no mechanisms. `make utility-evidence` goes on."
        )
    parts += [table(name, one) for name, one in found["tasks"].items() if one["cells"]]
    return "\n\n".join([*parts, papers(), TAIL]) + "\n"
