"""How soon defects of tenants are found, and how seldom isolated twins are accused.

`python bench/tenants.py` goes on where it stopped: audits are kept in bench/results/tenants.json.
`--write docs/measured/rag.md` writes the table of what is kept.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from stores import DISPOSABLE
from tenants import CHANNELS, DEFECTS, Desk

import leakbound

KEPT = Path(__file__).parent / "results" / "tenants.json"
BEGIN, END = "<!-- bench/tenants.py -->", "<!-- end -->"
RATES = {1.0: 40, 0.5: 60, 0.2: 150}  # how often a defect shows, and the pairs of an audit
NEVER = 10**6  # the pair of an audit that did not reject
SEEDS, TWINS = 10, 400


def audited(desk: Desk, seed: int, pairs: int) -> leakbound.AuditResult:
    with tempfile.TemporaryDirectory() as out:
        return leakbound.audit(
            system=desk, design="tenants", pairs=pairs, seed=seed, simulations=0, out=out,
            channels=CHANNELS.get(desk.defect), calls=DISPOSABLE,
        )  # fmt: skip


def trials() -> Iterator[tuple[str, Desk, int, int]]:
    """Name, application, seed and pairs of each audit."""
    for seed in range(max(SEEDS, TWINS)):
        if seed < TWINS:
            defect = DEFECTS[seed % len(DEFECTS)]
            yield f"twin {seed}", Desk(defect, isolated=True, seed=seed), seed, 40
        for rate, pairs in RATES.items() if seed < SEEDS else ():
            for defect in DEFECTS:
                desk = Desk(defect, rate=rate, seed=seed)
                yield f"{defect} {rate} {seed}", desk, seed, pairs


def found(result: leakbound.AuditResult) -> str | int:
    """The pair at which isolation was rejected; of others, the verdict."""
    at = result.e_values.rejected_at if result.e_values else None
    return at if result.verdict == "violation" and at else str(result.verdict)


def table(kept: dict[str, Any]) -> Iterator[str]:
    yield "| defect | " + " | ".join(f"shows in {rate:.0%}" for rate in RATES) + " | audits each |"
    yield f"| ---{' | ---' * (len(RATES) + 1)} |"
    for defect in DEFECTS:
        cells, counts = [], []
        for rate in RATES:
            every = [v for name, v in kept.items() if name.startswith(f"{defect} {rate} ")]
            pairs = [one if isinstance(one, int) else NEVER for one in every]
            at = median(pairs) if pairs else NEVER
            cells.append("not found" if at >= NEVER else f"{at:g}")
            counts.append(len(every))
        yield f"| `{defect}` | {' | '.join(cells)} | {min(counts)} |"
    twins = Counter(
        value if isinstance(value, str) else "violation"
        for name, value in kept.items() if name.startswith("twin")
    )  # fmt: skip
    yield ""
    counts = ", ".join(
        f"{twins[one]} {one}" for one in ("no_violation", "violation", "inconclusive")
    )
    number = f"{sum(twins.values())} audits (goal: {TWINS})"
    yield f"Isolated twins: {number}, {counts}; 5 % may be accused."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    kept: dict[str, Any] = json.loads(KEPT.read_text()) if KEPT.is_file() else {}
    for name, desk, seed, pairs in () if given.write else trials():
        if name not in kept:
            kept[name] = found(audited(desk, seed, pairs))
            KEPT.write_text(json.dumps(kept, indent=0) + "\n")
            print(name, kept[name], flush=True)
    lines = "\n".join(table(kept))
    print(lines)
    if given.write is not None:
        text = given.write.read_text(encoding="utf-8")
        before, after = text.split(BEGIN)[0], text.split(BEGIN)[1].partition(END)[2]
        given.write.write_text(f"{before}{BEGIN}\n\n{lines}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
