"""One request and its reply: a decoded JSON object, a `Fault`, or a refusal.

A fault may be temporary: the request is retried, and the fault does not become an answer. A refusal
by a content filter is permanent: it is an answer. No text of the server is repeated, since it may
contain the prompt.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import urlsplit

from leakbound.errors import Refused
from leakbound.models.http.hosts import is_azure, joined
from leakbound.models.http.transport import HttpReply, Transport, TransportError
from leakbound.models.openai.wire.dialect import OPTIONAL

if TYPE_CHECKING:
    from pydantic import JsonValue

PASSING = (408, 409, 425, 429)  # the 4xx that may be temporary
BUSY = (408, 425, 429)
KNOWN_TYPES = (
    "authentication_error", "context_length_exceeded", "insufficient_quota", "invalid_api_key",
    "invalid_request_error", "model_not_found", "not_found_error", "permission_error",
    "BadRequestError", "NotFoundError",
)  # fmt: skip
FILTERS = (
    "content_filter", "content_policy_violation", "invalid_prompt", "ResponsibleAIPolicyViolation",
)  # fmt: skip
MODERATED = ("reasons", "flagged_input")  # fields of OpenRouter's reply to a refused prompt
FILTER_WORDS = ("ContentPolicyViolationError", "filtered due to the prompt triggering")
ADVICE = {
    401: "put the right key into the environment variable LEAKBOUND_API_KEY (OPENAI_API_KEY for "
    "api.openai.com), or name another one with --key-env.",
    403: "the key has no right to this model; use another key (environment variable "
    "LEAKBOUND_API_KEY) or model.",
    404: "check the model's name, and that --base-url ends as the server says (usually in /v1).",
    413: "the prompt is too long; use fewer or shorter examples (--shots).",
}
MALFORMED = (
    "a parameter or the length of the prompt does not suit it; leakbound probe finds out what it "
    "takes (--capabilities, --param, --omit), or check --shots."
)
UNSUPPORTED = (
    "it does not take this parameter as it is sent; leakbound probe finds out what it takes, or "
    "change it with --param, --rename or --omit."
)


class Fault(Exception):
    def __init__(
        self, kind: str, busy: bool = False, wait: float | None = None, billed: bool = True,
        of_prompt: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(kind)
        self.kind, self.busy, self.wait, self.billed = kind, busy, wait, billed
        self.of_prompt = of_prompt


class Filtered(Refused):
    """The content filter of an endpoint refused a prompt."""


class Unsupported(Refused):
    def __init__(self, sentence: str, status: int, parameter: str) -> None:
        super().__init__(sentence, status)
        self.parameter = parameter


class JsonAddress:
    """One base URL of an endpoint, to which JSON is sent with the key (SECRET)."""

    def __init__(self, transport: Transport, url: str, key: str | None, timeout: float) -> None:
        self.transport, self.url, self._timeout = transport, url, timeout
        self._headers = {"content-type": "application/json"}
        if key:
            self._headers |= (
                {"api-key": key} if is_azure(url) else {"authorization": f"Bearer {key}"}
            )

    async def get(self, path: str) -> dict[str, JsonValue]:
        """Raises TransportError, Fault or Refused."""
        return await self._sent("GET", path, None)

    async def post(self, path: str, body: Mapping[str, object]) -> dict[str, JsonValue]:
        """Raises Fault or Refused."""
        try:
            return await self._sent("POST", path, json.dumps(body).encode())
        except TransportError as error:
            busy, sent = error.kind == "timeout", error.kind != "no connection"
            raise Fault(error.kind, busy=busy, billed=sent) from None

    async def _sent(self, method: str, path: str, body: bytes | None) -> dict[str, JsonValue]:
        url = joined(self.url, path)
        reply = await self.transport.send(method, url, self._headers, body, self._timeout)
        status = reply.status
        if status == 200:
            return _decode(reply)
        if status >= 500 or status in PASSING:
            busy = status >= 500 or status in BUSY
            raise Fault(f"HTTP {status}", busy, reply.wait, billed=False, of_prompt=status == 500)
        raise _refusal(status, url, _error(reply))


def _refusal(status: int, url: str, error: Mapping[str, JsonValue]) -> Refused:
    inner = error.get("innererror")
    codes = [error.get("code"), error.get("type")]
    codes += [inner.get("code")] if isinstance(inner, dict) else []
    kind = next((f", {one}" for one in codes if one in KNOWN_TYPES), "")
    if _is_filtered(status, codes, error):
        return Filtered(_sentence(status, url, ", content_filter"), status)
    parameter = error.get("param")
    if status in (400, 422) and parameter in OPTIONAL:
        sentence = _sentence(status, url, f"{kind}, {parameter}", UNSUPPORTED)
        return Unsupported(sentence, status, str(parameter))
    return Refused(_sentence(status, url, kind), status)


def _is_filtered(status: int, codes: Sequence[JsonValue], error: Mapping[str, JsonValue]) -> bool:
    if status == 403:
        told = error.get("metadata")
        return isinstance(told, dict) and any(name in told for name in MODERATED)
    # LiteLLM's proxy reports a filter's refusal only in words, at the start of its message
    start = str(error.get("message"))[:200]
    named = any(code in FILTERS for code in codes) or any(words in start for words in FILTER_WORDS)
    return status == 400 and named


def _sentence(status: int, url: str, kind: str, advice: str = MALFORMED) -> str:
    shown = urlsplit(url)._replace(query="", fragment="").geturl()
    if 300 <= status < 400:
        return (
            f"{shown} redirects (HTTP {status}), and no other address than the given one is "
            "contacted; give the right --base-url."
        )
    return f"{shown} refuses the request (HTTP {status}{kind}): {ADVICE.get(status, advice)}"


def _error(reply: HttpReply) -> dict[str, JsonValue]:
    """The error of a reply. Only known words of it may be shown: it may repeat the prompt."""
    try:
        error = _decode(reply).get("error")
    except Fault:
        return {}
    return error if isinstance(error, dict) else {}


def _decode(reply: HttpReply) -> dict[str, JsonValue]:
    media_type = (reply.header("content-type") or "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise Fault("a reply that is not JSON", of_prompt=True)
    try:
        found = json.loads(reply.body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise Fault("JSON that cannot be read", of_prompt=True) from None
    if not isinstance(found, dict):
        raise Fault("JSON that is not an object", of_prompt=True)
    return found


def _refuse_constant(text: str) -> NoReturn:
    raise Fault("an invalid number", of_prompt=True)
