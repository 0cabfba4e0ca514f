"""One request and its reply: a decoded JSON object, a `Fault`, or a refusal.

A fault may be temporary: the request is retried, and the fault does not become an answer. A refusal
by a content filter is permanent: it is an answer. No text of the server is repeated, since it may
contain the prompt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NoReturn
from urllib.parse import urlsplit

from leakbound.errors import Refused
from leakbound.models.content import whole
from leakbound.models.http.hosts import is_azure, join_path
from leakbound.models.http.transport import HttpReply, Transport, TransportError
from leakbound.models.openai.endpoint import OPTIONAL

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
        return await self._sent("GET", path, None)

    async def post(self, path: str, body: Mapping[str, object]) -> dict[str, JsonValue]:
        try:
            return await self._sent("POST", path, json.dumps(body).encode())
        except TransportError as error:
            busy, sent = error.kind == "timeout", error.kind != "no connection"
            raise Fault(error.kind, busy=busy, billed=sent) from None

    async def _sent(self, method: str, path: str, body: bytes | None) -> dict[str, JsonValue]:
        url = join_path(self.url, path)
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


AnswerKind = Literal[
    "text", "refusal", "content_filter", "tool_call", "empty", "reasoning_only", "no_answer",
]  # fmt: skip
NAMES = "think|thinking|thought|thoughts|reasoning"
# how models mark reasoning in their text: opening and closing marks
MARKS = tuple(
    (re.compile(opens, re.IGNORECASE), re.compile(closes, re.IGNORECASE))
    for opens, closes in (
        (f"<(?:{NAMES})>", f"</(?:{NAMES})>"),
        (rf"\[(?:{NAMES})\]", rf"\[/(?:{NAMES})\]"),
        (r"<\|channel\|>analysis<\|message\|>", r"<\|channel\|>final<\|message\|>"),
    )
)
REASONING = ("reasoning_content", "reasoning")  # names of the field, by server and release


@dataclass(frozen=True, slots=True, repr=False)
class Generated:
    """What a model generated (PRIVATE)."""

    text: str
    reasoning: str = ""
    outcome: AnswerKind = "text"
    cut: bool = False

    @property
    def answer(self) -> str:
        """The answer as attacks read it: a text, after the outcome in brackets if it is unusual."""
        if self.outcome in ("refusal", "content_filter", "tool_call", "no_answer"):
            return f"({self.outcome.replace('_', ' ')}) {self.text}".rstrip()
        return self.text


FILTERED = Generated("", outcome="content_filter")  # for a prompt that the endpoint refuses
LOST = Generated("", outcome="no_answer")  # for a prompt at which the endpoint always fails


def choice_of(reply: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    choices = reply.get("choices")
    if isinstance(choices, list) and len(choices) == 1 and isinstance(choices[0], dict):
        return choices[0]
    raise Fault("a reply without exactly one choice", of_prompt=True)


def parse_generated(reply: Mapping[str, JsonValue]) -> Generated:
    choice = choice_of(reply)
    ended = choice.get("finish_reason")
    if ended == "error":
        raise Fault("a reply that ended in an error", of_prompt=True)
    message = choice.get("message")
    found = _of_message(message) if isinstance(message, dict) else _of_text(choice)
    outcome: AnswerKind = "content_filter" if ended == "content_filter" else found.outcome
    return Generated(whole(found.text), whole(found.reasoning), outcome, ended == "length")


def _of_text(choice: Mapping[str, JsonValue]) -> Generated:
    text = choice.get("text")
    if isinstance(text, str):
        return _sort(*without_reasoning(text))
    if choice.get("finish_reason") == "content_filter":
        return FILTERED
    raise Fault("a reply without text", of_prompt=True)


def _of_message(message: Mapping[str, JsonValue]) -> Generated:
    parts = _parts(message.get("content"))
    refusal = message.get("refusal") or "".join(parts["refusal"])
    before = [str(message[name]) for name in REASONING if message.get(name)][:1]
    text, inside = without_reasoning("".join(parts["text"]))
    reasoning = "".join([*before, *parts["reasoning"], inside])
    text = text.lstrip() if reasoning else text  # models end their reasoning with empty lines
    if refusal:
        return Generated(f"{text}{refusal}", reasoning, "refusal")
    if not text and (message.get("tool_calls") or message.get("function_call")):
        return Generated("", reasoning, "tool_call")
    return _sort(text, reasoning)


def _sort(text: str, reasoning: str) -> Generated:
    if text:
        return Generated(text, reasoning)
    return Generated("", reasoning, "reasoning_only" if reasoning else "empty")


def _parts(content: JsonValue) -> dict[str, list[str]]:
    """The texts of a content by kind. Some endpoints write it as a list of parts."""
    found: dict[str, list[str]] = {"text": [], "refusal": [], "reasoning": []}
    for part in content if isinstance(content, list) else [content]:
        kind, text = _part(part)
        found[kind].append(text)
    return found


def _part(part: JsonValue) -> tuple[str, str]:
    if isinstance(part, str):
        return "text", part
    if not isinstance(part, dict):
        return "text", ""
    if part.get("type") in ("thinking", "reasoning"):
        held = part.get("thinking") or part.get("reasoning") or part.get("text")
        return "reasoning", "".join(_parts(held)["text"])
    refusal, text = part.get("refusal"), part.get("text")
    if isinstance(refusal, str):
        return "refusal", refusal
    return "text", text if isinstance(text, str) else ""


def without_reasoning(text: str) -> tuple[str, str]:
    """The answer in a text, and its reasoning, which ends at its closing mark, or with the text
    where an opening mark is never closed."""
    for opens, closes in MARKS:
        if opens.search(text) or closes.search(text):
            return _divide(text, opens, closes)
    return text, ""


def _divide(text: str, opens: re.Pattern[str], closes: re.Pattern[str]) -> tuple[str, str]:
    """(answer, reasoning): the answer follows the last closing mark, or precedes the first mark."""
    ends = [*closes.finditer(text)]
    if not ends:
        answer, reasoning = _partition(text, opens)
        return answer.rstrip(), reasoning
    head, (answer, more) = text[: ends[-1].start()], _partition(text[ends[-1].end() :], opens)
    if answer.strip():
        inside = opens.sub("", head, count=1).strip()
        return answer.lstrip(), f"{inside} {more}".strip()
    before, inside = _partition(head, opens) if opens.search(head) else ("", head.strip())
    return before.rstrip(), f"{inside} {more}".strip()


def _partition(text: str, mark: re.Pattern[str]) -> tuple[str, str]:
    found = mark.search(text)
    return (text[: found.start()], text[found.end() :].strip()) if found else (text, "")
