"""How many pairs does the learned witness need, and how often does it accuse a silent system?

Each system leaks through one channel that is on with probability .30 (canary in) or .10 (canary
out): true epsilon ln 3. Tested: epsilon .25, delta 1e-5, alpha .05. Systems whose sentences change
their order get 400 pairs, others 200. A silent system has its channel on with probability .20 in
both contexts. --holdout runs other simulators, which nobody looked at while constants were chosen.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np
from witness_holdout import HOLDOUT, holdout_pairs

from leakbound.privacy import ApproxDP
from leakbound.stats.witness import ReplyFacts, WitnessProcess
from leakbound.testing.channels import CHANNELS, RATE_IN, RATE_OUT, reply_pairs

CLAIM, DELTA = 0.25, 1e-5
LEAK, SILENT = (RATE_IN, RATE_OUT), (0.2, 0.2)
Pairs = Callable[[str, int, int, tuple[float, float]], Iterator[tuple[ReplyFacts, ReplyFacts]]]


def tuned_pairs(
    kind: str, pairs: int, seed: int, rates: tuple[float, float]
) -> Iterator[tuple[ReplyFacts, ReplyFacts]]:
    """Pairs of one of the simulators that the constants were chosen on."""
    return reply_pairs(CHANNELS[kind], pairs, seed, rates)


def audit(
    pairs: Pairs, kind: str, seed: int, count: int, rates: tuple[float, float], claim: float
) -> WitnessProcess:
    """One audit; it stops at the first rejection."""
    process = WitnessProcess(ApproxDP(claim, DELTA), horizon=count, scan=())
    for reply_in, reply_out in pairs(kind, count, seed, rates):
        process.observe(reply_in, reply_out)
        if process.rejected:
            break
    return process


def power(pairs: Pairs, kinds: list[str], seeds: range) -> None:
    """Median number of pairs, and share of runs rejected in time, of each kind of channel."""
    needed = []
    for kind in kinds:
        count = 400 if kind.startswith("order") else 200
        found = [audit(pairs, kind, seed, count, LEAK, CLAIM).rejected_at for seed in seeds]
        each = np.array([at or math.inf for at in found])
        needed.extend(each)
        share = (each <= count).mean()
        print(f"{kind:22s} median {np.median(each):5.0f}  within {count}: {share:.2f}", flush=True)
    print(f"all kinds              median {np.median(needed):5.0f}")


def false_alarms(pairs: Pairs, kinds: list[str], seeds: range, claim: float, true: float) -> int:
    """Silent (true = 0) or boundary systems that are accused, in turns of the kinds."""
    high = SILENT[1] * math.exp(true)
    accused = 0
    for done, seed in enumerate(seeds, 1):
        rates = (high, SILENT[1])
        accused += audit(pairs, kinds[seed % len(kinds)], seed, 200, rates, claim).rejected
        if done % 50 == 0:
            print(f"claim {claim}, true {true}: {accused} of {done} accused", flush=True)
    return accused


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20, help="runs of each kind of channel")
    parser.add_argument("--silent", type=int, default=0, help="runs of silent systems a claim")
    parser.add_argument("--boundary", type=int, default=0, help="runs at true epsilon .25")
    parser.add_argument("--seed", type=int, default=100_000)
    parser.add_argument("--holdout", action="store_true")
    options = parser.parse_args()
    pairs = holdout_pairs if options.holdout else tuned_pairs
    kinds = list(HOLDOUT if options.holdout else CHANNELS)
    start = time.process_time()
    if options.runs:
        power(pairs, kinds, range(options.seed, options.seed + options.runs))
    silent = range(options.seed + 500_000, options.seed + 500_000 + options.silent)
    for claim in (0.0, CLAIM) if options.silent else ():
        print(f"claim {claim}: {false_alarms(pairs, kinds, silent, claim, 0.0)} of {len(silent)}")
    edge = range(options.seed + 700_000, options.seed + 700_000 + options.boundary)
    if options.boundary:
        print(f"boundary: {false_alarms(pairs, kinds, edge, CLAIM, CLAIM)} of {len(edge)}")
    print(f"{time.process_time() - start:.0f} seconds of processor time")
    return 0


if __name__ == "__main__":
    sys.exit(main())
