"""The ASGI application: access, size and time limits, and one answer at a time."""

from __future__ import annotations

import json
import logging
import math
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
from anyio import from_thread, to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from leakbound.serving.http.calls import (
    NO_RETRY,
    Call,
    ServiceCalls,
    ServiceReply,
    refusal,
    request_digest,
)
from leakbound.serving.http.formats import FORMATS, AnswerFormat, Payload
from leakbound.serving.http.state_file import ServiceState
from leakbound.serving.http.tenants import Tenant, Tenants, is_local, names_this_machine
from leakbound.serving.private import PrivateICL

LOG = logging.getLogger("leakbound.serving")
LONGEST_KEY = 255  # characters of an idempotency key, as at Stripe
CLOSE = {"connection": "close"}
PATHS = (
    "there is only POST /v1/chat/completions, /v1/completions and /v1/responses, GET /v1/models, "
    "/v1/models/NAME and /health; use one of these."
)

NO_TOKEN = (
    "without a token this server answers clients on this machine only, and only to the name of "
    "this machine, such as 127.0.0.1."
)


class Rejected(Exception):
    """A request that is refused before it becomes a call."""

    def __init__(self, *refused: Any) -> None:
        super().__init__()
        self.reply = refusal(*refused)


class ServiceApp:
    def __init__(
        self,
        private: PrivateICL,
        tenants: Tenants | None,
        state: ServiceState,
        ignored: Iterable[str],
        limit: int,
        timeout: float,
        reply_after: float | None,
    ) -> None:
        self.private, self.tenants, self.limit, self.timeout = private, tenants, limit, timeout
        self.reply_after = math.inf if reply_after is None else reply_after
        self._calls = ServiceCalls(
            private, state, ignored, several=tenants is not None and len(tenants.all) > 1,
            reply_after=self.reply_after,
        )  # fmt: skip
        self._anybody = Tenant("anybody", secrets.token_hex())
        self._one_at_a_time = anyio.Semaphore(1)
        self._started = int(time.time())

    def starlette(self) -> Starlette:
        answers = [
            Route(one.path, self._guarded(partial(self._answer, one)), methods=["POST"])
            for one in FORMATS
        ]
        routes = [
            *answers,
            Route("/v1/models", self._guarded(self._models), methods=["GET"]),
            Route("/v1/models/{name:path}", self._guarded(self._model), methods=["GET"]),
            Route("/health", self.health, methods=["GET"]),
            Route("/healthz", self.health, methods=["GET"]),
        ]
        return Starlette(routes=routes, exception_handlers={HTTPException: self.not_found})

    async def health(self, request: Request) -> Response:
        if self._calls.stopped:
            return JSONResponse({"status": "stopped"}, 503)
        return JSONResponse({"status": "ok"})

    async def not_found(self, request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 404
        return _response(ServiceReply(status, refusal(404, PATHS).body))

    def _guarded(
        self, handle: Callable[[Request, Tenant], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """A handler that requires access and never shows an exception."""

        async def endpoint(request: Request) -> Response:
            try:
                return await handle(request, self._tenant(request))
            except Rejected as rejected:
                return _response(rejected.reply)
            except Exception as error:
                LOG.error("a request failed: %s", type(error).__name__)
                return _response(refusal(500, "the server could not answer.", NO_RETRY))

        return endpoint

    def _tenant(self, request: Request) -> Tenant:
        if self.tenants is None:
            # a web page could lead a browser on this machine here under another name, so the name
            # in the Host header is checked, too
            client, host = request.client, request.headers.get("host", "")
            here = client is not None and is_local(client.host) and names_this_machine(host)
            if not here:
                raise Rejected(401, NO_TOKEN)
            return self._anybody
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        found = self.tenants.find(given.strip())
        if scheme.lower() == "bearer" and found is not None:
            return found
        raise Rejected(
            401,
            "the bearer token is missing or wrong; send Authorization: Bearer and your token.",
            {"www-authenticate": "Bearer"},
        )

    # --- models

    async def _models(self, request: Request, tenant: Tenant) -> Response:
        return JSONResponse({"object": "list", "data": [self._entry()]})

    async def _model(self, request: Request, tenant: Tenant) -> Response:
        if request.path_params["name"] != self.private.name:
            raise Rejected(404, f"there is one model here; use {self.private.name}.")
        return JSONResponse(self._entry())

    def _entry(self) -> Payload:
        fixed = {"object": "model", "created": self._started, "owned_by": "leakbound"}
        return {"id": self.private.name, **fixed}

    # --- answers

    async def _answer(self, form: AnswerFormat, request: Request, tenant: Tenant) -> Response:
        key = request.headers.get("idempotency-key", "").strip()
        if len(key) > LONGEST_KEY or not key.isprintable():
            raise Rejected(
                400, f"Idempotency-Key must be a text of at most {LONGEST_KEY} characters."
            )
        try:
            payload = await self._payload(request)
        except ClientDisconnect:
            return Response(status_code=400)
        retried = request.headers.get("x-stainless-retry-count", "0") != "0"
        call = Call(tenant, form, payload, request_digest(form, payload), key, retried)
        reply = await self._in_turn(request, call)
        return _response(reply, form, payload)

    async def _in_turn(self, request: Request, call: Call) -> ServiceReply:
        """Answer one call at a time, and charge no client that has left before its turn."""
        async with self._one_at_a_time:
            if await request.is_disconnected():
                return refusal(408, "the client went away before its turn; nothing was spent.")
            reply = await self._on_time(call)
            if await request.is_disconnected():
                self._calls.keep_undelivered(call, reply)
            return reply

    async def _on_time(self, call: Call) -> ServiceReply:
        """An answer leaves `reply_after` seconds after its payment; one that is late, never."""
        with anyio.CancelScope() as turn:

            def begin() -> None:
                turn.deadline = anyio.current_time() + self.reply_after

            timed = replace(call, paying=partial(from_thread.run_sync, begin))
            answer = partial(self._calls.answer, timed)
            reply = await to_thread.run_sync(
                answer, abandon_on_cancel=math.isfinite(self.reply_after)
            )
        if turn.cancelled_caught:
            stopped = self._calls.stop(self.reply_after, call)
            # a thread that reads a long reply holds this one up: how long is told in steps alone
            begun = turn.deadline - self.reply_after
            steps = math.ceil((anyio.current_time() - begun) / self.reply_after)
            await anyio.sleep_until(begun + steps * self.reply_after)
            return stopped
        if reply.spent and math.isfinite(turn.deadline):
            await anyio.sleep_until(turn.deadline)
        await to_thread.run_sync(self._calls.keep, call, reply)
        return reply

    async def _payload(self, request: Request) -> Payload:
        """The decoded body. Size and time are limited."""
        if not request.headers.get("content-type", "").lower().startswith("application/json"):
            raise Rejected(
                400, "the content type is not application/json; send the request as JSON."
            )
        if {"transfer-encoding", "content-length"} <= set(request.headers):
            raise Rejected(
                400,
                "the request has Content-Length and Transfer-Encoding, so a proxy may see another "
                "end of it; send one of them.",
                CLOSE,
            )
        body = b""
        with anyio.move_on_after(self.timeout) as waiting:
            async for piece in request.stream():
                body += piece
                if len(body) > self.limit:
                    raise Rejected(
                        413, f"the request is larger than {self.limit} bytes; send a shorter one."
                    )
        if waiting.cancelled_caught:
            sentence = f"the request did not arrive within {self.timeout:g} seconds; send it again."
            raise Rejected(408, sentence, CLOSE)
        return _decode(body)


def _decode(body: bytes) -> Payload:
    try:
        found = json.loads(body)
        json.dumps(found, ensure_ascii=False).encode()  # so that a reply can repeat it
    except UnicodeEncodeError:
        sentence = "the request holds half a character (a lone surrogate); send valid Unicode text."
        raise Rejected(400, sentence) from None
    except (ValueError, RecursionError):
        raise Rejected(400, "the request is not JSON; send an object.") from None
    if not isinstance(found, dict):
        kind = type(found).__name__
        raise Rejected(400, f"the request is a JSON {kind}; it must be an object with messages.")
    return found


def _response(
    reply: ServiceReply, form: AnswerFormat | None = None, payload: Payload | None = None
) -> Response:
    headers = dict(reply.headers)
    if form is None or payload is None or reply.answer is None or payload.get("stream") is not True:
        return JSONResponse(reply.body, reply.status, headers)
    events = "".join(form.events(reply.answer, payload))
    return Response(events, reply.status, headers, "text/event-stream")
