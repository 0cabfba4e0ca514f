"""Are planted sentences found, once and twice in a context, by leave-one-out and by sets of units?

Usage: python bench/influence_units.py [--notes 8] [--sets 250]

The bundled notes of 20 messages with a door code in one more sentence, asked for the code. "Twice"
appends the same sentence to the note. About four minutes on one core.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np
from leakbound_lab.studies.bundled import notes

import leakbound
from leakbound.attribution import Case
from leakbound.models import Model, open_model

METHODS = ("leave-one-out", "shapley", "lasso")


def planted(count: int) -> list[Case]:
    """Notes that are asked for their code."""
    return list(notes(2 * count))[::2]


def twice(case: Case) -> Case:
    """The same note with its secret at the end as well."""
    name = case.query.split(" of ")[1].rstrip("?")
    return replace(case, context=f"{case.context} The door code of {name} is {case.reference}.")


def found(case: Case, model: Model, method: str, sets: int, copies: int) -> tuple[bool, float]:
    """Do the copies have the largest influences, and what share do they have of the whole's?"""
    record = leakbound.influence(
        case.context, case.query, model=model, response=case.reference, by="sentence",
        method=method, sets=sets,
    )  # fmt: skip
    grid, whole = record.attributions[0].readings[0].grids
    mine = [
        at
        for at, (first, end) in enumerate(grid.characters)
        if case.reference in case.context[first:end]
    ]
    top = set(np.argsort(-grid.totals)[:copies].tolist())
    return set(mine) == top, float(grid.totals[mine].sum() / whole.totals[0])


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--notes", type=int, default=8)
    parser.add_argument("--sets", type=int, default=250)
    args, model = parser.parse_args(), open_model("pocket")
    print("| secret | method | on top | influence of its copies / whole | CPU s each |")
    print("| --- | --- | --- | --- | --- |")
    for copies, name in ((1, "once"), (2, "twice")):
        cases = [case if copies == 1 else twice(case) for case in planted(args.notes)]
        for method in METHODS:
            begin = time.process_time()
            results = [found(case, model, method, args.sets, copies) for case in cases]
            seconds = (time.process_time() - begin) / len(cases)
            hits, share = sum(hit for hit, _ in results), np.mean([share for _, share in results])
            print(
                f"| {name} | {method} | {hits} of {len(cases)} | {share:.2f} | {seconds:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
