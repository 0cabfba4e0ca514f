"""Are systems accused whose two answers to a pair depend on each other, and not on any record?

    python bench/dependent_answers.py [--audits 1000] [--kept FILE]

Whole audits with default options at claims 0 (given as 1e-9), .25 and 1, where half of the weight
of single answers bets on their independence from claim 1 on:

- alternating: two replicas in turn, of which one always says yes
- opposite: the second answer of two is the other one
- common: both answers of two come from one seed

Ends with 1 if more than 64 of 1,000 are accused at a claim: the upper 97.5 % point at 5 %.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy.stats import beta, binom

import leakbound
from leakbound.tasks import Context
from leakbound.tasks.synthetic import HELP_DESK, help_desk

CLAIMS = (0.0, 0.25, 1.0)
KINDS = ("alternating", "opposite", "common")
LEAST = 1e-9
HEAD = "| answers | claim | audits | accused | 95 % interval |\n| --- | --- | --- | --- | --- |"


class Dependent:
    """Answers yes or no by calls that came before, whatever is asked."""

    def __init__(self, kind: str, rng: np.random.Generator) -> None:
        self._kind, self._rng, self._calls, self._last = kind, rng, 0, False

    def answer(self, context: Context, query: str) -> str:
        first, self._calls = self._calls % 2 == 0, self._calls + 1
        if self._kind == "alternating":
            return "yes" if first else "no"
        if first:
            self._last = bool(self._rng.random() < 0.5)
            return "yes" if self._last else "no"
        return "yes" if self._last == (self._kind == "common") else "no"


def accused(kind: str, claim: float, index: int) -> bool:
    rng = np.random.default_rng([7, KINDS.index(kind), int(100 * claim), index])
    with tempfile.TemporaryDirectory() as out:
        result = leakbound.audit(
            help_desk(120, rng), task=HELP_DESK, epsilon=max(claim, LEAST), out=out,
            seed=int(rng.integers(1 << 31)), system=Dependent(kind, rng),
        )  # fmt: skip
    return result.verdict == "violation"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--audits", type=int, default=1000, help="at each claim, of all kinds")
    parser.add_argument("--kept", type=Path, help="keeps what was found, so that a run goes on")
    given = parser.parse_args()
    lines = given.kept.read_text().splitlines() if given.kept and given.kept.exists() else []
    known = {(kind, claim, index): found for kind, claim, index, found in map(json.loads, lines)}
    print(HEAD, flush=True)
    worst = 0
    for claim in CLAIMS:
        total = 0
        for at, kind in enumerate(KINDS):
            number = len(range(at, given.audits, len(KINDS)))
            for index in range(number):
                key = kind, claim, index
                if key not in known:
                    known[key] = accused(*key)
                    if given.kept:
                        with given.kept.open("a") as file:
                            file.write(json.dumps([*key, known[key]]) + "\n")
            hits = sum(known[kind, claim, index] for index in range(number))
            low, high = (float(one) for one in _interval(hits, number))
            print(
                f"| {kind} | {claim:g} | {number} | {hits} | {low:.1%} to {high:.1%} |", flush=True
            )
            total += hits
        worst = max(worst, total)
    return int(worst > binom.ppf(0.975, given.audits, 0.05))


def _interval(hits: int, number: int) -> tuple[float, float]:
    low = beta.ppf(0.025, hits, number - hits + 1) if hits else 0.0
    return low, beta.ppf(0.975, hits + 1, number - hits) if hits < number else 1.0


if __name__ == "__main__":
    sys.exit(main())
