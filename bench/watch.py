"""False alarms of `leakbound watch` in a year, and the runs after which it finds a leak.

`python bench/watch.py` prints the table of docs/watch.md. Days are drawn from e-values that the
e-process of an audit gave for 20 pairs of single answers at claim 1.
"""

from __future__ import annotations

import math

import numpy as np
from leakbound_hosts.watch import NOTHING

from leakbound.privacy import ApproxDP
from leakbound.stats import EProcess
from leakbound.stats.arrays import Floats

PAIRS, RUNS, ALARMS, CALM = 20, 365, 0.05, 200
CLAIM = ApproxDP(1.0, 1e-5)
EDGE = math.e / (1 + math.e)  # randomised response at exactly the claim
LEAKS = ((0.99, 0.01), (0.9, 0.05), (0.7, 0.1), (0.5, 0.05), (0.6, 0.15), (0.85, 0.25))


def days(hit: float, alarm: float, number: int, seed: int) -> Floats:
    rng, found = np.random.default_rng(seed), np.empty(number)
    for day in range(number):
        process = EProcess(CLAIM, confidence=0.95)
        scores = rng.random((2, PAIRS, 1)) < np.array([hit, alarm])[:, None, None]
        process.extend(*scores.astype(float))
        found[day] = process.log_e_values[-1]
    return found


def alarms_of(pools: list[tuple[Floats, int]], number: int, seed: int) -> Floats:
    """The run of each simulated year that raised the alarm; inf if none did."""
    rng, state, first = (
        np.random.default_rng(seed),
        np.full(number, NOTHING),
        np.full(number, np.inf),
    )
    run = 0
    for pool, runs in pools:
        for _ in range(runs):
            run += 1
            state = np.logaddexp(state, -math.log(RUNS)) + rng.choice(pool, number)
            first[np.isinf(first) & (state >= -math.log(ALARMS))] = run
    return first


def main() -> None:
    calm = days(EDGE, 1 - EDGE, 4_000, 1)
    share = np.mean(np.isfinite(alarms_of([(calm, RUNS)], 10_000, 2)))
    print(
        f"false alarms in a year at exactly the claim: {share:.2%} of 10,000 (at most {ALARMS:.0%})"
    )
    print("| sees the canary / false alarms | runs, median | 95 % of years |\n|---|---|---|")
    for at, (hit, alarm) in enumerate(LEAKS):
        leak = days(hit, alarm, 1_000, 10 + at)
        found = alarms_of([(calm, CALM), (leak, RUNS - CALM)], 4_000, 20 + at)
        after = np.where(found > CALM, found - CALM, np.inf)
        half, most = (np.quantile(after, one, method="higher") for one in (0.5, 0.95))
        shown = [f"{one:g}" if np.isfinite(one) else "not found" for one in (half, most)]
        print(f"| {hit:g} / {alarm:g} | {' | '.join(shown)} |")


if __name__ == "__main__":
    main()
