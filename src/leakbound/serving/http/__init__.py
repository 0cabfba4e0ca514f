"""An OpenAI-compatible service over a `PrivateICL`: chat, completions, responses, models.

`application` is the whole service for any ASGI server. Each file is one idea: `fields` says which
fields of a request are honoured, `conversation` makes one query of messages, `formats` reads and
writes the three endpoints, `tenants` knows who may ask, `state_file` keeps accounts and idempotency
keys, `calls` answers, `app` is HTTP around it, `server` the process.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from leakbound._install import install_hint
from leakbound.errors import UsageError
from leakbound.serving.http.address import is_local
from leakbound.serving.http.state_file import ServiceState
from leakbound.serving.http.tenants import Tenant, Tenants, load_tenants
from leakbound.serving.private import PrivateICL

if TYPE_CHECKING:
    from starlette.applications import Starlette

__all__ = [
    "MAX_BYTES",
    "ServiceState",
    "Tenant",
    "Tenants",
    "application",
    "is_local",
    "load_tenants",
]

MAX_BYTES = 65_536  # of a request: far above the longest query, far below what could fill memory
SECONDS = 10.0  # for the headers of a request, and for its body: seconds of the slowest network


def application(
    private: PrivateICL,
    token: str | None = None,
    limit: int = MAX_BYTES,
    *,
    tenants: Tenants | None = None,
    state: ServiceState | None = None,
    ignored_fields: Iterable[str] = (),
    timeout: float = SECONDS,
) -> Starlette:
    """The ASGI application: /v1/chat/completions, /v1/completions, /v1/responses, /v1/models,
    /v1/models/NAME and /health.

    Requests are answered one at a time, in a thread.

    Args:
        private: The service.
        token: What all clients send as bearer token. None, without tenants, is for loopback only:
            the connection must come from this machine, and the Host header must name it, so that a
            web page cannot reach it under another name.
        limit: The most bytes of a request.
        tenants: Clients with tokens, caps and rates of their own, instead of `token`.
        state: Their accounts, and idempotency keys; None keeps both in memory.
        ignored_fields: Fields, such as temperature, that are ignored where they ask for something
            else than the service does; the reply names them.
        timeout: Seconds within which the body of a request must have arrived.

    Returns:
        An application for any ASGI server.

    Raises:
        UsageError: If the extra `serve` is not installed, or both token and tenants are given.
    """
    if token is not None and tenants is not None:
        raise UsageError("there is one token and there are tenants; give only one of both.")
    try:
        from leakbound.serving.http.app import ServiceApp, starlette_app
    except ImportError:
        raise UsageError(
            f"serving needs starlette and uvicorn; install them with: {install_hint('serve')}."
        ) from None
    allowed = Tenants([Tenant("default", token)]) if token is not None else tenants
    kept = ServiceState() if state is None else state
    return starlette_app(ServiceApp(private, allowed, kept, ignored_fields, limit, timeout))
