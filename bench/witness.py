"""How many pairs does the learned witness need, and how often does it accuse a silent system?

Each system leaks through one channel that is on with probability .30 (canary in) or .10 (canary
out): true epsilon ln 3. Tested: epsilon .25, delta 1e-5, alpha .05. Systems whose sentences change
their order get 400 pairs, others 200. A silent system has its channel on with probability .20 in
both contexts, one on the boundary with .20 e^.25 and .20. "Other simulators" are those of
witness_holdout.py, whose results nobody looked at while constants were chosen.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from leakbound_lab.planted.channels import CHANNELS, RATE_IN, RATE_OUT, reply_pairs
from scipy.stats import beta
from witness_holdout import HOLDOUT, holdout_pairs

from leakbound.privacy import ApproxDP
from leakbound.witness import StoredReply, WitnessProcess, mask_reply

CLAIM, DELTA = 0.25, 1e-5
LEAK, SILENT = (RATE_IN, RATE_OUT), 0.2
SEED = 300_000  # of the figures in the docs; constants were chosen on seeds below 10,000
SILENT_SEEDS, EDGE_SEEDS = 500_000, 700_000  # beyond the first
GOAL = 0.8  # share of runs that should be rejected in time
Replies = Iterator[tuple[StoredReply, StoredReply]]
Pairs = Callable[[str, int, int, tuple[float, float]], Replies]
INTRO = """# The learned witness: power and false alarms

Written by `make witness`. A simulated system leaks through one channel of its reply, which is on \
with probability 0.30 in the canary-in context and 0.10 in the canary-out context, so its true ε \
is ln 3 ≈ 1.10. An audit tests the claim ε = 0.25, δ = 1e-5 at 95 % confidence with the learned \
witness alone. It is not told which channel there is. “Pairs” is the median number of paired \
trials to a rejection.
"""


MASKED = """
A run with `--store-text canary_only` or `none` keeps numbers and public words of a reply only \
([systems](systems.md)), and the witness sees no more than that.
"""


def tuned_pairs(kind: str, pairs: int, seed: int, rates: tuple[float, float]) -> Replies:
    """Pairs of one of the simulators that the constants were chosen on."""
    return reply_pairs(CHANNELS[kind], pairs, seed, rates)


def masked_pairs(kind: str, pairs: int, seed: int, rates: tuple[float, float]) -> Replies:
    """What a run that does not store texts keeps of them."""
    return ((mask_reply(x), mask_reply(y)) for x, y in tuned_pairs(kind, pairs, seed, rates))


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


def power(pairs: Pairs, kinds: list[str], seeds: range) -> list[str]:
    """Rows of a table: median number of pairs, and share of runs that are rejected in time."""
    needed, rows, missed = [], [], []
    for kind in kinds:
        count = 400 if kind.startswith("order") else 200
        found = [audit(pairs, kind, seed, count, LEAK, CLAIM).rejected_at for seed in seeds]
        each = np.array([at or math.inf for at in found])
        needed.extend(each)
        share = (each <= count).mean()
        missed += [kind] if share < GOAL else []
        rows.append(f"| {kind} | {_pairs(each, count)} | {share:.2f} | {count} |")
        print(rows[-1], flush=True)
    rows.append(f"| all kinds | {_pairs(np.array(needed), 400)} | | |")
    print(rows[-1], flush=True)
    return [*rows, "", f"Below {GOAL:.2f}: {', '.join(missed) or 'none'}."]


def _pairs(each: np.ndarray, count: int) -> str:
    middle = float(np.median(each))
    return f"{middle:.0f}" if math.isfinite(middle) else f"> {count}"


def false_alarms(kinds: list[str], seeds: range, claim: float, true: float) -> str:
    """Row of a table: systems that keep the claim and are accused, in turns of the kinds."""
    rates, accused = (SILENT * math.exp(true), SILENT), 0
    for done, seed in enumerate(seeds, 1):
        accused += audit(tuned_pairs, kinds[seed % len(kinds)], seed, 200, rates, claim).rejected
        if done % 100 == 0:
            print(f"claim {claim}, true {true}: {accused} of {done} accused", flush=True)
    most = beta.ppf(0.975, accused + 1, len(seeds) - accused)
    return f"| {true:g} | {claim:g} | {accused} of {len(seeds)} | {most:.1%} |"


def power_table(title: str, runs: int, rows: list[str]) -> str:
    """A section of the page."""
    head = f"## {title}\n\n{runs} audits of each kind.\n"
    columns = "| channel | pairs | share rejected | within pairs |\n| --- | --- | --- | --- |"
    return "\n".join([head, columns, *rows, ""])


def alarm_table(rows: list[str]) -> str:
    """The section on systems that keep the claim."""
    head = (
        "## Systems that keep the claim\n\n200 pairs each; the channel is on equally often in both "
        "contexts (true ε 0), or as much more often as the claim allows. The last column is the "
        "upper end of a 95 % interval for the share that is accused; the test allows 5 %.\n"
    )
    columns = "| true ε | claim | accused | at most |\n| --- | --- | --- | --- |"
    return "\n".join([head, columns, *rows, ""])


def sections(options: argparse.Namespace) -> Iterator[str]:
    """The page, section by section."""
    first, kinds = options.seed, list(CHANNELS)
    if options.runs:
        rows = power(tuned_pairs, kinds, range(first, first + options.runs))
        yield power_table("Twelve kinds of channel", options.runs, rows)
    silent = range(first + SILENT_SEEDS, first + SILENT_SEEDS + options.silent)
    edge = range(first + EDGE_SEEDS, first + EDGE_SEEDS + options.boundary)
    alarms = [false_alarms(kinds, silent, claim, 0.0) for claim in (0.0, CLAIM) if silent]
    alarms += [false_alarms(kinds, edge, CLAIM, CLAIM)] if edge else []
    if alarms:
        yield alarm_table(alarms)
    if options.masked:
        rows = power(masked_pairs, kinds, range(first, first + options.masked))
        yield power_table("Without the text", options.masked, rows) + MASKED
    if options.holdout:
        rows = power(holdout_pairs, list(HOLDOUT), range(first, first + options.holdout))
        yield power_table("Other simulators of the same kinds", options.holdout, rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=50, help="runs of each kind of channel")
    parser.add_argument("--silent", type=int, default=1000, help="runs of silent systems a claim")
    parser.add_argument("--boundary", type=int, default=0, help="runs at true epsilon .25")
    parser.add_argument("--holdout", type=int, default=12, help="runs of each other simulator")
    parser.add_argument("--masked", type=int, default=10, help="runs of each kind without text")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--write", help="also write the tables to this Markdown file")
    options = parser.parse_args()
    start, page = time.process_time(), [INTRO]
    for section in sections(options):
        page.append(section)
        print(section, flush=True)
        if options.write:
            Path(options.write).write_text("\n".join(page), encoding="utf-8")
    print(f"{time.process_time() - start:.0f} seconds of processor time")
    return 0


if __name__ == "__main__":
    sys.exit(main())
