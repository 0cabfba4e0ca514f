"""First requests to an OpenAI-compatible endpoint: which models it serves, and whether it answers.

They hold nothing private but the key, and are sent once: a failure is what the user wants to know.
"""

from __future__ import annotations

from leakbound.errors import Refused, TargetError
from leakbound.models.http.blocking import run_blocking
from leakbound.models.http.post_json import Fault, JsonAddress
from leakbound.models.http.transport import TransportError, default_transport
from leakbound.models.openai.endpoint import Endpoint, key_from_environment
from leakbound.models.openai.wire.requests import HttpRequest, http_request_for
from leakbound.models.request import Complete

PUBLIC = Complete("The capital of France is", max_tokens=8)
BASE = "start the server, or give its base URL, which usually ends in /v1"
NAMED = "name its model beside it, as openai/MODEL"


def served_models(endpoint: Endpoint) -> tuple[str, ...]:
    return run_blocking(_list_all(_address(endpoint)))


def _address(endpoint: Endpoint) -> JsonAddress:
    transport, key = endpoint.transport or default_transport(1), key_from_environment(endpoint)
    return JsonAddress(transport, endpoint.urls[0], key, endpoint.timeout)


async def _list_all(address: JsonAddress) -> tuple[str, ...]:
    base = address.url
    try:
        data = (await address.get("/models")).get("data")
    except TransportError as error:
        raise TargetError(f"{base} does not answer ({error.kind}); {BASE}.") from None
    except Fault as fault:
        raise TargetError(f"{base} lists no models ({fault}); {BASE}, or {NAMED}.") from None
    except Refused as refused:
        if refused.status != 404:
            raise
        raise TargetError(f"{base} lists no models (HTTP 404); {BASE}, or {NAMED}.") from None
    finally:
        await address.transport.close()
    models = data if isinstance(data, list) else []
    ids = [one.get("id") for one in models if isinstance(one, dict)]
    names = tuple(name for name in ids if isinstance(name, str) and name.isprintable() and name)
    if not names:
        raise TargetError(f"{base} lists no models; {NAMED}.")
    return names


def require_answer(model: str, endpoint: Endpoint) -> None:
    """Send one request about a public text, as an audit sends its own."""
    request = http_request_for(PUBLIC, model, endpoint.capabilities, endpoint.dialect)
    run_blocking(_answer(request, _address(endpoint)))


async def _answer(request: HttpRequest[object], address: JsonAddress) -> None:
    try:
        request.read(await address.post(request.path, request.body))
    except Fault as fault:
        raise TargetError(
            f"{address.url} does not answer a chat request about a public text ({fault}); {BASE}."
        ) from None
    finally:
        await address.transport.close()
