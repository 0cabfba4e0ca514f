"""False alarms of one run: how often its bound exceeds what a store really leaks.

    python bench/one_run_coverage.py [--repetitions 20000] [--audits 40]

A store is an array here: for each canary, its coin and the score of its answer. The epsilon that
the store satisfies is known in closed form, and a bound above it is a false alarm; at most
1 - confidence of the runs may have one. Repetitions are counted, with the end of a one-sided
interval of 99.9 %; for randomised response the chance is computed from the binomial distribution,
too. At last, whole audits of small stores.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import expit
from scipy.stats import beta, binom

from leakbound.privacy import Gaussian
from leakbound.stats import right_to_reject

CONFIDENCE = 0.95
CONTROLS = 8  # of each kind
Coins = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Store = Callable[[Coins, np.random.Generator], Floats]  # coins -> scores, (runs, canaries) each


@dataclass(frozen=True)
class Case:
    """A store whose leakage is known.

    Attributes:
        name: What it does.
        canaries: Canaries of a run.
        epsilon: The epsilon that it satisfies at `delta` for one record, whatever is asked.
        delta: At which the bound is stated.
        store: How it answers.
        threshold: Whether that of the score is fixed, or chosen on the control canaries.
    """

    name: str
    canaries: int
    epsilon: float
    delta: float
    store: Store
    threshold: float | None = 0.5

    @property
    def binomial(self) -> bool:
        """Whether right guesses are binomial."""
        return self.name == "randomised response"


# -- stores ---------------------------------------------------------------------------------------


def silent(coins: Coins, rng: np.random.Generator) -> Floats:
    """Always the same answer."""
    return np.zeros(coins.shape)


def mood(coins: Coins, rng: np.random.Generator) -> Floats:
    """One fair coin decides all answers of a run."""
    return np.repeat(rng.integers(2, size=(len(coins), 1)), coins.shape[1], axis=1).astype(float)


def guesses(coins: Coins, rng: np.random.Generator) -> Floats:
    return rng.normal(size=coins.shape)


def response(epsilon: float) -> Store:
    """Randomised response by record."""

    def answer(coins: Coins, rng: np.random.Generator) -> Floats:
        return (coins == (rng.random(coins.shape) < expit(epsilon))).astype(float)

    return answer


def dumped(epsilon: float, delta: float, group: int) -> Store:
    """Randomised response; in some runs, a drawn group of records is shown as it is.

    Each record is in a group that is shown with a probability of delta.
    """

    def answer(coins: Coins, rng: np.random.Generator) -> Floats:
        runs, size = coins.shape
        shown = np.zeros(coins.shape, bool)
        shown[:, :group] = rng.random((runs, 1)) < delta * size / group
        return np.where(rng.permuted(shown, axis=1), coins, response(epsilon)(coins, rng))

    return answer


def noisy(sigma: float) -> Store:
    """Each answer shows its record behind Gaussian noise."""
    return lambda coins, rng: coins + rng.normal(0, sigma, coins.shape)


def counted(epsilon: float) -> Store:
    """All answers show one count of the whole store, behind Laplace noise."""

    def answer(coins: Coins, rng: np.random.Generator) -> Floats:
        total = coins.sum(1, keepdims=True) + rng.laplace(0, 1 / epsilon, (len(coins), 1))
        return np.repeat(total > coins.shape[1] / 2, coins.shape[1], axis=1).astype(float)

    return answer


def alike(epsilon: float, copies: int) -> Store:
    """Groups of near-duplicates: an answer says whether any of its group is there.

    A record has a say in `copies` answers, each of which is `epsilon`-DP.
    """

    def answer(coins: Coins, rng: np.random.Generator) -> Floats:
        groups = coins.reshape(len(coins), -1, copies).any(2).repeat(copies, axis=1)
        return response(epsilon)(groups, rng)

    return answer


def known(epsilon: float, share: float) -> Store:
    """Some canaries were in the store before, whatever their coins."""

    def answer(coins: Coins, rng: np.random.Generator) -> Floats:
        before = np.arange(coins.shape[1]) < share * coins.shape[1]
        return response(epsilon)(coins | before, rng)

    return answer


def remembering(epsilon: float) -> Store:
    """An answer also repeats what was said before: it is the majority of all answers so far where
    the noise of its own record is large.
    """

    def answer(coins: Coins, rng: np.random.Generator) -> Floats:
        own = response(epsilon)(coins, rng)
        before = np.cumsum(own, axis=1) - own > np.arange(coins.shape[1]) / 2
        return np.where(rng.random(coins.shape) < 0.3, before, own)

    return answer


def cases() -> Iterator[Case]:
    yield Case("says nothing", 100, 0.0, 0.0, silent)
    yield Case("one coin for all answers", 100, 0.0, 0.0, mood)
    yield Case("random scores, threshold of the controls", 100, 0.0, 1e-5, guesses, None)
    for m in (20, 100, 1000):
        yield Case("randomised response", m, 1.0, 0.0, response(1.0))
    for epsilon in (0.5, 2.0, 4.0):
        yield Case("randomised response", 200, epsilon, 0.0, response(epsilon))
    for group in (1, 10, 100):
        yield Case(
            f"shows {group} of 100 records, each with probability 1e-3", 100, 1.0, 1e-3,
            dumped(1.0, 1e-3, group),
        )  # fmt: skip
    for sigma in (0.5, 1.0):
        truth = Gaussian(1.0, sigma, relation="add_remove").epsilon(1e-5)
        yield Case(f"Gaussian noise of {sigma:g}", 200, truth, 1e-5, noisy(sigma), None)
    yield Case("one noisy count for all answers", 100, 1.0, 0.0, counted(1.0))
    yield Case("4 near-duplicates each", 100, 4.0, 0.0, alike(1.0, 4))
    yield Case("a third was there before", 99, 2.0, 0.0, known(2.0, 1 / 3))
    yield Case("repeats what it said before", 100, 1.0, 0.0, remembering(1.0))


# -- runs -----------------------------------------------------------------------------------------


def alarms(case: Case, repetitions: int, seed: int) -> tuple[int, float]:
    """(runs whose bound exceeds the truth, mean share of right guesses)."""
    rng = np.random.default_rng([seed, case.canaries])
    needed, found, right = _needed(case), 0, 0.0
    for start in range(0, repetitions, 2000):
        runs = min(2000, repetitions - start)
        coins = rng.random((runs, case.canaries)) < 0.5
        scores = case.store(coins, rng)
        correct = ((scores >= _threshold(case, runs, rng)) == coins).sum(1)
        found += int((correct >= needed).sum())
        right += float(correct.sum())
    return found, right / repetitions / case.canaries


def _needed(case: Case) -> float:
    found = right_to_reject(case.canaries, case.epsilon, case.delta, CONFIDENCE)
    return math.inf if found is None else found


def _threshold(case: Case, runs: int, rng: np.random.Generator) -> Floats:
    """One for each run; that of the controls is between two of their scores, as in an audit."""
    if case.threshold is not None:
        return np.full((runs, 1), case.threshold)
    coins = np.repeat([[True] * CONTROLS + [False] * CONTROLS], runs, axis=0)
    scores = case.store(coins, rng)
    ordered = np.sort(scores, axis=1)
    middles = (ordered[:, 1:] + ordered[:, :-1]) / 2
    right = ((scores[:, None] >= middles[:, :, None]) == coins[:, None]).sum(2)
    return np.take_along_axis(middles, right.argmax(1)[:, None], 1)


def upper(found: int, of: int) -> float:
    """Upper end of a one-sided interval of 99.9 %."""
    return float(beta.ppf(0.999, found + 1, of - found)) if found < of else 1.0


def exact(canaries: int, epsilon: float) -> float:
    """Chance of a false alarm under randomised response by record."""
    needed = right_to_reject(canaries, epsilon, 0.0, CONFIDENCE)
    return 0.0 if needed is None else float(binom.sf(needed - 1, canaries, expit(epsilon)))


def worst_exact() -> tuple[float, int, float, int]:
    """(largest chance, its canaries, its epsilon, cells) over a grid of randomised responses."""
    grid = [
        (m, epsilon)
        for m in (2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000)
        for epsilon in (0.0, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
    ]
    return *max((exact(m, epsilon), m, epsilon) for m, epsilon in grid), len(grid)


def audits(number: int) -> str:
    """Whole audits of small stores, by the package itself."""
    import random
    import sys
    import tempfile
    from pathlib import Path

    import leakbound

    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    from stores import DISPOSABLE, NoisyStore, documents

    rows, above, seen = documents(60), 0, 0
    for seed in range(number):
        with tempfile.TemporaryDirectory() as out:
            result = leakbound.audit(
                rows, system=NoisyStore(truth=float(expit(2.0)), rng=random.Random(seed)),
                design="one_run", canaries=40, controls=6, query="lookup", epsilon=2.0, delta=0.0,
                seed=seed, batch_pairs=100, settings={"claim_for": "run"}, out=out,
                calls=DISPOSABLE,
            )  # fmt: skip
        above += result.bound.epsilon > 2.0
        seen += result.bound.epsilon > 0.0
    return (
        f"{number} whole audits of randomised response at epsilon 2 (40 canaries): {above} bounds "
        f"above it, {seen} above 0"
    )


def _cells(case: Case, repetitions: int, seed: int) -> list[str]:
    found, right = alarms(case, repetitions, seed)
    return [
        case.name, str(case.canaries), f"{case.epsilon:.3g}", f"{case.delta:g}", f"{right:.3f}",
        percent(found / repetitions), percent(upper(found, repetitions)),
        percent(exact(case.canaries, case.epsilon)) if case.binomial else "",
    ]  # fmt: skip


def percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=20_000)
    parser.add_argument("--audits", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    began = time.process_time()
    print("| store | canaries | its ε | at δ | right guesses | false alarms | at most | exact |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for case in cases():
        print(f"| {' | '.join(_cells(case, given.repetitions, given.seed))} |")
    chance, m, epsilon, cells = worst_exact()
    print(
        f"\nRandomised response, exact, {cells} cells of canaries and epsilon: at most "
        f"{percent(chance)} (m = {m}, epsilon = {epsilon:g}); {percent(1 - CONFIDENCE)} allowed."
    )
    if given.audits:
        print(audits(given.audits))
    print(f"{given.repetitions} runs a row, {time.process_time() - began:.0f} s of CPU")


if __name__ == "__main__":
    main()
