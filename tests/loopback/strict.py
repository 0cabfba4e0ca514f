"""A chat endpoint that refuses parameters as OpenAI's models do that reason, or reasons aloud."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from leakbound.models.http.transport import HttpReply

__all__ = ["Strict"]

JSON = {"content-type": "application/json"}


class Strict:
    """A transport in the place of a server: /chat/completions only.

    Refuses each parameter of `refused`, by name if `names`. A model with `reasoning` writes so many
    words before its answer, counts them, and shows them between marks if `aloud`.
    """

    def __init__(
        self,
        refused: tuple[str, ...] = (),
        names: bool = True,
        reasoning: int = 0,
        aloud: bool = False,
        answer: Callable[[str], str] = lambda prompt: " Rome.",
    ) -> None:
        self.refused, self.names, self.reasoning, self.aloud = refused, names, reasoning, aloud
        self.answer, self.bodies = answer, list[dict[str, Any]]()

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, timeout: float
    ) -> HttpReply:
        if not url.endswith("/chat/completions"):
            return HttpReply(404, JSON, b"{}")
        asked = json.loads(body or b"")
        self.bodies.append(asked)
        wrong = next((name for name in self.refused if name in asked), None)
        if wrong is not None:
            return HttpReply(400, JSON, json.dumps({"error": self._error(wrong)}).encode())
        return HttpReply(200, JSON, json.dumps(self._reply(asked)).encode())

    async def close(self) -> None: ...

    def _error(self, name: str) -> dict[str, Any]:
        found = {"message": f"Unsupported parameter: '{name}' is not supported with this model.",
                 "type": "invalid_request_error", "param": name,
                 "code": "unsupported_parameter"}  # fmt: skip
        return found if self.names else {**found, "param": None, "code": None}

    def _reply(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        room = asked.get("max_completion_tokens", asked.get("max_tokens", 1 << 20))
        thought = ["They", "ask.\n"] * (self.reasoning // 2)
        words = [*thought, *self.answer(asked["messages"][-1]["content"]).split(" ")[1:]]
        text, ended = " ".join(words[len(thought) : room]), len(words) > room
        if self.aloud:
            text = "<think>" + " ".join(words[: min(room, len(thought))])
            text += "" if room <= len(thought) else "</think>" + " ".join(words[len(thought) :])
            text = text.split(asked["stop"][0])[0] if asked.get("stop") else text
        message = {"role": "assistant", "content": text, "refusal": None}
        tokens = {"reasoning_tokens": min(room, len(thought))}
        return {
            "choices": [{"message": message, "finish_reason": "length" if ended else "stop"}],
            "usage": {"prompt_tokens": 9, "completion_tokens": min(room, len(words)),
                      "completion_tokens_details": tokens},
        }  # fmt: skip
