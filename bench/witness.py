"""How many pairs does the learned witness need, and how often does it accuse a silent system?

    python bench/witness.py [--write docs/measured/witness.md] [--only surfaces,...]

Each system leaks through one channel that is on with probability .30 (canary in) or .10 (canary
out): true epsilon ln 3. Tested: epsilon .25, delta 1e-5, alpha .05. Systems whose sentences change
their order get 400 pairs, others 200. A silent system has its channel on with probability .20 in
both contexts, one on the boundary with .20 e^.25 and .20. "Other simulators" are those of
witness_holdout.py, whose results nobody looked at while constants were chosen. Of the surfaces of
witness_surfaces.py one seed was looked at, and two readings were added for what it showed.
bench/results/witness.json keeps each audit, and the same command goes on;
audits of another state of the witness are dropped.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import leakbound_lab.planted.channels
import numpy as np
from leakbound_lab.planted.channels import CHANNELS, RATE_IN, RATE_OUT, reply_pairs
from scipy.stats import beta
from witness_holdout import HOLDOUT, holdout_pairs
from witness_surfaces import SURFACES, surface_pairs

import leakbound.witness
from leakbound.privacy import ApproxDP
from leakbound.witness import StoredReply, WitnessProcess, mask_reply

CLAIM, DELTA = 0.25, 1e-5
LEAK, SILENT = (RATE_IN, RATE_OUT), 0.2
STRONG = {"0.9 and 0.05": (0.9, 0.05), "0.5 and 0.1": (0.5, 0.1)}
SEED = 300_000  # of the figures in the docs; constants were chosen on seeds below 10,000
SURFACE_SEEDS, SILENT_SEEDS, EDGE_SEEDS = 1_000, 500_000, 700_000  # beyond the first
MOST_SILENT = 83  # seeds of each kind
GOAL = 0.8  # share of runs that should be rejected in time
SAVED = 60.0  # seconds between two times
RESULTS = Path(__file__).parent / "results" / "witness.json"
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
([systems](../systems.md)), and the witness sees no more than that.
"""


def tuned_pairs(kind: str, pairs: int, seed: int, rates: tuple[float, float]) -> Replies:
    """Pairs of one of the simulators that the constants were chosen on."""
    return reply_pairs(CHANNELS[kind], pairs, seed, rates)


def masked_pairs(kind: str, pairs: int, seed: int, rates: tuple[float, float]) -> Replies:
    """What a run that does not store texts keeps of them."""
    return ((mask_reply(x), mask_reply(y)) for x, y in tuned_pairs(kind, pairs, seed, rates))


SIMULATORS: dict[str, Pairs] = {
    "twelve": tuned_pairs,
    "masked": masked_pairs,
    "others": holdout_pairs,
    "surfaces": surface_pairs,
}


def state_of_the_witness() -> str:
    """A digest of what the outcome of an audit depends on."""
    digest = sha256()
    files = sorted(Path(leakbound.witness.__file__).parent.rglob("*.py"))
    files += [Path(leakbound_lab.planted.channels.__file__)]
    files += [Path(__file__).with_name(f"witness_{name}.py") for name in ("holdout", "surfaces")]
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


class Audits:
    """Pairs until each audit rejected, none where it did not; kept in a file as they come."""

    def __init__(self, file: Path) -> None:
        self.file, self.state, self.saved = file, state_of_the_witness(), time.monotonic()
        kept = json.loads(file.read_text("utf-8")) if file.exists() else {}
        same = kept.get("witness") == self.state
        self.known: dict[str, list[int | None]] = kept["audits"] if same else {}

    def run(
        self, simulator: str, kind: str, rates: tuple[float, float], seeds: range, claim: float,
        count: int,
    ) -> list[int | None]:  # fmt: skip
        """One audit a seed; each stops at its first rejection."""
        key = f"{simulator}, {kind}, {rates[0]:.6g} {rates[1]:.6g}, claim {claim}, from {seeds[0]}"
        found = self.known.setdefault(key, [])
        for seed in seeds[len(found) :]:
            process = WitnessProcess(ApproxDP(claim, DELTA), horizon=count, scan=())
            for reply_in, reply_out in SIMULATORS[simulator](kind, count, seed, rates):
                process.observe(reply_in, reply_out)
                if process.rejected:
                    break
            found.append(process.rejected_at if process.rejected else None)
            if time.monotonic() - self.saved > SAVED:
                self.save()
        return found[: len(seeds)]

    def save(self) -> None:
        lists = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in self.known.items())
        text = f'{{"witness": "{self.state}", "audits": {{\n{lists}\n}}}}\n'
        self.file.write_text(text, "utf-8")
        self.saved = time.monotonic()


def power(
    audits: Audits, simulator: str, kinds: list[str], seeds: range, rates: tuple[float, float]
) -> tuple[list[str], np.ndarray]:
    """Rows of a table: median number of pairs, and share of runs that are rejected in time."""
    needed, rows, missed = [], [], []
    for kind in kinds:
        count = 400 if kind.startswith("order") else 200
        found = audits.run(simulator, kind, rates, seeds, CLAIM, count)
        each = np.array([at or math.inf for at in found])
        needed.append(each)
        share = (each <= count).mean()
        missed += [kind] if share < GOAL else []
        rows.append(f"| {kind} | {_pairs(each, count)} | {share:.2f} | {count} |")
        print(rows[-1], flush=True)
    rows.append(f"| all kinds | {_pairs(np.concatenate(needed), 400)} | | |")
    print(rows[-1], flush=True)
    return [*rows, "", f"Below {GOAL:.2f}: {', '.join(missed) or 'none'}."], np.array(needed)


def _pairs(each: np.ndarray, count: int) -> str:
    middle = float(np.median(each))
    return f"{middle:.0f}" if math.isfinite(middle) else f"> {count}"


def false_alarms(
    audits: Audits, kinds: list[str], first: int, runs: int, claim: float, true: float
) -> str:
    """Row of a table: systems that keep the claim and are accused, the same number of each kind."""
    rates, each = (SILENT * math.exp(true), SILENT), min(runs // len(kinds), MOST_SILENT)
    accused = 0
    for at, kind in enumerate(kinds):
        seeds = range(first + at * MOST_SILENT, first + at * MOST_SILENT + each)
        found = audits.run("twelve", kind, rates, seeds, claim, 200)
        accused += sum(one is not None for one in found)
        print(f"claim {claim}, true {true}: {accused} accused, {kind} is done", flush=True)
    all_runs = each * len(kinds)
    most = beta.ppf(0.975, accused + 1, all_runs - accused)
    return f"| {true:g} | {claim:g} | {accused} of {all_runs} | {most:.1%} |"


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


def surface_table(audits: Audits, seeds: range) -> str:
    """The section on strong leaks: pairs to a rejection on each surface."""
    found = {
        title: power(audits, "surfaces", list(SURFACES), seeds, rates)[1]
        for title, rates in STRONG.items()
    }
    head = (
        f"## {len(SURFACES)} surfaces, strong leaks\n\n{len(seeds)} audits of each. The surface of "
        "a reply is changed with the first probability in the canary-in context and with the "
        "second in the canary-out context. The number is the median of pairs to a rejection.\n"
    )
    columns = f"| surface | {' | '.join(found)} |\n| --- |{' --- |' * len(found)}"
    rows = [
        f"| {name} | {' | '.join(_pairs(each[at], 200) for each in found.values())} |"
        for at, name in enumerate(SURFACES)
    ]
    rows.append(f"| all | {' | '.join(_pairs(each, 200) for each in found.values())} |")
    return "\n".join([head, columns, *rows, ""])


def sections(audits: Audits, options: argparse.Namespace) -> Iterator[str]:
    """The page, section by section."""
    first, kinds = options.seed, list(CHANNELS)
    wanted = options.only.split(",")
    if "twelve" in wanted:
        rows, _ = power(audits, "twelve", kinds, range(first, first + options.runs), LEAK)
        yield power_table("Twelve kinds of channel", options.runs, rows)
    if "surfaces" in wanted:
        seeds = range(first + SURFACE_SEEDS, first + SURFACE_SEEDS + options.surfaces)
        yield surface_table(audits, seeds)
    if "silent" in wanted:
        silent, edge = first + SILENT_SEEDS, first + EDGE_SEEDS
        alarms = [
            false_alarms(audits, kinds, silent, options.silent, claim, 0.0)
            for claim in (0.0, CLAIM)
        ]
        if options.boundary:
            alarms.append(false_alarms(audits, kinds, edge, options.boundary, CLAIM, CLAIM))
        yield alarm_table(alarms)
    if "masked" in wanted:
        rows, _ = power(audits, "masked", kinds, range(first, first + options.masked), LEAK)
        yield power_table("Without the text", options.masked, rows) + MASKED
    if "others" in wanted:
        rows, _ = power(audits, "others", list(HOLDOUT), range(first, first + options.others), LEAK)
        yield power_table("Other simulators of the same kinds", options.others, rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=50, help="runs of each kind of channel")
    parser.add_argument("--silent", type=int, default=996, help="runs of silent systems a claim")
    parser.add_argument("--boundary", type=int, default=0, help="runs at true epsilon .25")
    parser.add_argument("--others", type=int, default=12, help="runs of each other simulator")
    parser.add_argument("--surfaces", type=int, default=10, help="runs of each surface")
    parser.add_argument("--masked", type=int, default=10, help="runs of each kind without text")
    parser.add_argument("--only", default="twelve,surfaces,silent,masked,others")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--results", type=Path, default=RESULTS, help="file that keeps each audit")
    parser.add_argument("--write", help="also write the tables to this Markdown file")
    options = parser.parse_args()
    page, audits = [INTRO], Audits(options.results)
    for section in sections(audits, options):
        audits.save()
        page.append(section)
        print(section, flush=True)
        if options.write:
            Path(options.write).write_text("\n".join(page), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
