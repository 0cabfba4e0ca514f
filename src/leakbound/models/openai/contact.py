"""First requests to an OpenAI-compatible endpoint: which models it serves, and whether it answers.

They hold nothing private but the key, and are sent once: a failure is what the user wants to know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leakbound.errors import Refused, TargetError
from leakbound.models.http.blocking import run_blocking
from leakbound.models.http.hosts import joined
from leakbound.models.http.post_json import Fault, headers_for, post_json, read_json
from leakbound.models.http.transport import Transport, TransportError, default_transport
from leakbound.models.openai.endpoint import Endpoint, key_from_environment
from leakbound.models.openai.wire.requests import http_request_for
from leakbound.models.request import Complete

if TYPE_CHECKING:
    from pydantic import JsonValue

PUBLIC = Complete("The capital of France is", max_tokens=8)
BASE = "start the server, or give its base URL, which usually ends in /v1"
NAMED = "name its model beside it, as openai/MODEL"


def served_models(endpoint: Endpoint) -> tuple[str, ...]:
    return run_blocking(_listed(endpoint, endpoint.transport or default_transport(1)))


async def _listed(endpoint: Endpoint, transport: Transport) -> tuple[str, ...]:
    base = endpoint.urls[0]
    url = joined(base, "/models")
    headers = headers_for(key_from_environment(endpoint), url)
    try:
        found = read_json(await transport.send("GET", url, headers, None, endpoint.timeout), url)
    except TransportError as error:
        raise TargetError(f"{base} does not answer ({error.kind}); {BASE}.") from None
    except Fault as fault:
        raise TargetError(f"{base} lists no models ({fault}); {BASE}, or {NAMED}.") from None
    except Refused as refused:
        if refused.status != 404:
            raise
        raise TargetError(f"{base} lists no models (HTTP 404); {BASE}, or {NAMED}.") from None
    finally:
        await transport.close()
    if not (names := _names(found)):
        raise TargetError(f"{base} lists no models; {NAMED}.")
    return names


def _names(found: dict[str, JsonValue]) -> tuple[str, ...]:
    data = found.get("data")
    models = data if isinstance(data, list) else []
    ids = [one.get("id") for one in models if isinstance(one, dict)]
    return tuple(name for name in ids if isinstance(name, str) and name.isprintable() and name)


def require_answer(model: str, endpoint: Endpoint) -> None:
    """Send one request about a public text, as an audit sends its own."""
    run_blocking(_answered(model, endpoint, endpoint.transport or default_transport(1)))


async def _answered(model: str, endpoint: Endpoint, transport: Transport) -> None:
    base = endpoint.urls[0]
    request = http_request_for(PUBLIC, model, endpoint.capabilities, endpoint.dialect)
    url = joined(base, request.path)
    headers = headers_for(key_from_environment(endpoint), url)
    try:
        request.read(await post_json(transport, url, headers, request.body, endpoint.timeout))
    except Fault as fault:
        raise TargetError(
            f"{base} does not answer a chat request about a public text ({fault}); {BASE}."
        ) from None
    finally:
        await transport.close()
