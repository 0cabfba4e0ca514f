"""Sequential requests to one address. A refusal is a finding here, not an error."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from leakbound.errors import Refused, TargetError
from leakbound.models.blocking import LoopThread
from leakbound.models.openai.account import Size, cost_of, usage_of
from leakbound.models.openai.dialect import LENGTHS
from leakbound.models.openai.endpoint import Endpoint
from leakbound.models.openai.faults import Fault, Unsupported
from leakbound.models.openai.hosts import joined
from leakbound.models.openai.post_json import headers_for, post_json
from leakbound.models.openai.window import backoff
from leakbound.models.probe.endpoint_probe import ProbeReply
from leakbound.models.transport import default_transport

if TYPE_CHECKING:
    from pydantic import JsonValue

TRIES = 4  # for a temporary failure: a fault in 1 of 10 requests then passes 9,999 in 10,000
PATIENCE = 30.0  # seconds: the longest wait that an endpoint may ask for
# failures that say nothing about the capabilities of the endpoint
AWAY = ("no connection", "HTTP 429", "HTTP 502", "HTTP 503", "HTTP 504")


class ProbeClient:
    """An open connection, inside a `with` block. Also works if an event loop already runs.

    Requests are counted by the endpoint's meter and respect its limits.
    """

    def __init__(self, model: str, endpoint: Endpoint, key: str | None) -> None:
        self._endpoint, self._price = endpoint, endpoint.price(model)
        self._headers = headers_for(key, endpoint.urls[0])
        endpoint.meter.priced = endpoint.price_date(model)
        self._transport = endpoint.transport or default_transport(1)

    def __enter__(self) -> ProbeClient:
        self._thread = LoopThread("leakbound-probe", self._transport.close)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._thread.close()

    def send(self, path: str, body: Mapping[str, object]) -> ProbeReply:
        """Send one POST, and retry temporary failures."""
        return self._thread.run(self._send(path, body))

    async def _send(self, path: str, body: Mapping[str, object]) -> ProbeReply:
        for tries in range(1, TRIES + 1):
            try:
                return ProbeReply(await self._once(path, body))
            except Unsupported as refused:
                return ProbeReply(None, f"HTTP {refused.status}", refused.parameter)
            except Refused as refused:
                if refused.status == 401:
                    raise
                return ProbeReply(None, f"HTTP {refused.status}")
            except Fault as fault:
                last = fault
            if tries < TRIES:
                self._endpoint.meter.retries += 1
                await asyncio.sleep(min(PATIENCE, last.wait or backoff(tries)))
        if last.kind in AWAY:
            raise TargetError(
                f"{self._endpoint.urls[0]} does not answer ({last.kind}, {TRIES} times); start "
                "the server, give the right --base-url, or probe it when it works again."
            )
        return ProbeReply(None, last.kind)

    async def _once(self, path: str, body: Mapping[str, object]) -> dict[str, JsonValue]:
        meter, end = self._endpoint.meter, self._endpoint
        size = _size(body)
        meter.admits(cost_of(size, self._price), end.max_cost, end.max_minutes)
        meter.sent(self._price)
        try:
            url = joined(end.urls[0], path)
            reply = await post_json(self._transport, url, self._headers, body, end.timeout)
        except Fault as fault:
            if fault.billed:
                meter.count(None, size, self._price)
            raise
        meter.count(usage_of(reply), size, self._price)
        return reply


def _size(body: Mapping[str, object]) -> Size:
    """The most tokens of a request: no tokenizer makes more tokens of a text than its bytes."""
    generated = next((body[name] for name in LENGTHS if name in body), 0)
    return Size(len(json.dumps(body)), generated if isinstance(generated, int) else 0)
