"""Ask one model of an OpenAI-compatible endpoint about public texts, and note the findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from leakbound.errors import TargetError
from leakbound.models.http.post_json import Fault
from leakbound.models.openai.endpoint import Capabilities
from leakbound.models.openai.wire.dialect import Dialect
from leakbound.models.openai.wire.generated import Generated
from leakbound.models.openai.wire.requests import http_request_for
from leakbound.models.probe.record import CheckName, ProbeFinding
from leakbound.models.probe.replies import ScoredText, read_chat, read_completion
from leakbound.models.request import Request

if TYPE_CHECKING:
    from pydantic import JsonValue

Floats = npt.NDArray[np.float32]

ONE = "The capital of France is Paris. The capital of Italy is"
OTHER = "The sun rises in the east and sets in the"
TOKENS = 12  # of an answer: enough to align an echo, few enough to cost little
TOP = 5  # alternatives requested for each token, unless their number is in question
FIELDS: Mapping[str, object] = {"logprobs": TOP}
CHAT_FIELDS: Mapping[str, object] = {"logprobs": True, "top_logprobs": TOP}
HOT = 2.0  # temperature at which answers must differ


@dataclass(frozen=True, slots=True)
class ProbeReply:
    body: dict[str, JsonValue] | None
    failed: str = ""
    parameter: str = ""


class Sender(Protocol):
    """Sends requests to one endpoint."""

    def send(self, path: str, body: Mapping[str, object]) -> ProbeReply:
        """Send one POST."""


@dataclass(slots=True)
class EndpointProbe:
    client: Sender
    model: str
    requests: int = 0
    findings: list[ProbeFinding] = field(default_factory=list)
    failed: str = ""
    parameter: str = ""
    dialect: Dialect = Dialect()

    def ask(
        self, path: str, fields: Mapping[str, object], dialect: Dialect | None = None
    ) -> dict[str, JsonValue]:
        self.requests += 1
        written = self.dialect if dialect is None else dialect
        text = path != "/embeddings"
        reply = self.client.send(path, written.applied({"model": self.model, **fields}, text))
        self.failed, self.parameter = reply.failed, reply.parameter
        return reply.body or {}

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

    def note(
        self, check: CheckName, holds: bool | None, detail: str, value: float | None = None
    ) -> bool:
        self.findings.append(ProbeFinding(check=check, holds=holds, detail=detail, value=value))
        return holds is True

    @property
    def refused(self) -> str:
        """How the last request failed to bring what it asked for."""
        return f"refused ({self.failed})" if self.failed else "answered without it"
