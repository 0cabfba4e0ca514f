"""One POST and its reply:

a decoded JSON object, a Fault that may pass, or a sentence. No text of the server is repeated.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from leakbound.errors import Refused
from leakbound.models.openai.faults import Fault
from leakbound.models.openai.window import retry_after

__all__ = ["post_json", "new_session"]

PASSING = (408, 409, 425, 429)  # of the 4xx, what may pass
BUSY = (408, 425, 429)
KNOWN_TYPES = (
    "authentication_error", "context_length_exceeded", "insufficient_quota", "invalid_api_key", "invalid_request_error",
    "model_not_found", "not_found_error", "permission_error", "BadRequestError", "NotFoundError",
)  # fmt: skip
ADVICE = {
    401: "put the right key into the environment variable LEAKBOUND_API_KEY or OPENAI_API_KEY.",
    403: "the key has no right to this model; use another key (environment variable LEAKBOUND_API_KEY) or model.",
    404: "check the model's name, and that --base-url ends as the server says (usually in /v1).",
    413: "the prompt is too long; use fewer or shorter examples (--shots).",
}
MALFORMED = (
    "a parameter or the length of the prompt does not suit it; check --capabilities and --shots."
)


def new_session(key: str | None, connections: int, timeout: float) -> aiohttp.ClientSession:
    """Connections for one key: no proxy, cookie or netrc of the environment is used."""
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=connections), timeout=aiohttp.ClientTimeout(total=timeout),
        headers={**headers, "content-type": "application/json"}, cookie_jar=aiohttp.DummyCookieJar(),
    )  # fmt: skip


async def post_json(
    session: aiohttp.ClientSession, url: str, path: str, body: Mapping[str, Any]
) -> dict[str, Any]:
    """The decoded reply. Follows no redirect.

    Raises Fault for what may pass, Refused for what will not.
    """
    try:
        async with session.post(
            url + path, data=json.dumps(body).encode(), allow_redirects=False
        ) as reply:
            _require_ok(
                reply.status,
                reply.headers.get("retry-after"),
                url + path,
                reply,
                await reply.read(),
            )
            return _decoded(reply.content_type, await reply.read())
    except TimeoutError:
        raise Fault("timeout", busy=True) from None
    except aiohttp.ClientConnectorError:
        raise Fault("no connection", billed=False) from None
    except aiohttp.ClientPayloadError:
        raise Fault("a reply cut off") from None
    except (aiohttp.ClientError, OSError):
        raise Fault("a connection lost") from None


def _require_ok(
    status: int, wait: str | None, where: str, reply: aiohttp.ClientResponse, body: bytes
) -> None:
    if status == 200:
        return
    if status >= 500 or status in PASSING:
        busy = status >= 500 or status in BUSY
        raise Fault(f"HTTP {status}", busy, retry_after(wait, datetime.now(UTC)), billed=False)
    raise Refused(_sentence(status, where, _type(reply.content_type, body)), status)


def _sentence(status: int, where: str, kind: str) -> str:
    host = urlsplit(where)
    shown = f"{host.scheme}://{host.netloc}{host.path}"
    if 300 <= status < 400:
        return f"{shown} redirects (HTTP {status}), and no other address than the given one is contacted; give the right --base-url."
    return f"{shown} refuses the request (HTTP {status}{kind}): {ADVICE.get(status, MALFORMED)}"


def _type(content_type: str, body: bytes) -> str:
    """The type of an error, if it is a usual one: anything else may repeat the prompt."""
    try:
        error = _decoded(content_type, body).get("error")
    except Fault:
        return ""
    found = [error.get("type"), error.get("code")] if isinstance(error, dict) else []
    return next((f", {one}" for one in found if one in KNOWN_TYPES), "")


def _decoded(content_type: str, body: bytes) -> dict[str, Any]:
    if content_type != "application/json":
        raise Fault("a reply that is not JSON")
    try:
        found = json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise Fault("JSON that cannot be read") from None
    if not isinstance(found, dict):
        raise Fault("JSON that is no object")
    return found


def _no_number(text: str) -> Any:
    raise Fault("a number that is none")
