"""Pseudo-names of images: the shape of Table 3 of Private PoEtry, and its study of group sizes,
with the pocket vision model.

Every seed draws five classes that no training saw, gives them the names dax, blicket, perpo,
slation and shously, and draws J examples and one query at random, not class by class. The model is
called once for each seed. A cell is the mean over seeds of the probability that the released answer
is right (in percent), with the standard error. Examples are shown in groups of two, so J examples
make J/2 experts or partitions. Epsilon is the guarantee of one answer under replace_one: 1, at
delta = 1e-5 for report_noisy_max. For product_of_experts in the published calibration, which reads
a rate for adding or removing as one for replacing, it is 2.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from leakbound.mechanisms import FewShot, ProductOfExperts, ReportNoisyMax, ZeroShot
from leakbound.models import Model, open_model
from leakbound.tasks import Example, Job, Query
from leakbound.tasks.images import as_image
from leakbound.tasks.synthetic_images import HELD_OUT, NAMES, PSEUDO_NAMES, draw

EPSILON, DELTA, DRAWS, BATCH = 1.0, 1e-5, 400, 50
EXAMPLES, GROUPS, AT = (4, 8, 20), (1, 2, 4), 8


def turn(seed: int, shots: int) -> tuple[Job, int]:
    """A context of random rows with a query, and which name is right."""
    rng = np.random.default_rng([seed, shots, 77])
    looks = rng.choice(len(HELD_OUT), len(NAMES), replace=False)
    classes = rng.integers(0, len(NAMES), shots + 1)
    *rows, asked = [Example(as_image(draw(HELD_OUT[looks[i]], rng)), NAMES[i]) for i in classes]
    return Job(tuple(rows), Query(asked.input)), int(classes[-1])


def most(counts: Any, right: int) -> float:
    """Probability that the largest count is the right answer's, ties shared."""
    values = np.asarray(counts, float)[: len(NAMES)]
    return float(values[right] == values.max()) / int((values == values.max()).sum())


def measured(
    model: Model, shots: int, seeds: Iterable[int], group: int = 2
) -> dict[str, list[float]]:
    """Of every system: the probability of the right answer, seed by seed."""
    experts = ProductOfExperts(EPSILON, group)
    published = ProductOfExperts(EPSILON, group, calibration="paper")
    votes = ReportNoisyMax.calibrated(EPSILON, DELTA, -(-shots // group))
    found: dict[str, list[float]] = {}
    turns = [turn(seed, shots) for seed in seeds]
    for first in range(0, len(turns), BATCH):
        jobs, truth = zip(*turns[first : first + BATCH], strict=True)
        kept = {
            m: m.collect(PSEUDO_NAMES, jobs, [0] * len(jobs), model)
            for m in (ZeroShot(), FewShot(), experts, votes)
        }
        for at, right in enumerate(truth):
            aggregate = {m.name: kept[m][at] for m in kept}
            products, tally = aggregate["product_of_experts"], aggregate["report_noisy_max"]
            noisy = votes.release(tally, DRAWS, np.random.default_rng(at)).answers
            cells = {
                "zero-shot": most(aggregate["zero_shot"].counts, right),
                "no privacy": most(aggregate["few_shot"].counts, right),
                "conditional independence, soft, no noise": most(products.values, right),
                "conditional independence, hard, no noise": most(tally.counts, right),
                "report_noisy_max": float((noisy == right).mean()),
                "product_of_experts": chance(experts, products, right),
                "product_of_experts, as published (ε = 2)": chance(published, products, right),
            }
            for name, value in cells.items():
                found.setdefault(name, []).append(value)
    return found


def chance(mechanism: ProductOfExperts, products: Any, right: int) -> float:
    """Of the right answer, from the output distribution."""
    return float(mechanism.output_distribution(products).probabilities[right])


def cell(values: list[float]) -> str:
    return (
        f"{100 * np.mean(values):.1f} ± {100 * np.std(values, ddof=1) / np.sqrt(len(values)):.1f}"
    )


def table(
    head: str, columns: list[str], found: list[dict[str, list[float]]], names: list[str]
) -> str:
    lines = [f"| {head} | " + " | ".join(columns) + " |", "| --- " * (1 + len(columns)) + "|"]
    return "\n".join(
        [
            *lines,
            *(f"| {name} | " + " | ".join(cell(f[name]) for f in found) + " |" for name in names),
        ]
    )


def main() -> None:
    args = argparse.ArgumentParser()
    args.add_argument(
        "page", nargs="?", type=Path, help="write the tables between the marks of this page"
    )
    args.add_argument("--seeds", type=int, default=2500)
    opt = args.parse_args()
    model, seeds = open_model("pocket-vision"), range(opt.seeds)
    by_shots = [measured(model, shots, seeds) for shots in EXAMPLES]
    by_group = [
        by_shots[EXAMPLES.index(AT)] if group == 2 else measured(model, AT, seeds, group)
        for group in GROUPS
    ]
    text = "\n\n".join([
        " ".join((__doc__ or "").split("\n\n", 1)[1].split()),
        table(f"accuracy in %, {opt.seeds} seeds, ε = {EPSILON:g}", [f"J = {j}" for j in EXAMPLES],
              by_shots, list(by_shots[0])),
        table(f"J = {AT}", [f"groups of {g}" for g in GROUPS], by_group,
              [n for n in by_group[0] if not n.startswith(("zero", "no "))]),
    ])  # fmt: skip
    print(text)
    if opt.page:
        before, mark, rest = opt.page.read_text(encoding="utf-8").partition(
            "<!-- tables: make vision-table -->\n"
        )
        _, end, after = rest.partition("<!-- end of tables -->")
        opt.page.write_text(f"{before}{mark}\n{text}\n\n{end}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
