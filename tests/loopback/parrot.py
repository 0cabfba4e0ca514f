"""A chat server that answers with the prompt backwards, or with whatever a test makes of that."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable
from typing import Any

from loopback.faults import gone

__all__ = ["Parrot"]


class Parrot:
    """Answers with the prompt backwards, after `pause` seconds; keeps what it was sent and how many
    requests were in it at once. A pause of infinity lasts until the client has gone.
    """

    def __init__(
        self,
        pause: float = 0.0,
        usage: bool = True,
        change: Callable[[int, Any], Any] | None = None,
    ) -> None:
        self.pause, self.usage, self.change = pause, usage, change
        self.prompts: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[bytes, bytes]] = []
        self.inside = self.most = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message.get("more_body", False)
        self.bodies.append(json.loads(body))
        self.headers.append(dict(scope["headers"]))
        prompt = self.bodies[-1]["messages"][0]["content"]
        self.prompts.append(prompt)
        number = len(self.prompts)
        self.inside += 1
        self.most = max(self.most, self.inside)
        await (gone(receive) if math.isinf(self.pause) else asyncio.sleep(self.pause))
        self.inside -= 1
        status, reply, *headers = self._reply(number, prompt)
        kind = [(b"content-type", b"application/json"), *headers]
        await send({"type": "http.response.start", "status": status, "headers": kind})
        await send({"type": "http.response.body", "body": json.dumps(reply).encode()})

    def _reply(self, number: int, prompt: str) -> Any:
        choice = {"index": 0, "message": {"role": "assistant", "content": prompt[::-1]}}
        reply: dict[str, Any] = {"choices": [choice]}
        if self.usage:
            reply["usage"] = {"prompt_tokens": 10, "completion_tokens": 2}
        return self.change(number, reply) if self.change else (200, reply)
