"""Does the time of a reply tell how long the rows are? Two services over real connections.

    python bench/reply_time.py [--requests 200] [--after 0.6] [--seeds 1]
    python bench/reply_time.py --deadlines 20000 [--clients 4] [--services 10]

One has rows of 10 characters, the other of 4,000, and the model takes time in proportion to its
prompt. Clients ask one request at a time, of either service as a coin decides. A two-sample test
(Kolmogorov and Smirnov) compares times in whole milliseconds: as soon as answers are made, and at
one time after the payment, beside so many busy processes as `--load` says. `--deadlines` counts
answers that are late at the time that `auto` finds: rows of 4,000 characters, parallel clients, and
several such services in one process. A service that stopped starts again, and is asked again.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
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
            status = client.post(CHAT, json=ASK).status_code
            if status == 200:
                return time.perf_counter() - begin
            with self.lock:  # of clients that wait together, one counts
                if status != 503:
                    raise RuntimeError(f"HTTP {status}")
                if app is self.app:
                    self.late += 1
                    self.app = application(self.private, reply_after=self.after)


def missed(deadlines: int, clients: int, services: int) -> tuple[int, int, list[float]]:
    """How many answers there were, how many more were late, and the times of the services."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        made, waiting = [], []
        for at in range(services):
            (own := Path(folder) / str(at)).mkdir()
            made.append(Service(max(LENGTHS), own, AUTO))
        for one in made:
            url = stack.enter_context(running(one))
            for _ in range(clients):
                client = stack.enter_context(httpx.Client(timeout=600.0, base_url=url))
                each = range(deadlines // (services * clients))
                asking = [partial(one.ask, client) for _ in each]
                waiting.append(threading.Thread(target=lambda asking=asking: [f() for f in asking]))
        for thread in waiting:
            thread.start()
        for thread in waiting:
            thread.join()
        done = sum(one.private.state.answers - one.late for one in made)
        return done, sum(one.late for one in made), [one.after for one in made]


def times(requests: int, after: float | None, seed: int) -> tuple[list[list[float]], int]:
    """Milliseconds of the replies of each service, and how many were late."""
    found: list[list[float]] = [[], []]
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        made = [Service(length, Path(folder), after) for length in LENGTHS]
        clients = [
            stack.enter_context(
                httpx.Client(timeout=60.0, base_url=stack.enter_context(running(one)))
            )
            for one in made
        ]
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
    parser.add_argument("--clients", type=int, default=4, help="of each service, at once")
    parser.add_argument("--services", type=int, default=10)
    given = parser.parse_args()
    PACE[0] = given.pace
    if given.deadlines:
        done, late, after = missed(given.deadlines, given.clients, given.services)
        print(f"{done} answers, {late} more were late, at {min(after):.2f} to {max(after):.2f} s")
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
