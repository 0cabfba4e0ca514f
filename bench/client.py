"""The client of `openai/...` models against a trivial server in another process.

It reports requests a second, CPU time and memory. The library under the default transport was
chosen by the same measurement on a bare loop of 32 requests at a time, 2 cores: aiohttp 9,400
requests/s and 0.09 ms of CPU a request, httpcore 1,400 and 0.73, httpx 1,100 and 0.87. Limits:
2,000 requests/s, 2 ms of CPU, flat memory.
"""

from __future__ import annotations

import asyncio
import gc
import json
import multiprocessing
import sys
import time
import tracemalloc
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from leakbound.models import Complete, Endpoint
from leakbound.models.openai import OpenAIModel

BATCH, FEW, MANY = 2_000, 10_000, 100_000
RATE, CPU, GROWTH = 2_000, 2.0, 4.0  # requests/s, ms, MiB
PROMPT = "Input: a message of a customer\nLabel: billing\n\n" * 16
REPLY = json.dumps({
    "id": "a", "object": "chat.completion", "model": "any",
    "usage": {"prompt_tokens": 200, "completion_tokens": 1},
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "billing"},
                 "finish_reason": "stop"}],
}).encode()  # fmt: skip


class Trivial(asyncio.Protocol):
    """Answers every POST with the same reply, once its body is in.

    That is cheaper than any framework, so the client is what is measured.
    """

    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(
        REPLY
    )

    def connection_made(self, transport: Any) -> None:
        self.transport, self.held = transport, b""

    def data_received(self, data: bytes) -> None:
        self.held += data
        head, blank, body = self.held.partition(b"\r\n\r\n")
        if blank and len(body) >= int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]):
            self.held = b""
            self.transport.write(self.head + REPLY)


def serve(port: Connection) -> None:
    async def forever() -> None:
        server = await asyncio.get_running_loop().create_server(Trivial, "127.0.0.1", 0)
        port.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(forever())


def resident() -> float:
    """MiB of this process in memory."""
    line = next(
        x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith("VmRSS")
    )
    return int(line.split()[1]) / 1024


def ask(model: OpenAIModel, first: int, count: int) -> None:
    for start in range(first, first + count, BATCH):
        requests = [
            Complete(f"{i} {PROMPT}", max_tokens=4)
            for i in range(start, min(start + BATCH, first + count))
        ]
        assert set(model.answer(requests)) == {"billing"}


def speed(model: OpenAIModel) -> tuple[float, float]:
    """Requests a second, and ms of CPU a request."""
    ask(model, 0, BATCH)
    begin, spent = time.perf_counter(), time.process_time()
    ask(model, BATCH, FEW)
    return FEW / (time.perf_counter() - begin), 1000 * (time.process_time() - spent) / FEW


def growth(model: OpenAIModel) -> list[tuple[int, float, float]]:
    """(requests, traced MiB, resident MiB) after few and after many requests."""
    tracemalloc.start()
    found, done = [], 0
    for count in (FEW, MANY):
        ask(model, done, count - done)
        done = count
        gc.collect()
        found.append((count, tracemalloc.get_traced_memory()[0] / 2**20, resident()))
    tracemalloc.stop()
    return found


def main() -> int:
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    model = OpenAIModel(
        "any",
        Endpoint((f"http://127.0.0.1:{ours.recv()}/v1",), connections=32, price_in=0, price_out=0),
    )
    rate, cpu = speed(model)
    print(f"client, 32 connections: {rate:,.0f} requests/s, {cpu:.2f} ms of CPU a request")
    memory = growth(model)
    for count, traced, whole in memory:
        print(f"  after {count:>7,} requests: {traced:.2f} MiB traced, {whole:.1f} MiB resident")
    model.close()
    server.terminate()
    good = rate >= RATE and cpu <= CPU and memory[1][1] - memory[0][1] <= GROWTH
    print(
        f"{'within' if good else 'NOT within'} the limits: {RATE} requests/s, {CPU:g} ms, "
        f"{GROWTH:g} MiB more traced"
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
