"""How often does a system pass that an audit should pass? Whole audits with default options.

    python bench/may_pass.py --audits 100 --kept bench/results/may-pass.json

The four reference cases, at a claim of 1: an application that ignores its rows, and answers by
chance; one that says a word only if at least ten rows hold it; randomised response at 0.3; and
report noisy max at its guarantee, of whose outputs an attacker sees the answers. A run that was cut
goes on.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from correct_systems import MODEL

import leakbound
from leakbound.stats import binomial_lower
from leakbound.tasks import Context
from leakbound.tasks.synthetic import HELP_DESK, help_desk

COMMON = 10  # rows that have to hold a word before it is counted
QUOTING = {"task": "generation", "query": "recall", "canary": "coded"}  # as `init` sets them up
TEXTS = ("I cannot say.", "Please ask again.", "That is open.", "See the manual.", "No idea.")


def ignoring(seed: int) -> Mapping[str, Any]:
    draws = random.Random(seed)
    return {"system": lambda context, query: draws.choice(TEXTS), **QUOTING}


def counting(seed: int) -> Mapping[str, Any]:
    def answer(context: Context, query: str) -> str:
        words = Counter(word for row in context for word in {*row.text.casefold().split()})
        asked = {*query.casefold().split()}
        known = sorted(word for word in asked if words[word] >= COMMON)
        return "Often: " + (", ".join(known) or "nothing") + "."

    return {"system": answer, **QUOTING}


def lying(seed: int) -> Mapping[str, Any]:
    lies, draws = 1 / (1 + math.exp(0.3)), random.Random(seed)

    def answer(context: Context, query: str) -> str:
        asked = query.split('"')
        there = len(asked) > 1 and any(asked[1] in row.text for row in context)
        return "yes" if there != (draws.random() < lies) else "no"

    return {"system": answer}


def voting(seed: int) -> Mapping[str, Any]:
    return {"mechanism": "report_noisy_max", "model": MODEL, "access": "black_box"}


CASES: dict[str, Callable[[int], Mapping[str, Any]]] = {
    "ignores its rows": ignoring, f"words of {COMMON} rows": counting,
    "randomised response at 0.3": lying, "report noisy max, its answers": voting,
}  # fmt: skip


def ended(case: str, seed: int) -> str:
    """Verdict and reason of one audit."""
    rows, more = help_desk(400, np.random.default_rng(seed)), dict(CASES[case](seed))
    more.setdefault("task", HELP_DESK)
    with tempfile.TemporaryDirectory() as out:
        found = leakbound.audit(rows, epsilon=1.0, seed=seed, out=Path(out), **more)
    return f"{found.verdict}: {found.reason}"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--audits", type=int, default=100)
    options.add_argument("--kept", type=Path, required=True)
    given = options.parse_args()
    kept: dict[str, dict[str, str]] = {}
    if given.kept.exists():
        kept = json.loads(given.kept.read_text())
    for seed in range(given.audits):
        for case in CASES:
            if str(seed) not in kept.setdefault(case, {}):
                kept[case][str(seed)] = ended(case, seed)
                given.kept.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    print("| system | audits | pass | at least, with 95 % confidence | the others |")
    print("| --- " * 5 + "|")
    for case, found in kept.items():
        ends = Counter(found.values())
        passed = sum(count for end, count in ends.items() if end.startswith("no_violation"))
        lost = [f"{end.replace('_', ' ')} ({ends[end]})" for end in sorted(ends)]
        others = ", ".join(one for one in lost if not one.startswith("no violation"))
        least = binomial_lower(passed, len(found), 0.05)
        print(f"| {case} | {len(found)} | {passed} | {least:.0%} | {others or '–'} |")


if __name__ == "__main__":
    main()
