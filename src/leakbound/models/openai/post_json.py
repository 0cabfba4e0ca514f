"""One POST and its reply: a decoded JSON object, a Fault that may pass, or a refusal.

No text of the server is repeated: it may hold the prompt.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import urlsplit

from leakbound.errors import Refused
from leakbound.models.openai.faults import Fault
from leakbound.models.openai.window import retry_after
from leakbound.models.transport import HttpReply, Transport, TransportError

if TYPE_CHECKING:
    from pydantic import JsonValue

__all__ = ["headers_for", "post_json"]

PASSING = (408, 409, 425, 429)  # of the 4xx, what may pass
BUSY = (408, 425, 429)
KNOWN_TYPES = (
    "authentication_error", "context_length_exceeded", "insufficient_quota", "invalid_api_key",
    "invalid_request_error", "model_not_found", "not_found_error", "permission_error",
    "BadRequestError", "NotFoundError",
)  # fmt: skip
ADVICE = {
    401: "put the right key into the environment variable LEAKBOUND_API_KEY or OPENAI_API_KEY.",
    403: "the key has no right to this model; use another key (environment variable "
    "LEAKBOUND_API_KEY) or model.",
    404: "check the model's name, and that --base-url ends as the server says (usually in /v1).",
    413: "the prompt is too long; use fewer or shorter examples (--shots).",
}
MALFORMED = (
    "a parameter or the length of the prompt does not suit it; check --capabilities and --shots."
)


def headers_for(key: str | None) -> dict[str, str]:
    """Header fields of every request to an endpoint.

    Args:
        key: The API key (PRIVATE); None sends none.

    Returns:
        Header fields by name.
    """
    authorization = {"authorization": f"Bearer {key}"} if key else {}
    return {**authorization, "content-type": "application/json"}


async def post_json(
    transport: Transport,
    url: str,
    headers: Mapping[str, str],
    body: Mapping[str, object],
    timeout: float,
) -> dict[str, JsonValue]:
    """Send a JSON object and read the one that comes back.

    Args:
        transport: What sends it.
        url: Absolute address.
        headers: Header fields, as `headers_for` makes them.
        body: What is sent (PRIVATE).
        timeout: Seconds for the whole exchange.

    Returns:
        The decoded reply.

    Raises:
        Fault: If it failed in a way that may pass.
        Refused: If the endpoint answered and will not do it. Redirects are not followed.
    """
    content = json.dumps(body).encode()
    try:
        reply = await transport.send("POST", url, headers, content, timeout)
    except TransportError as error:
        busy, sent = error.kind == "timeout", error.kind != "no connection"
        raise Fault(error.kind, busy=busy, billed=sent) from None
    _require_ok(reply, url)
    return _decode(reply)


def _require_ok(reply: HttpReply, url: str) -> None:
    status = reply.status
    if status == 200:
        return
    if status >= 500 or status in PASSING:
        wait = retry_after(reply.header("retry-after"), datetime.now(UTC))
        busy = status >= 500 or status in BUSY
        raise Fault(f"HTTP {status}", busy, wait, billed=False)
    raise Refused(_sentence(status, url, _error_type(reply)), status)


def _sentence(status: int, url: str, kind: str) -> str:
    shown = urlsplit(url)._replace(query="", fragment="").geturl()
    if 300 <= status < 400:
        return (
            f"{shown} redirects (HTTP {status}), and no other address than the given one is "
            "contacted; give the right --base-url."
        )
    return f"{shown} refuses the request (HTTP {status}{kind}): {ADVICE.get(status, MALFORMED)}"


def _error_type(reply: HttpReply) -> str:
    """The type of an error, if it is a usual one: anything else may repeat the prompt."""
    try:
        error = _decode(reply).get("error")
    except Fault:
        return ""
    found = [error.get("type"), error.get("code")] if isinstance(error, dict) else []
    return next((f", {one}" for one in found if one in KNOWN_TYPES), "")


def _decode(reply: HttpReply) -> dict[str, JsonValue]:
    media_type = (reply.header("content-type") or "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise Fault("a reply that is not JSON")
    try:
        found = json.loads(reply.body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise Fault("JSON that cannot be read") from None
    if not isinstance(found, dict):
        raise Fault("JSON that is no object")
    return found


def _refuse_constant(text: str) -> NoReturn:
    raise Fault("a number that is none")
