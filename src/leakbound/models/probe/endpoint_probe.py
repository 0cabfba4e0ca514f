"""Asking one model of an OpenAI-compatible endpoint about public texts, and noting what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from leakbound.models.probe.record import Check, Finding
from leakbound.models.probe.replies import Said, read_chat, read_completion

__all__ = [
    "CHAT_FIELDS",
    "FIELDS",
    "HOT",
    "ONE",
    "OTHER",
    "TOKENS",
    "TOP",
    "EndpointProbe",
    "ProbeReply",
    "Sender",
]

ONE = "The capital of France is Paris. The capital of Italy is"
OTHER = "The sun rises in the east and sets in the"
TOKENS = 12  # of an answer
TOP = 5  # alternatives asked for at each token, but where their number is what is asked about
FIELDS = {"logprobs": TOP}
CHAT_FIELDS = {"logprobs": True, "top_logprobs": TOP}
HOT = 2.0  # temperature at which answers must differ


@dataclass(frozen=True, slots=True)
class ProbeReply:
    """The decoded JSON object of a reply, or None and how the request failed, in words without any
    text of the server.
    """

    body: dict[str, Any] | None
    failed: str = ""


class Sender(Protocol):
    """Sends one POST. Raises TargetError if nothing is there that answers, or if it refuses the
    key.
    """

    def send(self, path: str, body: dict[str, Any]) -> ProbeReply: ...


@dataclass(slots=True)
class EndpointProbe:
    """The questions that were asked of one model, and what came of them."""

    door: Sender
    model: str
    requests: int = 0
    findings: list[Finding] = field(default_factory=list)
    failed: str = ""  # how the last request failed

    def ask(self, path: str, **fields: Any) -> dict[str, Any] | None:
        """The decoded reply; None if there is none."""
        self.requests += 1
        reply = self.door.send(path, {"model": self.model, **fields})
        self.failed = reply.failed
        return reply.body

    def choices(self, path: str, **fields: Any) -> list[Any]:
        """The choices of a reply; none if it has none that can be read."""
        found = (self.ask(path, **fields) or {}).get("choices")
        return found if isinstance(found, list) else []

    def complete(self, prompt: Any, **fields: Any) -> Said | None:
        """One answer by /completions, greedy unless the fields say otherwise."""
        wanted = {"max_tokens": TOKENS, "temperature": 0.0, **fields}
        return next(
            map(read_completion, self.choices("/completions", prompt=prompt, **wanted)), None
        )

    def talk(self, prompt: str, **fields: Any) -> Said | None:
        """One answer by /chat/completions, to one user message."""
        wanted = {"max_tokens": TOKENS, "temperature": 0.0, **fields}
        turn = [{"role": "user", "content": prompt}]
        return next(
            map(read_chat, self.choices("/chat/completions", messages=turn, **wanted)), None
        )

    def note(self, check: Check, holds: bool | None, told: str, value: float | None = None) -> bool:
        """Keep a finding; returns whether it holds."""
        self.findings.append(Finding(check=check, holds=holds, told=told, value=value))
        return holds is True

    @property
    def refused(self) -> str:
        """What became of the last request, which did not bring what it asked for."""
        return f"refused ({self.failed})" if self.failed else "answered without it"
