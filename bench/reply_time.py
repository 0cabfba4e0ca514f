"""Does the time of a reply tell how long the rows are? Two services over real connections.

    python bench/reply_time.py [--requests 200] [--after 0.6] [--seeds 1]
    python bench/reply_time.py --deadlines 20000 [--clients 4] [--kept FILE]

One has rows of 10 characters, the other of 4,000, and the model takes time in proportion to its
prompt. Clients ask one request at a time, of either service as a coin decides. A two-sample test
(Kolmogorov and Smirnov) compares times in whole milliseconds: as soon as answers are made, and at
one time after the payment, beside so many busy processes as `--load` says. `--deadlines` counts
answers that are late at the time that `auto` finds: rows of 4,000 characters, parallel clients. Its
counts are kept, so a run that was stopped goes on. A service that stopped starts again, and is
asked again.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

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
AUTO = -1.0
KEPT = ROOT / "bench/results/reply-time.json"
BATCH = 20  # answers between two writes
PACE = [2e6]  # characters a second that the model reads


def answer(prompt: str) -> str:
    end = time.perf_counter() + len(prompt) / PACE[0]
    while time.perf_counter() < end:
        pass
    return "odd"


def served(length: int, folder: Path) -> PrivateICL:
    rows = [Example(str(at).rjust(length, "x"), ("plain", "odd")[at % 2]) for at in range(10)]
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


class Service:
    """A service that begins anew after a late answer."""

    def __init__(self, length: int, folder: Path, after: float | None) -> None:
        self.private, self.lock, self.late = served(length, folder), threading.Lock(), 0
        self.after = self.private.slowest(length) if after == AUTO else after
        self.app = application(self.private, reply_after=self.after)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app(scope, receive, send)

    def ask(self, client: httpx.Client) -> float:
        """Seconds of a reply that was not late."""
        while True:
            app, begin = self.app, time.perf_counter()
            if client.post(CHAT, json=ASK).status_code == 200:
                return time.perf_counter() - begin
            with self.lock:  # of clients that wait together, one counts
                if app is self.app:
                    self.late += 1
                    self.app = application(self.private, reply_after=self.after)


def missed(deadlines: int, clients: int, kept: Path) -> list[dict[str, Any]]:
    """All runs, with a last one until they have so many answers together."""
    runs = json.loads(kept.read_text()) if kept.exists() else []
    commit = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=ROOT, text=True).strip()
    begun = sum(one["answers"] for one in runs)
    if begun >= deadlines:
        return runs
    with tempfile.TemporaryDirectory() as folder:
        made = Service(max(LENGTHS), Path(folder), AUTO)
        run = {"commit": commit, "after": round(made.after, 3), "clients": clients}
        with (
            running(made) as url, httpx.Client(timeout=600.0, base_url=url) as client,
            ThreadPoolExecutor(clients) as pool,
        ):  # fmt: skip
            for done in range(0, deadlines - begun, BATCH):
                deque(pool.map(lambda _: made.ask(client), range(BATCH)))
                now = [*runs, run | {"answers": done + BATCH, "late": made.late}]
                kept.write_text(json.dumps(now, indent=1) + "\n")
        return now


def times(requests: int, after: float | None, seed: int) -> tuple[list[list[float]], int]:
    """Milliseconds of the replies of each service, and how many were late."""
    found: list[list[float]] = [[], []]
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        made = [Service(length, Path(folder), after) for length in LENGTHS]
        urls = [stack.enter_context(running(one)) for one in made]
        clients = [stack.enter_context(httpx.Client(timeout=60.0, base_url=url)) for url in urls]
        for of in rng.permutation(np.arange(2 * requests) % 2):
            found[of].append(1000 * made[of].ask(clients[of]))
        return found, sum(one.late for one in made)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=200, help="of each service")
    parser.add_argument("--after", type=float, default=0.6, help="seconds")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the first seed; 0 is also at once")
    parser.add_argument("--load", type=int, default=0, help="busy processes beside it")
    parser.add_argument("--pace", type=float, default=PACE[0], help="characters a second")
    parser.add_argument("--deadlines", type=int, default=0)
    parser.add_argument("--clients", type=int, default=4, help="at once")
    parser.add_argument("--kept", type=Path, default=KEPT, help="counts of --deadlines")
    given = parser.parse_args()
    PACE[0] = given.pace
    if given.deadlines:
        with load(given.load):
            runs = missed(given.deadlines, given.clients, given.kept)
        late, answers = (sum(one[key] for one in runs) for key in ("late", "answers"))
        after = ", ".join(sorted({f"{one['after']:.2f} s" for one in runs}))
        print(f"{late} of {answers:,} answers late, each after {after}")
        return
    print("| replies leave | seed | median ms, rows of 10 and of 4,000 | p of one law | late |")
    print("| --- " * 5 + "|")
    with load(given.load):
        for seed in range(given.first, given.first + given.seeds):
            for after in (None, given.after) if seed == 0 else (given.after,):
                count = given.requests if after else min(given.requests, 200)
                (short, long), late = times(count, after, seed)
                p = ks_2samp(np.floor(short), np.floor(long)).pvalue
                when = "at once" if after is None else f"after {1000 * after:g} ms"
                middle = f"{np.median(short):.1f}, {np.median(long):.1f}"
                print(f"| {when} | {seed} | {middle} | {p:.2g} | {late} |", flush=True)


if __name__ == "__main__":
    main()
