"""Bounds of leakbound and of jax_privacy from the same scores: on one file, and how often each
exceeds the truth.

    python bench/score_bounds.py examples/scores.csv --repetitions 200

It runs in an environment that has both packages (`pip install . jax-privacy`); without jax_privacy
its columns stay empty. Simulated scores are of systems whose epsilon is known: one that leaks
nothing, randomised response, and a Gaussian. Each file has as many member as non-member scores, and
all of them are independent, so that bounds for trials and for one run apply alike. About two
minutes of CPU time.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Callable

import numpy as np

from leakbound.estimators import ScoredTrials, score_bounds
from leakbound.privacy import gdp_epsilon

try:
    from jax_privacy import auditing
except ImportError:
    auditing = None

DELTA, CONFIDENCE = 1e-5, 0.95
Scores = tuple[np.ndarray, np.ndarray]
Found = dict[str, float]


def ours(scores: Scores, seed: int) -> Found:
    """Bounds on epsilon; in one_run that of the same scores as one run."""
    apart = score_bounds(ScoredTrials(*scores), DELTA, CONFIDENCE, seed=seed)
    one = score_bounds(ScoredTrials(*scores, "one_run"), DELTA, CONFIDENCE, seed=seed)
    names = ("e_process", "clopper_pearson", "unconditional", "accuracy_bound")
    found = {f"leakbound {name}": apart.estimate(name).epsilon or 0.0 for name in names}
    return {**found, "leakbound one_run": one.estimate("one_run").epsilon or 0.0}


def theirs(scores: Scores, seed: int) -> Found:
    """Bounds on epsilon by jax_privacy, with its default threshold rule and with a split."""
    auditor = auditing.CanaryScoreAuditor(*scores)
    split = auditing.Split(0.2, seed=seed)
    error = 1 - CONFIDENCE
    found = {
        "jax_privacy epsilon_clopper_pearson": auditor.epsilon_clopper_pearson(
            error, DELTA, one_sided=False
        ),
        "jax_privacy epsilon_clopper_pearson, Split(0.2)": auditor.epsilon_clopper_pearson(
            error, DELTA, one_sided=False, threshold_strategy=split
        ),
        "jax_privacy epsilon_one_run": auditor.epsilon_one_run(error, DELTA),
        "jax_privacy epsilon_from_gdp": auditor.epsilon_from_gdp(error, DELTA),
        "jax_privacy epsilon_raw_counts (no bound)": auditor.epsilon_raw_counts(delta=DELTA),
    }
    return {name: float(value) for name, value in found.items()}


def every(scores: Scores, seed: int) -> Found:
    """All bounds of both packages."""
    return {**ours(scores, seed), **({} if auditing is None else theirs(scores, seed))}


def nothing(n: int, rng: np.random.Generator) -> Scores:
    """Scores of a system that leaks nothing."""
    return rng.normal(size=n), rng.normal(size=n)


def randomised_response(n: int, rng: np.random.Generator) -> Scores:
    """Scores of 0 and 1, of a system with epsilon 1."""
    right = 1 / (1 + math.exp(-1.0))
    return (rng.random(n) < right) * 1.0, (rng.random(n) > right) * 1.0


def gaussian(n: int, rng: np.random.Generator) -> Scores:
    """Scores with Gaussian noise, mu = 1."""
    return rng.normal(1.0, 1.0, n), rng.normal(size=n)


SCENES: dict[str, tuple[Callable[[int, np.random.Generator], Scores], float]] = {
    "nothing leaks": (nothing, 0.0),
    "randomised response": (randomised_response, 1.0),
    "Gaussian, mu = 1": (gaussian, float(gdp_epsilon(1.0, DELTA))),
}


def read(path: str) -> Scores:
    """Member and non-member scores of a file."""
    with open(path, encoding="utf-8", newline="") as file:
        rows = [(row["member"] == "1", float(row["score"])) for row in csv.DictReader(file)]
    member, nonmember = ([score for side, score in rows if side is one] for one in (True, False))
    return np.array(member), np.array(nonmember)


def simulated(trials: int, repetitions: int, seed: int) -> None:
    """Print how often each bound exceeds the truth, and its mean."""
    heads = [f"{name}, ε = {true:.2f}" for name, (_, true) in SCENES.items()]
    print("\n| bound | " + " | ".join(heads) + " |")
    cells: dict[str, list[str]] = {}
    for scene, (draw, true) in enumerate(SCENES.values()):
        rngs = [np.random.default_rng([seed, scene, one]) for one in range(repetitions)]
        found = [every(draw(trials, rng), one) for one, rng in enumerate(rngs)]
        for bound in found[0]:
            values = np.array([one[bound] for one in found])
            above = float(np.mean(values > true + 1e-9))
            cells.setdefault(bound, []).append(f"{values.mean():.2f}; above in {above:.1%}")
    for bound, row in cells.items():
        print(f"| `{bound}` | " + " | ".join(row) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("file")
    parser.add_argument("--trials", type=int, default=300, help="of each side")
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    for name, value in every(read(args.file), 0).items():
        print(f"{name:<50} {value:.2f}")
    simulated(args.trials, args.repetitions, args.seed)


if __name__ == "__main__":
    main()
