"""What a spend and an open of a ledger cost, in CPU time and memory of this process.

    python bench/ledger.py [--records 20 10000 1000000] [--answers 0 10000 100000]

First contexts of so many records, then contexts of 20 records after so many earlier answers, each
of 20 among 10,000 records. Earlier answers are written in one transaction, by what a spend calls.
"""

from __future__ import annotations

import argparse
import math
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from leakbound.privacy import PureDP
from leakbound.serving.ledger import Ledger, tables
from leakbound.serving.ledger.units import to_json

PRICE = PureDP(1e-6)
SMALL, PEOPLE = 20, 10_000


def memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def cpu(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def of_records(count: int, folder: Path) -> str:
    names = tuple(f"person {i}" for i in range(count))
    ledger, before = Ledger(folder / "ledger", 1.0, 1e-5), memory()
    first, *later = (cpu(lambda: ledger.spend(names, PRICE)) for _ in range(4))
    more = memory() - before
    begin = cpu(lambda: Ledger(folder / "ledger", 1.0, 1e-5))
    return (
        f"{count:>9,} records: first spend {first:.3f} s, next {sorted(later)[1]:.3f} s, "
        f"{more:.0f} MB more; open {begin:.3f} s"
    )


def of_answers(count: int, budget: float, folder: Path) -> str:
    draw, people = random.Random(0), [f"person {i}" for i in range(PEOPLE)]
    ledger = Ledger(folder / "ledger", budget, 1e-5)
    for _ in range(3):  # the first one loads scipy
        ledger.spend(draw.sample(people, SMALL), PRICE)
    with ledger._storage.transaction(write=True) as db:
        values = tables.total(db)
        for _ in range(count):
            _, keys = ledger._keys(draw.sample(people, SMALL))
            _, change = tables.charge(db, ledger._secret, keys, PRICE.value, math.inf)
            text, of = to_json(PRICE), (ledger._secret, "default")
            change += tables.charge_dataset(db, *of, text, PRICE.value)
            answer = "default", text, PRICE.value, SMALL, 0
            tables.add_answer(db, ledger._secret, values, change, *answer)
    spends = [cpu(lambda: ledger.spend(draw.sample(people, SMALL), PRICE)) for _ in range(20)]
    begin = cpu(lambda: Ledger(folder / "ledger", budget, 1e-5))
    return (
        f"{count:>9,} earlier answers, budget {budget:g}: spend {sorted(spends)[10] * 1e3:.1f} ms "
        f"(longest {max(spends) * 1e3:.1f}); open {begin:.3f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", type=int, nargs="*", default=[20, 10_000, 100_000, 1_000_000])
    parser.add_argument("--answers", type=int, nargs="*", default=[0, 10_000, 100_000])
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one is None:  # each in a process of its own, for its memory
        cases = [("records", str(count)) for count in given.records]
        cases += [(budget, str(count)) for budget in ("10", "inf") for count in given.answers]
        for case in cases:
            subprocess.run([sys.executable, __file__, "--one", *case], check=True)
        return
    kind, count = given.one
    with tempfile.TemporaryDirectory() as name:
        if kind == "records":
            print(of_records(int(count), Path(name)), flush=True)
        else:
            print(of_answers(int(count), float(kind), Path(name)), flush=True)


if __name__ == "__main__":
    main()
