"""What an exact unconditional test gains over Clopper-Pearson limits, and what error both spend.

First table: bounds at the expected counts of an attack with the given rates, and seconds per bound.
Second table: the largest exact chance, over rates on the edge of a claim, that a bound exceeds the
true epsilon; 5 % are allowed. It sums over all outcomes.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from itertools import product

import numpy as np
import numpy.typing as npt
from scipy.stats import binom

from leakbound.stats import Estimate, clopper_pearson, gdp
from leakbound.stats.counts.unconditional import unconditional, unconditional_mu

RATES = ((1.0, 0.0), (0.9, 0.1), (0.9, 0.5), (0.6, 0.1), (0.5, 0.02), (0.3, 0.05))
CLAIMS = (0.0, 0.5, 1.0, 2.0, 4.0)
Counted = Callable[[int, int, int, int, float], Estimate]


def gains(sizes: list[int], delta: float) -> None:
    """Print bounds at the expected counts.

    Args:
        sizes: Numbers of pairs.
        delta: Failure probability of epsilon.
    """
    print(f"delta = {delta:g}\n")
    print("| pairs | TPR, FPR | CP eps | exact eps | gain | CP mu | exact mu | gain | s |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for n, (p, q) in product(sizes, RATES):
        x, y = round(n * p), round(n * q)
        cells = (x, n - x, y, n - y, delta)
        start = time.perf_counter()
        epsilon = unconditional(*cells).epsilon or 0.0
        seconds, mu = time.perf_counter() - start, unconditional_mu(*cells).mu or 0.0
        old, old_mu = clopper_pearson(*cells).epsilon or 0.0, gdp(*cells).mu or 0.0
        print(
            f"| {n} | {p}, {q} | {old:.3f} | {epsilon:.3f} | {_gain(epsilon, old)} "
            f"| {old_mu:.3f} | {mu:.3f} | {_gain(mu, old_mu)} | {seconds:.2f} |"
        )


def _gain(new: float, old: float) -> str:
    return f"+{new / old - 1:.0%}" if old > 0 else "from 0"


def errors(n: int, delta: float) -> None:
    """Print the largest exact error of both bounds at the edge of each claim.

    Args:
        n: Number of pairs; (n + 1)^2 bounds are computed.
        delta: Failure probability of epsilon.
    """
    print(f"\nlargest true error, {n} pairs, delta = {delta:g}\n")
    print("| epsilon | Clopper-Pearson | exact |")
    print("| --- | --- | --- |")
    tables = [_all_bounds(one, n, delta) for one in (clopper_pearson, unconditional)]
    for epsilon in CLAIMS:
        old, new = (_largest_error(table, epsilon, delta) for table in tables)
        print(f"| {epsilon:g} | {old:.2%} | {new:.2%} |")


def _all_bounds(bound: Counted, n: int, delta: float) -> npt.NDArray[np.float64]:
    found = np.zeros((n + 1, n + 1))
    for x, y in product(range(n + 1), range(n + 1)):
        if x > y:
            found[x, y] = bound(x, n - x, y, n - y, delta).epsilon or 0.0
    return found


def _largest_error(table: npt.NDArray[np.float64], epsilon: float, delta: float) -> float:
    k, slope = np.arange(len(table)), math.exp(epsilon)
    p = np.linspace(0.0, 1.0, 2001)[:, None]
    q = np.clip(np.maximum((p - delta) / slope, 1 - delta - slope * (1 - p)), 0.0, 1.0)
    n = len(table) - 1
    chances = binom.pmf(k, n, p) @ (table > epsilon)
    return float((chances * binom.pmf(k, n, q)).sum(1).max())


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, nargs="+", default=[100, 200, 400, 1000])
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--enumerate", type=int, default=30, help="pairs of the second table")
    options = parser.parse_args()
    gains(options.pairs, options.delta)
    errors(options.enumerate, options.delta)


if __name__ == "__main__":
    main()
