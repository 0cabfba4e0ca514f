"""Label probabilities of a known model on real rows, stored without the rows: design and scores.

A store is a folder with `design.json` (which rows, by place and hash, fixed before the first call)
and `scores.jsonl`. Each line of the latter has the natural log-probabilities of all labels after
every prompt of one query: without examples, after each of the ten groups of two examples, and after
all twenty. Lines are chained by hashes. A query that is null is "N/A", the content-free one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from leakbound.mechanisms.parts.contextual_calibration import CONTENT_FREE
from leakbound.tasks import Context, Example, Query, Task
from leakbound.tasks.named_tasks import tasks_by_name
from leakbound.tasks.partition import split_by_position
from leakbound.tasks.rows.datasets import fingerprint

SCHEMA_VERSION = 1
NAMES = ("trec", "subj", "agnews")  # in the order in which they take turns
SHOTS, GROUPS, CONTEXTS, EACH, SEED = 20, 10, 5, 20, 38
EPSILONS, DELTA = (1.0, 4.0, 8.0), 1e-5
# with the ten groups of two examples that the public rule gives experts, for votes too
MECHANISMS = {
    "report_noisy_max:prior=uniform": {"partitions": GROUPS},
    "report_noisy_max:prior=content_free": {"partitions": GROUPS},
    "embedding_mean": {"partitions": GROUPS},
    "product_of_experts": {"group_size": SHOTS // GROUPS},
    "product_of_experts:prior=content_free": {"group_size": SHOTS // GROUPS},
    "invisible_ink": {"partitions": GROUPS},
    "dp_fusion": {},
    "bounded_cid": {},
}
START = hashlib.sha256(b"leakbound label store 1").hexdigest()


class Missing(Exception):
    """There is no store, or not all of it."""


class Edited(Exception):
    """A line of the store is not what was collected."""


def task_of(name: str) -> Task:
    return tasks_by_name()[name].task


def rows_of(folder: Path, name: str) -> tuple[Context, Context]:
    """The rows of which examples are drawn, and those of which queries are."""
    both = (tasks_by_name()[name].rows(str(folder / name / f"{one}.jsonl"), None)
            for one in ("train", "test"))  # fmt: skip
    train, test = both
    return train, test


def design_of(folder: Path) -> dict[str, Any]:
    """The design: all that is drawn, from the seed alone."""
    found: dict[str, Any] = {}
    for number, name in enumerate(NAMES):
        train, test = rows_of(folder, name)
        rng, labels = np.random.default_rng([SEED, number]), task_of(name).labels
        contexts = [rng.choice(len(train), SHOTS, replace=False).tolist() for _ in range(CONTEXTS)]
        queries = rng.choice(len(test), CONTEXTS * EACH, replace=False).tolist()
        found[name] = {
            "train": fingerprint(train), "test": fingerprint(test), "labels": labels,
            "contexts": [[_named(train[i], i, labels) for i in one] for one in contexts],
            "queries": [_named(test[i], i, labels) for i in queries],
        }  # fmt: skip
    return {"schema_version": SCHEMA_VERSION, "seed": SEED, "shots": SHOTS, "groups": GROUPS,
            "queries_of_a_context": EACH, "data": found}  # fmt: skip


def _named(row: Example, at: int, labels: Sequence[str]) -> list[Any]:
    """Place, hash and label of a row."""
    return [at, fingerprint((row,)), labels.index(row.label)]


def prompts_of(task: Task, context: Context, text: str) -> list[str]:
    """What is asked for one query: without examples, after each group, after all examples."""
    parts = [(), *split_by_position(context, GROUPS), context]
    return [str(task.prompt(part, Query(text))) for part in parts]


def digest_of(before: str, line: Mapping[str, Any]) -> str:
    content = json.dumps({k: v for k, v in line.items() if k != "chain"}, sort_keys=True)
    return hashlib.sha256((before + content).encode()).hexdigest()


def write_line(file: Path, before: str, line: dict[str, Any]) -> str:
    line["chain"] = digest_of(before, line)
    with file.open("a", encoding="utf-8") as opened:
        opened.write(json.dumps(line) + "\n")
    return str(line["chain"])


@dataclass(frozen=True)
class Store:
    """A store that was read, with a stand-in for each row."""

    design: Mapping[str, Any]
    lines: Sequence[Mapping[str, Any]]

    @property
    def head(self) -> str:
        return str(self.lines[-1]["chain"]) if self.lines else START

    @property
    def done(self) -> set[tuple[str, int, int | None]]:
        return {(one["data"], one["context"], one["query"]) for one in self.lines}

    def labels(self, name: str) -> tuple[str, ...]:
        return tuple(self.design["data"][name]["labels"])

    def context(self, name: str, number: int) -> Context:
        """Stand-ins for the examples: their hashes and true labels."""
        labels, rows = self.labels(name), self.design["data"][name]["contexts"][number]
        return tuple(Example(digest, labels[label]) for _, digest, label in rows)

    def query(self, name: str, number: int | None) -> tuple[str, int]:
        """A stand-in for a query, and its true label; -1 of the content-free one."""
        if number is None:
            return CONTENT_FREE, -1
        _, digest, label = self.design["data"][name]["queries"][number]
        return digest, label

    def scores(self) -> dict[str, list[float]]:
        """The scores after each prompt, in which stand-ins are in the place of rows."""
        found = {}
        for one in self.lines:
            text, _ = self.query(one["data"], one["query"])
            prompts = prompts_of(
                task_of(one["data"]), self.context(one["data"], one["context"]), text
            )
            for prompt, row in zip(prompts, one["scores"], strict=True):
                found.setdefault(prompt, [np.nan if v is None else v for v in row])
        return found

    def asked(self, name: str) -> Iterator[tuple[int, int]]:
        """Contexts and queries that are complete, in their order."""
        return ((one["context"], one["query"]) for one in self.lines
                if one["data"] == name and one["query"] is not None)  # fmt: skip


def read_store(folder: Path) -> Store:
    """The store of a folder, with its chain checked.

    Raises:
        Missing: If a file is not there.
        Edited: If a line is not that of its chain, or names what the design does not have.
    """
    try:
        design = json.loads((folder / "design.json").read_text(encoding="utf-8"))
    except OSError as error:
        raise Missing(f"{folder} holds no store: {error}.") from None
    if design.get("schema_version") != SCHEMA_VERSION:
        raise Missing(
            f"{folder} has schema version {design.get('schema_version')}; it must be "
            f"{SCHEMA_VERSION}."
        )
    file, before, lines = folder / "scores.jsonl", START, []
    for number, text in enumerate(file.read_text().splitlines() if file.exists() else [], 1):
        line = json.loads(text)
        if digest_of(before, line) != line["chain"]:
            raise Edited(f"line {number} of {file.name} is not what was collected.")
        before = line["chain"]
        lines.append(line)
    return Store(design, lines)
