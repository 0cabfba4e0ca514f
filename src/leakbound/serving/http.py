"""An OpenAI-compatible chat endpoint over a PrivateICL. `chat` answers one request; the rest is
HTTP around it.

Nothing private is written anywhere: replies hold the released text and the budget, errors a
sentence made of public
things or the type of an exception, and the log the type alone.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import math
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leakbound.errors import BudgetExhausted, LeakboundError, UsageError
from leakbound.serving.private import Answer, PrivateICL

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = ["LIMIT", "Reply", "application", "chat", "is_local"]

LIMIT = 65_536
LOG = logging.getLogger("leakbound.serving")
KINDS = {400: "invalid_request_error", 401: "authentication_error", 403: "insufficient_quota",
         413: "invalid_request_error", 500: "server_error"}  # fmt: skip
REFUSED = (
    "audio",
    "functions",
    "logit_bias",
    "logprobs",
    "prediction",
    "stop",
    "tools",
    "top_logprobs",
)


@dataclass(frozen=True, slots=True)
class Reply:
    """What one request gets:

    an HTTP status, a JSON body, and whether the client asked for a stream.
    """

    status: int
    body: dict[str, Any]
    stream: bool = False


def is_local(host: str) -> bool:
    """Whether a host name or address means this machine only."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def refusal(status: int, sentence: str) -> Reply:
    """An error in OpenAI's shape."""
    return Reply(
        status, {"error": {"message": sentence, "type": KINDS[status], "param": None, "code": None}}
    )


# --- one request
# --------------------------------------------------------------------------------------------------------


def chat(private: PrivateICL, payload: Any) -> Reply:
    """Answer one chat request, given as decoded JSON. Raises nothing.

    The last user message is the query, and the only one that is read: every other message is
    ignored, since each answer
    is made from the private context and one query alone. `model` may be any name; temperature,
    max_tokens and other
    sampling fields are ignored, the mechanism has its own. Fields that would ask for another kind
    of answer are refused
    (400), as is n above 1: every answer is paid for on its own. 403: the budget is spent. 500: only
    the type is told.
    """
    try:
        query = private.check(_query(payload))
    except LeakboundError as error:
        return refusal(400, str(error))
    except Exception as error:
        return _failed(error)
    try:
        answer = private.answer(query)
    except BudgetExhausted as error:
        return refusal(403, str(error))
    except Exception as error:
        return _failed(error)
    return Reply(200, _body(private.name, answer), payload.get("stream") is True)


def _failed(error: Exception) -> Reply:
    """Only the type of an exception leaves: its message may hold private text."""
    LOG.error("a request failed: %s", type(error).__name__)
    return refusal(
        500,
        f"the server could not answer ({type(error).__name__}); what was paid for it stays spent.",
    )


def _query(payload: Any) -> str:
    """The text of the last user message."""
    if not isinstance(payload, dict):
        raise UsageError(
            f"the request is a JSON {type(payload).__name__}; it must be an object with messages."
        )
    _supported(payload)
    messages = payload.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise UsageError(
            "messages is missing or no list of objects; it must be a list of {role, content}."
        )
    last = next((message for message in reversed(messages) if message.get("role") == "user"), None)
    if last is None:
        raise UsageError(
            "messages has no message of the role user; the last one is the query, so send at "
            "least one."
        )
    return _text(last.get("content"))


def _supported(payload: dict[str, Any]) -> None:
    if payload.get("n", 1) not in (1, None):
        raise UsageError(
            "n is not 1; every answer is paid for on its own, so send one request for each."
        )
    asked = [name for name in REFUSED if payload.get(name)]
    if (payload.get("response_format") or {"type": "text"}) != {"type": "text"}:
        asked.append("response_format")
    if asked:
        raise UsageError(
            f"{', '.join(asked)} cannot be honoured here; leave it out and ask for a plain text "
            "answer."
        )


def _text(content: Any) -> str:
    """A message's content: a string, or parts of text."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [None]
    texts = [
        part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text"
    ]
    if len(texts) != len(parts) or not all(isinstance(text, str) for text in texts):
        raise UsageError(
            "the last user message is not text; its content must be a string or parts of the type "
            "text."
        )
    return "\n".join(str(text) for text in texts)


def _body(name: str, answer: Answer) -> dict[str, Any]:
    """A chat completion; token counts are 0, for the length of a prompt is private."""
    message = {"role": "assistant", "content": answer.text}
    return {
        "id": f"chatcmpl-{secrets.token_hex(12)}", "object": "chat.completion", "created": int(time.time()), "model": name,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
        "leakbound": {"epsilon_spent": _number(answer.spent), "epsilon_remaining": _number(answer.remaining),
                        "delta": answer.delta},
    }  # fmt: skip


def _number(value: float) -> float | None:
    """JSON has no infinity: null."""
    return value if math.isfinite(value) else None


def _events(body: dict[str, Any]) -> str:
    """The answer as one server-sent event, and the end."""
    choice = body["choices"][0]
    chunk = {**body, "object": "chat.completion.chunk",
             "choices": [{"index": 0, "delta": choice["message"], "finish_reason": "stop", "logprobs": None}]}  # fmt: skip
    return f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n"


# --- HTTP
# ---------------------------------------------------------------------------------------------------------------


def application(private: PrivateICL, token: str | None = None, limit: int = LIMIT) -> Starlette:
    """The ASGI application: POST /v1/chat/completions, GET /v1/models, GET /healthz.

    token: what clients send as bearer token; None is for loopback only, and then the Host header
    must name this machine
    (so that a web page cannot reach it under another name). limit: the most bytes of a request.
    Requests are answered
    one at a time, in a thread. Raises UsageError if the extra `serve` is not installed.
    """
    try:
        from starlette.applications import Starlette
        from starlette.exceptions import HTTPException
        from starlette.routing import Route
    except ImportError:
        raise UsageError(
            "serving needs starlette and uvicorn; install them with: pip install "
            "'leakbound[serve]'."
        ) from None
    door = ProbeClient(private, token, limit)
    routes = [Route("/v1/chat/completions", door.completions, methods=["POST"]),
              Route("/v1/models", door.models, methods=["GET"]), Route("/healthz", door.health, methods=["GET"])]  # fmt: skip
    return Starlette(routes=routes, exception_handlers={HTTPException: door.nowhere})


class ProbeClient:
    """The three endpoints over one PrivateICL:

    who may come in, how much they may bring, one at a time.
    """

    def __init__(self, private: PrivateICL, token: str | None, limit: int) -> None:
        import anyio

        self.private, self.token, self.limit = private, token, limit
        self.one = anyio.CapacityLimiter(1)

    async def completions(self, request: Request) -> Response:
        """One chat request."""
        try:
            return _sent(await self._reply(request))
        except Exception as error:
            return _sent(_failed(error))

    async def _reply(self, request: Request) -> Reply:
        from anyio import to_thread

        barred = self._barred(request)
        payload = barred or await self._payload(request)
        if isinstance(payload, Reply):
            return payload
        return await to_thread.run_sync(chat, self.private, payload, limiter=self.one)

    async def models(self, request: Request) -> Response:
        """The one model there is."""
        entry = {"id": self.private.name, "object": "model", "created": 0, "owned_by": "leakbound"}
        return _sent(self._barred(request) or Reply(200, {"object": "list", "data": [entry]}))

    async def health(self, request: Request) -> Response:
        """That the server is up; nothing else."""
        return _sent(Reply(200, {"status": "ok"}))

    async def nowhere(self, request: Request, error: Exception) -> Response:
        """Unknown paths and methods."""
        sentence = "there is only POST /v1/chat/completions, GET /v1/models and GET /healthz; use one of these."
        body = refusal(400, sentence).body
        return _sent(Reply(getattr(error, "status_code", 404), body))

    def _barred(self, request: Request) -> Reply | None:
        """Why a request may not come in, if so."""
        if self.token is None:
            if is_local(request.url.hostname or ""):
                return None
            return refusal(
                401,
                (
                    "without a token this server answers to the name of this machine only, such as "
                    "127.0.0.1."
                ),
            )
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        good = secrets.compare_digest(given.strip().encode(), self.token.encode())
        if scheme.lower() == "bearer" and good:
            return None
        return refusal(
            401,
            (
                "the bearer token is missing or wrong; send Authorization: Bearer and the server's "
                "token."
            ),
        )

    async def _payload(self, request: Request) -> Any:
        """The decoded body, or why it is refused; never reads more than the limit."""
        if not request.headers.get("content-type", "").lower().startswith("application/json"):
            return refusal(
                400, "the content type is not application/json; send the request as JSON."
            )
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > self.limit:
                return refusal(
                    413, f"the request is larger than {self.limit} bytes; send a shorter one."
                )
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            return refusal(400, "the request is not JSON; send an object with messages.")


def _sent(reply: Reply) -> Response:
    from starlette.responses import JSONResponse, Response

    if reply.stream and reply.status == 200:
        return Response(_events(reply.body), media_type="text/event-stream")
    headers = {"www-authenticate": "Bearer"} if reply.status == 401 else None
    return JSONResponse(reply.body, reply.status, headers)
