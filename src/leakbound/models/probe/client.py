"""One request after the other to one address, where a refusal is a finding and not an error."""

from __future__ import annotations

import asyncio
import json
from types import TracebackType
from typing import Any

import aiohttp

from leakbound.errors import Refused, TargetError
from leakbound.models.openai.account import Size, cost_of, usage_of
from leakbound.models.openai.endpoint import Endpoint
from leakbound.models.openai.faults import Fault
from leakbound.models.openai.post_json import new_session, post_json
from leakbound.models.openai.window import backoff
from leakbound.models.probe.endpoint_probe import Reply

__all__ = ["ProbeClient"]

TRIES = 4  # of a request that fails in a way that may pass
PATIENCE = 30.0  # longest wait, in seconds, that an endpoint may ask for
AWAY = (
    "no connection",
    "HTTP 429",
    "HTTP 502",
    "HTTP 503",
    "HTTP 504",
)  # says nothing about what the endpoint can do


class ProbeClient:
    """Within a `with`: an open connection.

    Requests count in the endpoint's meter and keep its limits.
    """

    def __init__(self, model: str, endpoint: Endpoint, key: str | None) -> None:
        self._endpoint, self._key, self._price = endpoint, key, endpoint.price(model)
        self._runner = asyncio.Runner()

    def __enter__(self) -> ProbeClient:
        self._session = self._runner.run(self._new())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._runner.run(self._session.close())
        self._runner.close()

    async def _new(self) -> aiohttp.ClientSession:
        return new_session(self._key, 1, self._endpoint.timeout)

    def send(self, path: str, body: dict[str, Any]) -> Reply:
        """The reply, or how the request failed.

        Raises TargetError if nobody is there or the key is refused, LimitReached.
        """
        return self._runner.run(self._send(path, body))

    async def _send(self, path: str, body: dict[str, Any]) -> Reply:
        for tries in range(1, TRIES + 1):
            try:
                return Reply(await self._once(path, body))
            except Refused as refused:
                if refused.status == 401:
                    raise
                return Reply(None, f"HTTP {refused.status}")
            except Fault as fault:
                last = fault
                self._endpoint.meter.retries += tries < TRIES
                await asyncio.sleep(
                    min(PATIENCE, fault.wait or backoff(tries)) if tries < TRIES else 0
                )
        if last.kind in AWAY:
            raise TargetError(
                f"{self._endpoint.urls[0]} does not answer ({last.kind}, {TRIES} times); start "
                "the server, give the right --base-url, "
                "or probe it when it works again."
            )
        return Reply(None, last.kind)

    async def _once(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        meter, end = self._endpoint.meter, self._endpoint
        size = Size(
            len(json.dumps(body)), int(body.get("max_tokens", 0))
        )  # no tokenizer makes more tokens than bytes
        meter.admits(cost_of(size, self._price), end.max_cost, end.max_minutes)
        meter.sent(self._price)
        try:
            reply = await post_json(self._session, end.urls[0], path, body)
        except Fault as fault:
            if fault.billed:
                meter.count(None, size, self._price)
            raise
        meter.count(usage_of(reply), size, self._price)
        return reply
