"""An OpenAI-compatible service over a `PrivateICL`: chat, completions, responses, models.

`application` is the whole service for any ASGI server, which `server.listen` runs. A request goes
through `tenants` (who may ask), `formats` (what is honoured, the query and the reply)
and `calls` (one answer, by accounts and idempotency keys in `state_file`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from leakbound._check import positive
from leakbound._install import install_hint
from leakbound.errors import UsageError
from leakbound.serving.http.state_file import ServiceState
from leakbound.serving.http.tenants import Tenant, Tenants, is_local, load_tenants
from leakbound.serving.private import PrivateICL

if TYPE_CHECKING:
    from starlette.applications import Starlette

__all__ = [
    "MAX_BYTES", "ServiceState", "Tenant", "Tenants", "application", "is_local", "load_tenants",
]  # fmt: skip

MAX_BYTES = 65_536  # of a request: far above the longest query, far below what would fill memory
SECONDS = 10.0  # for the headers and for the body of a request, even on a very slow network


def application(
    private: PrivateICL,
    token: str | None = None,
    limit: int = MAX_BYTES,
    *,
    tenants: Tenants | None = None,
    state: ServiceState | None = None,
    ignored_fields: Iterable[str] = (),
    timeout: float = SECONDS,
    reply_after: float | None = None,
) -> Starlette:
    """The ASGI application: /v1/chat/completions, /v1/completions, /v1/responses, /v1/models,
    /v1/models/NAME and /health. Requests are answered one at a time, in a thread.

    Args:
        private: The service.
        token: The bearer token that all clients send. None, without tenants, allows loopback only:
            the connection must come from this machine and the Host header must name it, so a web
            page cannot reach the service under another name.
        limit: The most bytes of a request.
        tenants: Clients with their own tokens, caps and rates, in place of `token`.
        state: Accounts of the tenants and idempotency keys; None keeps both in memory.
        ignored_fields: Fields, such as temperature, that are ignored if they ask for something
            that the service does not do. The reply names them.
        timeout: Seconds within which the body of a request must arrive.
        reply_after: Seconds after the payment at which every answer leaves, so that how long it
            takes tells nothing of the rows of one request at a time; None for as soon as it is
            made. If one is late, its client gets a refusal, and the service answers nothing more.

    Raises:
        UsageError: If the extra `serve` is not installed, both token and tenants are given, or an
            answer was late before after as many seconds.
    """
    if token is not None and tenants is not None:
        raise UsageError("token and tenants are both given; give only one of them.")
    try:
        from leakbound.serving.http.app import ServiceApp
    except ImportError:
        raise UsageError(
            f"serving needs starlette and uvicorn; install them with: {install_hint('serve')}."
        ) from None
    allowed = Tenants([Tenant("default", token)]) if token is not None else tenants
    kept = ServiceState() if state is None else state
    if reply_after is not None:
        kept.require_more(positive("reply_after", reply_after))
    made = ServiceApp(private, allowed, kept, ignored_fields, limit, timeout, reply_after)
    return made.starlette()
