"""Batches of an endpoint are asked at once: every connection is in use; nothing else changes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from limits import PATIENCE, expires

from leakbound.auditing import make_spec, prepare, run_audit
from leakbound.auditing.collect import collect as ahead
from leakbound.auditing.collect.collect import run_serial
from leakbound.errors import Refused
from leakbound.models import Complete, Endpoint, Scripted
from leakbound.models.http.transport import HttpReply
from leakbound.models.openai import OpenAIModel
from leakbound.tasks import Context

JSON = {"content-type": "application/json"}
AUDIT = {"mechanism": "few_shot", "shots": 4, "simulations": 0, "model": "openai/leaky"}


class Held:
    """A transport over a scripted model. It holds all requests until `until` of them are in
    flight, or until `patience` seconds show that no more will come.
    """

    def __init__(
        self,
        model: Scripted,
        until: int = 1,
        patience: float = PATIENCE,
        status: Callable[[int], int] = lambda number: 200,
    ) -> None:
        self.model, self.until, self.status = model, until, status
        self.patience, self.sent, self.inside, self.most = patience, 0, 0, 0
        self.open: asyncio.Event | None = None

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, timeout: float
    ) -> HttpReply:
        self.sent, self.inside = self.sent + 1, self.inside + 1
        self.most, number = max(self.most, self.inside), self.sent
        try:
            await self._hold()
        finally:
            self.inside -= 1
        prompt = json.loads(body or b"")["messages"][0]["content"]
        (text,) = self.model.answer([Complete(prompt)])
        choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return HttpReply(self.status(number), JSON, json.dumps({"choices": [choice]}).encode())

    async def _hold(self) -> None:
        self.open = self.open or asyncio.Event()
        if self.inside >= self.until:
            self.open.set()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.open.wait(), self.patience)

    async def close(self) -> None: ...


def audited(out: Path, rows: Context, transport: Held, connections: int, **options: Any) -> Any:
    endpoint = Endpoint(("http://127.0.0.1:9/v1",), connections=connections, transport=transport)
    model = OpenAIModel("leaky", endpoint)
    prepared = prepare(make_spec({**AUDIT, **options}), model, rows=rows)
    return lambda **more: run_audit(prepared, out, **more)[0].results()


@pytest.mark.slow
def test_64_connections_are_64_and_the_record_is_the_same(
    rows: Context, leaky: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch of 2 pairs asks 4 times: one after the other, 4 would be in flight."""
    monkeypatch.setattr("leakbound.models.openai.client.START", 64)  # no answers are needed first
    many, one = Held(leaky, until=64), Held(leaky)
    options = {"pairs": 90, "batch_pairs": 2}
    early = audited(tmp_path / "ahead", rows, many, 64, **options)()
    serial = audited(tmp_path / "serial", rows, one, 64, **options)(ask=run_serial)
    assert (many.most, one.most) == (64, 4)
    assert early == serial
    assert many.sent == one.sent


def test_never_more_in_flight_than_connections(
    rows: Context, leaky: Scripted, tmp_path: Path
) -> None:
    slow = Held(leaky, until=6, patience=expires(0.2))
    audited(tmp_path, rows, slow, 5, pairs=4, batch_pairs=2, controls=2)()
    assert slow.most == 5


def test_a_failure_is_raised_and_what_was_stored_before_is_resumed(
    rows: Context, leaky: Scripted, tmp_path: Path
) -> None:
    failing = Held(leaky, status=lambda number: 200 if number <= 30 else 403)
    options = {"pairs": 24, "batch_pairs": 2}
    with pytest.raises(Refused, match="HTTP 403"):
        audited(tmp_path / "a", rows, failing, 8, **options)()
    again, whole = Held(leaky), Held(leaky)
    resumed = audited(tmp_path / "a", rows, again, 8, **options)()
    assert resumed == audited(tmp_path / "b", rows, whole, 8, **options)()
    assert 0 < again.sent < whole.sent
    assert not [one for one in threading.enumerate() if "_work" in one.name]


def test_an_early_end_gives_up_what_was_asked_ahead(
    rows: Context, leaky: Scripted, tmp_path: Path
) -> None:
    slow = Held(leaky)
    options = {"pairs": 100, "batch_pairs": 2, "stop_when_rejected": True}
    early = audited(tmp_path / "ahead", rows, slow, 16, **options)()
    serial = audited(tmp_path / "serial", rows, Held(leaky), 16, **options)(ask=run_serial)
    assert early == serial
    assert slow.sent < 200


class Slow(deque[int]):
    """A queue whose readers take a while between taking a batch and looking it up."""

    def popleft(self) -> int:
        first = super().popleft()
        time.sleep(0.05)
        return first


def test_a_batch_that_is_waited_for_before_it_is_asked_is_answered(
    rows: Context, leaky: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waits no longer takes the batch out of the hands of who asks it: that hung."""
    monkeypatch.setattr(ahead, "deque", Slow)
    run = audited(tmp_path, rows, Held(leaky), 8, pairs=8, batch_pairs=2)
    done: list[object] = []
    thread = threading.Thread(target=lambda: done.append(run()), daemon=True)
    thread.start()
    thread.join(60)
    assert len(done) == 1


class SlowFirst(deque[int]):
    """A queue whose first reader takes long, so that the second batch is asked before the first."""

    def popleft(self) -> int:
        first = super().popleft()
        time.sleep(0.0 if first else 0.5)
        return first


def test_with_one_connection_no_later_batch_takes_the_calls_of_the_first(
    rows: Context, leaky: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that what was paid for before a limit is kept."""
    monkeypatch.setattr(ahead, "deque", SlowFirst)
    failing = Held(leaky, status=lambda number: 200 if number <= 4 else 403)
    options = {"pairs": 8, "batch_pairs": 2, "controls": 0}
    with pytest.raises(Refused, match="HTTP 403"):
        audited(tmp_path, rows, failing, 1, **options)()
    again, whole = Held(leaky), Held(leaky)
    audited(tmp_path, rows, again, 1, **options)()
    audited(tmp_path / "whole", rows, whole, 1, **options)()
    assert again.sent < whole.sent
