"""Does the time of a reply tell how long the rows are? Two services over real connections.

    python bench/reply_time.py [--requests 200] [--after 0.6] [--seeds 1]

One has rows of 10 characters, the other of 4,000, and the model takes time in proportion to its
prompt. Clients ask one request at a time, of either service as a coin decides. A two-sample test
(Kolmogorov and Smirnov) compares times in whole milliseconds: as soon as answers are made, and at
one time after the payment, beside so many busy processes as `--load` says.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import numpy as np
from scipy.stats import ks_2samp

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tests"))

from services import ASK, CHAT, running  # noqa: E402

from leakbound.mechanisms import ReportNoisyMax  # noqa: E402
from leakbound.models import Scripted  # noqa: E402
from leakbound.serving import PrivateICL, application  # noqa: E402
from leakbound.serving.ledger import Ledger  # noqa: E402
from leakbound.tasks import Example, Task  # noqa: E402

LENGTHS = (10, 4000)
PACE = 2e6  # characters a second that the model reads


def answer(prompt: str) -> str:
    end = time.perf_counter() + len(prompt) / PACE
    while time.perf_counter() < end:
        pass
    return "odd"


def served(length: int, folder: Path) -> PrivateICL:
    rows = [Example("x" * length + str(at), ("plain", "odd")[at % 2]) for at in range(10)]
    task = Task("classification", labels=("odd", "plain"))
    chosen = ReportNoisyMax.calibrated(1.0, 1e-5, partitions=2)
    return PrivateICL(chosen, rows, task, Scripted(complete=answer),
                      Ledger(folder / f"{length}.sqlite", math.inf, 1e-5))  # fmt: skip


def spin() -> None:
    while True:
        pass


@contextmanager
def load(processes: int) -> Iterator[None]:
    busy = [multiprocessing.Process(target=spin, daemon=True) for _ in range(processes)]
    for one in busy:
        one.start()
    yield
    for one in busy:
        one.terminate()


def times(requests: int, after: float | None, seed: int) -> tuple[list[list[float]], int]:
    """Milliseconds of the replies of each service, and how many were late."""
    found: list[list[float]] = [[], []]
    late, rng = 0, np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        clients = [
            stack.enter_context(httpx.Client(timeout=60.0, base_url=stack.enter_context(
                running(application(served(length, Path(folder)), reply_after=after)))))
            for length in LENGTHS
        ]  # fmt: skip
        for of in rng.permutation(np.arange(2 * requests) % 2):
            begin = time.perf_counter()
            reply = clients[of].post(CHAT, json=ASK)
            found[of].append(1000 * (time.perf_counter() - begin))
            late += reply.status_code != 200
    return found, late


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=200, help="of each service")
    parser.add_argument("--after", type=float, default=0.6, help="seconds")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--load", type=int, default=0, help="busy processes beside it")
    given = parser.parse_args()
    print("| replies leave | seed | median ms, rows of 10 and of 4,000 | p of one law | late |")
    print("| --- " * 5 + "|")
    with load(given.load):
        for seed in range(given.seeds):
            for after in (None, given.after) if seed == 0 else (given.after,):
                count = given.requests if after else min(given.requests, 200)
                (short, long), late = times(count, after, seed)
                p = ks_2samp(np.floor(short), np.floor(long)).pvalue
                when = "at once" if after is None else f"after {1000 * after:g} ms"
                middle = f"{np.median(short):.1f}, {np.median(long):.1f}"
                print(f"| {when} | {seed} | {middle} | {p:.2g} | {late} |", flush=True)


if __name__ == "__main__":
    main()
