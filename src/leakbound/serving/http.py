"""An OpenAI-compatible chat endpoint over a `PrivateICL`.

`chat` answers one request; the rest is HTTP around it. Nothing private is written anywhere: replies
hold the released text and the budget, errors a sentence made of public facts or the type of an
exception, and the log the type alone.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import math
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leakbound._install import install_hint
from leakbound.errors import BudgetExhausted, LeakboundError, UsageError
from leakbound.serving.private import Answer, PrivateICL

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = ["MAX_BYTES", "ChatReply", "application", "chat", "is_local"]

MAX_BYTES = 65_536  # of a request: far above the longest query, far below what could fill memory
LOG = logging.getLogger("leakbound.serving")
ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "insufficient_quota",
    413: "invalid_request_error",
    500: "server_error",
}  # as the OpenAI API names them
# fields that ask for another kind of answer than one released text
UNSUPPORTED = (
    "audio", "functions", "logit_bias", "logprobs", "prediction", "stop", "tools", "top_logprobs",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What one request gets.

    Attributes:
        status: HTTP status code.
        body: The JSON object of the response.
        stream: Whether the client asked for server-sent events.
    """

    status: int
    body: dict[str, object]
    stream: bool = False


def is_local(host: str) -> bool:
    """Whether a host name or address means this machine only.

    Args:
        host: A name or an IP address, with or without brackets.

    Returns:
        True for loopback addresses and localhost.

    Examples:
        >>> is_local("127.0.0.1"), is_local("[::1]"), is_local("example.org")
        (True, True, False)
    """
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def chat(private: PrivateICL, payload: object) -> ChatReply:
    """Answer one chat request. Raises nothing.

    The last user message is the query, and the only one that is read: each answer is made from the
    private context and one query alone. `model` may be any name. temperature, max_tokens and other
    sampling fields are ignored, because the mechanism has its own.

    Args:
        private: The service.
        payload: The request as decoded JSON.

    Returns:
        200 with the answer. 400 for what cannot be answered: another shape, fields that ask for
        another kind of answer, or n above 1, because every answer is paid for on its own. 403
        where the budget is spent. 500 with the type of an exception and nothing else.

    Guarantee:
        What is returned depends on the private rows only through the released answer, the
        guarantee of which was spent before.
    """
    try:
        query = private.check(_query(payload))
    except LeakboundError as error:
        return _refusal(400, str(error))
    except Exception as error:
        return _failure(error)
    try:
        answer = private.answer(query)
    except BudgetExhausted as error:
        return _refusal(403, str(error))
    except Exception as error:
        return _failure(error)
    stream = isinstance(payload, dict) and payload.get("stream") is True
    return ChatReply(200, _completion(private.name, answer), stream)


def _refusal(status: int, sentence: str) -> ChatReply:
    """An error in OpenAI's shape."""
    error = {"message": sentence, "type": ERROR_TYPES[status], "param": None, "code": None}
    return ChatReply(status, {"error": error})


def _failure(error: Exception) -> ChatReply:
    """Only the type of an exception leaves: its message may hold private text."""
    LOG.error("a request failed: %s", type(error).__name__)
    return _refusal(
        500,
        f"the server could not answer ({type(error).__name__}); what was paid for it stays spent.",
    )


def _query(payload: object) -> str:
    """The text of the last user message."""
    if not isinstance(payload, dict):
        raise UsageError(
            f"the request is a JSON {type(payload).__name__}; it must be an object with messages."
        )
    _require_supported(payload)
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


def _require_supported(payload: dict[str, object]) -> None:
    if payload.get("n", 1) not in (1, None):
        raise UsageError(
            "n is not 1; every answer is paid for on its own, so send one request for each."
        )
    found = [name for name in UNSUPPORTED if payload.get(name)]
    if (payload.get("response_format") or {"type": "text"}) != {"type": "text"}:
        found.append("response_format")
    if found:
        raise UsageError(
            f"{', '.join(found)} cannot be honoured here; leave it out and ask for a plain text "
            "answer."
        )


def _text(content: object) -> str:
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


def _completion(name: str, answer: Answer) -> dict[str, object]:
    """A chat completion; token counts are 0, for the length of a prompt is private."""
    message = {"role": "assistant", "content": answer.text}
    return {
        "id": f"chatcmpl-{secrets.token_hex(12)}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": name,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
        "leakbound": {
            "epsilon_spent": _finite(answer.spent),
            "epsilon_remaining": _finite(answer.remaining),
            "delta": answer.delta,
        },
    }


def _finite(value: float) -> float | None:
    """JSON has no infinity: null."""
    return value if math.isfinite(value) else None


def _events(body: dict[str, object]) -> str:
    """The answer as one server-sent event, and the end."""
    choices = body["choices"]
    message = choices[0]["message"] if isinstance(choices, list) else {}
    choice = {"index": 0, "delta": message, "finish_reason": "stop", "logprobs": None}
    chunk = {**body, "object": "chat.completion.chunk", "choices": [choice]}
    return f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n"


def application(private: PrivateICL, token: str | None = None, limit: int = MAX_BYTES) -> Starlette:
    """The ASGI application: POST /v1/chat/completions, GET /v1/models, GET /healthz.

    Requests are answered one at a time, in a thread.

    Args:
        private: The service.
        token: What clients send as bearer token. None is for loopback only; then the Host header
            must name this machine, so that a web page cannot reach it under another name.
        limit: The most bytes of a request.

    Returns:
        An application for any ASGI server.

    Raises:
        UsageError: If the extra `serve` is not installed.
    """
    try:
        from starlette.applications import Starlette
        from starlette.exceptions import HTTPException
        from starlette.routing import Route
    except ImportError:
        raise UsageError(
            f"serving needs starlette and uvicorn; install them with: {install_hint('serve')}."
        ) from None
    app = ChatApp(private, token, limit)
    routes = [
        Route("/v1/chat/completions", app.completions, methods=["POST"]),
        Route("/v1/models", app.models, methods=["GET"]),
        Route("/healthz", app.health, methods=["GET"]),
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: app.not_found})


class ChatApp:
    """The three endpoints over one `PrivateICL`: access, size limit, one request at a time.

    Args:
        private: The service.
        token: Bearer token of the clients; None for loopback only.
        limit: The most bytes of a request.
    """

    def __init__(self, private: PrivateICL, token: str | None, limit: int) -> None:
        import anyio

        self.private, self.token, self.limit = private, token, limit
        self._limiter = anyio.CapacityLimiter(1)

    async def completions(self, request: Request) -> Response:
        """POST /v1/chat/completions: one chat request.

        Args:
            request: The HTTP request.

        Returns:
            The HTTP response.
        """
        try:
            return _response(await self._reply(request))
        except Exception as error:
            return _response(_failure(error))

    async def _reply(self, request: Request) -> ChatReply:
        from anyio import to_thread

        payload = self._access_error(request) or await self._payload(request)
        if isinstance(payload, ChatReply):
            return payload
        return await to_thread.run_sync(chat, self.private, payload, limiter=self._limiter)

    async def models(self, request: Request) -> Response:
        """GET /v1/models: the one model there is.

        Args:
            request: The HTTP request.

        Returns:
            The HTTP response.
        """
        entry = {"id": self.private.name, "object": "model", "created": 0, "owned_by": "leakbound"}
        listed = ChatReply(200, {"object": "list", "data": [entry]})
        return _response(self._access_error(request) or listed)

    async def health(self, request: Request) -> Response:
        """GET /healthz: that the server is up; nothing else.

        Args:
            request: The HTTP request.

        Returns:
            The HTTP response.
        """
        return _response(ChatReply(200, {"status": "ok"}))

    async def not_found(self, request: Request, error: Exception) -> Response:
        """Any unknown path or method.

        Args:
            request: The HTTP request.
            error: What Starlette raised of it.

        Returns:
            The HTTP response.
        """
        from starlette.exceptions import HTTPException

        sentence = (
            "there is only POST /v1/chat/completions, GET /v1/models and GET /healthz; use one of "
            "these."
        )
        status = error.status_code if isinstance(error, HTTPException) else 404
        return _response(ChatReply(status, _refusal(400, sentence).body))

    def _access_error(self, request: Request) -> ChatReply | None:
        """Why a request is not allowed, if so."""
        if self.token is None:
            if is_local(request.url.hostname or ""):
                return None
            return _refusal(
                401,
                "without a token this server answers to the name of this machine only, such as "
                "127.0.0.1.",
            )
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        good = secrets.compare_digest(given.strip().encode(), self.token.encode())
        if scheme.lower() == "bearer" and good:
            return None
        return _refusal(
            401,
            "the bearer token is missing or wrong; send Authorization: Bearer and the server's "
            "token.",
        )

    async def _payload(self, request: Request) -> object:
        """The decoded body, or why it is refused; never reads more than the limit."""
        if not request.headers.get("content-type", "").lower().startswith("application/json"):
            return _refusal(
                400, "the content type is not application/json; send the request as JSON."
            )
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > self.limit:
                return _refusal(
                    413, f"the request is larger than {self.limit} bytes; send a shorter one."
                )
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            return _refusal(400, "the request is not JSON; send an object with messages.")


def _response(reply: ChatReply) -> Response:
    from starlette.responses import JSONResponse, Response

    if reply.stream and reply.status == 200:
        return Response(_events(reply.body), media_type="text/event-stream")
    headers = {"www-authenticate": "Bearer"} if reply.status == 401 else None
    return JSONResponse(reply.body, reply.status, headers)
