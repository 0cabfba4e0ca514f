"""Ask one model of an OpenAI-compatible endpoint about public texts, and note the findings."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from leakbound.errors import Refused, TargetError
from leakbound.models.http.blocking import LoopThread
from leakbound.models.http.post_json import Fault, JsonAddress, Unsupported
from leakbound.models.http.transport import default_transport
from leakbound.models.http.window import backoff
from leakbound.models.openai.account import Size, cost_of, usage_of
from leakbound.models.openai.endpoint import Capabilities, Endpoint
from leakbound.models.openai.wire.dialect import LENGTHS, OWN, Dialect
from leakbound.models.openai.wire.generated import Generated
from leakbound.models.openai.wire.requests import http_request_for
from leakbound.models.probe.record import CheckName, ProbeFinding
from leakbound.models.probe.replies import ScoredText, read_chat, read_completion
from leakbound.models.request import Request

if TYPE_CHECKING:
    from pydantic import JsonValue

Floats = npt.NDArray[np.float32]
# the body of a reply; how the request failed, and which parameter was refused
Sent: TypeAlias = "tuple[dict[str, JsonValue], str, str]"

ONE = "The capital of France is Paris. The capital of Italy is"
OTHER = "The sun rises in the east and sets in the"
TOKENS = 12  # of an answer: enough to align an echo, few enough to cost little
TOP = 5  # alternatives requested for each token, unless their number is in question
FIELDS: Mapping[str, object] = {"logprobs": TOP}
CHAT_FIELDS: Mapping[str, object] = {"logprobs": True, "top_logprobs": TOP}
HOT = 2.0  # temperature at which answers must differ


TRIES = 4  # for a temporary failure: a fault in 1 of 10 requests then passes 9,999 in 10,000
PATIENCE = 30.0  # seconds: the longest wait that an endpoint may ask for
# failures that say nothing about the capabilities of the endpoint
AWAY = ("no connection", "HTTP 429", "HTTP 502", "HTTP 503", "HTTP 504")


class ProbeClient:
    """An open connection, inside a `with` block, whose requests the endpoint's meter counts."""

    def __init__(self, model: str, endpoint: Endpoint, key: str | None) -> None:
        self._endpoint, self._price = endpoint, endpoint.price(model)
        endpoint.meter.priced = endpoint.price_date(model)
        transport = endpoint.transport or default_transport(1)
        self._address = JsonAddress(transport, endpoint.urls[0], key, endpoint.timeout)

    def __enter__(self) -> ProbeClient:
        self._thread = LoopThread("leakbound-probe", self._address.transport.close)
        return self

    def __exit__(self, *error: object) -> None:
        self._thread.close()

    def send(self, path: str, body: Mapping[str, object]) -> Sent:
        return self._thread.run(self._send(path, body))

    async def _send(self, path: str, body: Mapping[str, object]) -> Sent:
        for tries in range(1, TRIES + 1):
            try:
                return await self._once(path, body), "", ""
            except Unsupported as refused:
                return {}, f"HTTP {refused.status}", refused.parameter
            except Refused as refused:
                if refused.status == 401:
                    raise
                return {}, f"HTTP {refused.status}", ""
            except Fault as fault:
                last = fault
            if tries < TRIES:
                self._endpoint.meter.retries += 1
                await asyncio.sleep(min(PATIENCE, last.wait or backoff(tries)))
        if last.kind in AWAY:
            raise TargetError(
                f"{self._address.url} does not answer ({last.kind}, {TRIES} times); start "
                "the server, give the right --base-url, or probe it when it works again."
            )
        return {}, last.kind, ""

    async def _once(self, path: str, body: Mapping[str, object]) -> dict[str, JsonValue]:
        meter, end = self._endpoint.meter, self._endpoint
        # no tokenizer makes more tokens of a text than its bytes
        generated = next((body[name] for name in LENGTHS if name in body), 0)
        size = Size(len(json.dumps(body)), generated if isinstance(generated, int) else 0)
        meter.admits(cost_of(size, self._price), end.max_cost, end.max_minutes)
        meter.sent(self._price)
        try:
            reply = await self._address.post(path, body)
        except Fault as fault:
            if fault.billed:
                meter.count(None, size, self._price)
            raise
        meter.count(usage_of(reply), size, self._price)
        return reply


class Findings:
    """What was asked and found."""

    def __init__(self) -> None:
        self.requests = 0
        self.findings: list[ProbeFinding] = []

    def note(
        self, check: CheckName, holds: bool | None, detail: str, value: float | None = None
    ) -> bool:
        self.findings.append(ProbeFinding(check=check, holds=holds, detail=detail, value=value))
        return holds is True


class EndpointProbe(Findings):
    def __init__(self, client: ProbeClient, model: str, dialect: Dialect = OWN) -> None:
        super().__init__()
        self.client, self.model, self.dialect = client, model, dialect
        self.failed = self.parameter = ""  # of the last request

    def ask(
        self, path: str, fields: Mapping[str, object], dialect: Dialect | None = None
    ) -> dict[str, JsonValue]:
        self.requests += 1
        written = self.dialect if dialect is None else dialect
        text = path != "/embeddings"
        sent = written.applied({"model": self.model, **fields}, text)
        body, self.failed, self.parameter = self.client.send(path, sent)
        return body

    def answer(self, request: Request[object], can: Capabilities) -> Generated | Floats | None:
        """Send a request and read its answer as an audit does."""
        sent = http_request_for(request, self.model, can, self.dialect)
        body = self.ask(sent.path, sent.body, Dialect())
        try:
            return sent.read(body) if body else None
        except (Fault, TargetError):
            self.failed = "unreadable"
            return None

    def choices(self, path: str, fields: Mapping[str, object]) -> list[JsonValue]:
        found = self.ask(path, fields).get("choices")
        return found if isinstance(found, list) else []

    def complete(self, prompt: str, **fields: object) -> ScoredText | None:
        """One answer from /completions, greedy unless the fields say otherwise."""
        wanted = {"prompt": prompt, "max_tokens": TOKENS, "temperature": 0.0, **fields}
        return next(map(read_completion, self.choices("/completions", wanted)), None)

    def chat(self, prompt: str, **fields: object) -> ScoredText | None:
        """One answer from /chat/completions to one user message, greedy by default."""
        turn = [{"role": "user", "content": prompt}]
        wanted = {"messages": turn, "max_tokens": TOKENS, "temperature": 0.0, **fields}
        return next(map(read_chat, self.choices("/chat/completions", wanted)), None)

    @property
    def refused(self) -> str:
        """How the last request failed to bring what it asked for."""
        return f"refused ({self.failed})" if self.failed else "answered without it"
