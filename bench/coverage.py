"""Do the bounds hold, and how tight are they? Simulated audits of systems with known truth.

Three parts: whole audits of correct systems, by their verdict; every lower bound where it fails
first; and bounds on votes of T = 4 partitions, 200 pairs, held against the stated ones less two
standard errors. `--kept FILE` keeps finished cells, so that a run may be cut and goes on.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path

from correct_systems import CLAIMS, KINDS, Accused, audited
from coverage_cells import DOUBT, Cell, Kept, interval
from hard_scenes import DELTAS, SIZES, adaptive, boundary, exact_cells, scores
from vote_scenes import NOISE, hard, tight

TARGETS = {
    "e_process mu": (0.244, 0.484, 0.930, 1.26),
    "e_process eps": (0.81, 1.37, 1.75, 1.80),
}
WITHIN = 0.92  # of the truth, for deterministic votes, by the e-process
ALLOWED = {420: 30}  # the upper 97.5 % point of correct systems accused at 5 %
TITLE = """# Coverage and tightness

Written by `make coverage`; this page with `{options}`. All bounds are stated at 95 % confidence.
"""
SYSTEMS = """## Correct systems, audited from end to end

`leakbound.audit` with its default options (100 pairs, 8 control pairs, state check; free text is \
also read by the learned witness), of systems that leak exactly as much as they claim, at claims \
0 (given as 1e-9), 0.25, 1, 4 and 8 in turn. At 5 % of false alarms, more than 30 of 420 would be \
accused with a probability of 2.5 %. The state check errs in 1 % of audits of a stateless system; \
“turning” reads its own answers, so there it is right. Claims of 4 and 8 cannot be rejected by \
answers alone in 100 pairs.

| system | ends early | audits | accused (violation) | 95 % interval | state found |
| --- | --- | --- | --- | --- | --- |
"""
HARD = f"""## Where a bound fails first

Systems on the boundary of what they claim, few pairs, systems that adapt to their own past \
(bounds that hold at any stopping time alone claim to hold there), ties, heavy tails, 2 to 40 \
partitions, δ from 0 to 0.1. The truth is the largest ε or μ that any threshold shows. “Misses” \
is the share of audits whose bound exceeds it: in the worst cell, and in all cells with its 95 % \
interval. Bounds from counts \
of randomised response are summed over all outcomes, without simulation. A simulated cell holds if \
a one-sided binomial test at {DOUBT:.0%} does not reject a coverage of 95 %. e-processes plan to \
stop early in every other audit, and are read at every pair.

| setting | estimator | cells | audits a cell | worst cell | misses there | misses in all | |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""
TIGHT = """## Tightness

200 paired trials, T = 4 partitions, δ = 1e-05. The canary's partition says yes with probability a \
(canary in) or b (canary out), every other one with probability b; μ is that of one vote. The mean \
may not be below the target by more than two standard errors. With few audits a cell this is a \
coarse test: 400 audits of the four cells of the default estimator lie up to .005 below their \
targets ([missed aims](statistics.md#what-was-aimed-at-and-not-reached)). Where nothing leaks \
(a = b), “share” is the share of audits with a positive bound (marked +).

| estimator | a | b | μ | audits | truth | mean bound | ± | share of truth | coverage | target | |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""


def systems(kept: Kept, audits: int, seed: int) -> Iterator[tuple[str, bool, list[Accused]]]:
    """Audits of each kind, without and with early stopping; claims in turn."""
    each = audits // len(KINDS)
    for early, kind in product((False, True), KINDS):
        rows: list[dict[str, object]] = []
        for claim in CLAIMS:
            indices = range(each // len(CLAIMS))
            key = f"{seed} systems {kind} {claim} {early} {len(indices)}"
            rows += kept.of(
                key, lambda claim=claim, kind=kind, early=early, indices=indices: [
                    asdict(audited(kind, claim, i, early, seed)) for i in indices
                ],
            )  # fmt: skip
        found = [Accused(**row) for row in rows]  # type: ignore[arg-type]
        print(f"{kind}, early {early}: {accused(found)} of {len(found)} accused", flush=True)
        yield kind, early, found


def accused(found: Sequence[Accused]) -> int:
    return sum(one.verdict == "violation" for one in found)


def system_table(done: list[tuple[str, bool, list[Accused]]]) -> tuple[str, bool]:
    """Rows for each kind and in all, and whether few enough were accused."""
    rows, holds = "", True
    for early in (False, True):
        parts = [(kind, found) for kind, ends, found in done if ends == early]
        every = [one for _, found in parts for one in found]
        for kind, found in [*parts, ("**all**", every)]:
            rows += system_row(kind, early, found)
        most = ALLOWED.get(len(every), interval(round(0.05 * len(every)), len(every))[1])
        holds &= accused(every) <= most
    return rows, holds


def system_row(kind: str, early: bool, found: list[Accused]) -> str:
    count, low_high = accused(found), interval(accused(found), len(found))
    seen = sum(one.stateful or one.reason == "stateful_system" for one in found)
    return (
        f"| {kind} | {'yes' if early else 'no'} | {len(found)} | {count} | "
        f"{low_high[0]:.1%} to {low_high[1]:.1%} | {seen} |\n"
    )


def hard_cells(kept: Kept, audits: int, seed: int) -> Iterator[Cell]:
    """Every bound where it fails first."""
    for pairs, delta in product(SIZES, DELTAS):
        rows = kept.of(
            f"exact {pairs} {delta}",
            lambda pairs=pairs, delta=delta: [asdict(one) for one in exact_cells(pairs, delta)],
        )
        yield from (Cell(**row) for row in rows)  # type: ignore[arg-type]
    for settings in (boundary(audits), adaptive(audits), scores(audits // 2), hard(audits // 16)):
        yield from kept.cells(settings, seed)


def hard_table(cells: list[Cell]) -> str:
    """A row for each family and estimator."""
    groups: dict[tuple[str, str], list[Cell]] = defaultdict(list)
    for cell in cells:
        groups[cell.family, cell.estimator].append(cell)
    return "".join(hard_row(*key, group) for key, group in groups.items())


def hard_row(family: str, estimator: str, group: list[Cell]) -> str:
    worst = max(group, key=lambda cell: cell.missed)
    where = f"{worst.setting}; {worst.pairs} pairs, δ = {worst.delta:g}" if worst.missed else "–"
    bad = sum(not cell.valid for cell in group)
    audits = sum(cell.audits for cell in group)
    share = sum(cell.missed for cell in group) / len(group)
    if audits:
        low, high = interval(round(sum(one.missed * one.audits for one in group)), audits)
        every = f"{share:.2%} ({low:.2%} to {high:.2%})"
    else:
        every = f"{share:.2%}"
    return (
        f"| {family} | {estimator} | {len(group)} | {worst.audits or 'exact'} | {where} | "
        f"{worst.missed:.1%} | {every} | {f'**{bad} fail**' if bad else 'holds'} |\n"
    )


def target(cell: Cell) -> float | None:
    a, b, mu = map(float, cell.setting.split())
    if (a, b) == (0.9, 0.02) and cell.estimator in TARGETS:
        return TARGETS[cell.estimator][NOISE.index(mu)]
    perfect = (a, b) == (1.0, 0.0) and cell.estimator == "e_process mu"
    return WITHIN * cell.truth if perfect else None


def reaches(cell: Cell) -> bool:
    aim = target(cell)
    return cell.valid and (aim is None or cell.mean >= aim - 2 * cell.error)


def tight_row(cell: Cell) -> str:
    leaks = cell.truth > 1e-9
    share = f"{cell.mean / cell.truth:.1%}" if leaks else f"{cell.positive:.1%}+"
    aim = target(cell)
    return (
        f"| {cell.estimator} | {' | '.join(cell.setting.split())} | {cell.audits} | "
        f"{cell.truth:.3f} | {cell.mean:.3f} | {cell.error:.3f} | {share} | {1 - cell.missed:.1%} |"
        f" {'' if aim is None else f'{aim:.3f}'} | {'holds' if reaches(cell) else '**fails**'} |\n"
    )


def summed(name: str, held: int, of: int) -> str:
    return f"**{name}: {held} of {of} cells hold.**\n\n"


def pages(kept: Kept, given: argparse.Namespace) -> Iterator[tuple[str, bool]]:
    """The sections of the page, and whether each holds."""
    table, holds = system_table(list(systems(kept, given.systems, given.seed)))
    yield SYSTEMS + table + "\n", holds
    found = list(hard_cells(kept, given.audits, given.seed))
    held = sum(cell.valid for cell in found)
    head, _, body = HARD.partition("\n\n")
    middle = summed("Validity", held, len(found)) + body + hard_table(found) + "\n"
    yield f"{head}\n\n{middle}", held == len(found)
    found = list(kept.cells(tight(given.tight, given.slow), given.seed))
    held = sum(map(reaches, found))
    head, _, body = TIGHT.partition("\n\n")
    rows = "".join(map(tight_row, sorted(found, key=lambda cell: cell.estimator)))
    yield f"{head}\n\n{summed('Tightness', held, len(found))}{body}{rows}", held == len(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--systems", type=int, default=420, help="correct systems, without and with early stopping")
    add("--audits", type=int, default=400, help="simulated audits in each hard cell")
    add("--tight", type=int, default=1000, help="simulated audits in each tight cell")
    add("--slow", type=int, default=150, help="the same for estimators that take longer")
    add("--seed", type=int, default=0)
    add("--write", type=Path, help="also write the tables to this Markdown file")
    add("--kept", type=Path, help="file of finished cells, which are not made again")
    given = parser.parse_args()
    counts = {name: getattr(given, name) for name in ("systems", "audits", "tight", "slow", "seed")}
    title = TITLE.format(options=" ".join(f"--{name} {n}" for name, n in counts.items()))
    start, text, good = time.process_time(), title, True
    for section, holds in pages(Kept(given.kept), given):
        text, good = f"{text}\n{section}", good and holds
        print(section, flush=True)
        if given.write:
            given.write.write_text(text.rstrip() + "\n", encoding="utf-8")
    print(f"{time.process_time() - start:.0f} seconds of processor time")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
