"""Find out how a service behind HTTP is asked, with few requests about made-up rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from leakbound.errors import TargetError, UsageError
from leakbound.models.blocking import run_blocking
from leakbound.models.openai.hosts import is_loopback
from leakbound.models.transport import HttpReply, Transport, TransportError, default_transport
from leakbound.systems.http import row_values
from leakbound.systems.http_config import ROWS, is_plain, slots_of
from leakbound.systems.http_requests import JSON_TYPE, filled
from leakbound.systems.http_shapes import (
    BODIES,
    answer_path,
    bodies_for,
    bodies_of_schema,
    is_error,
    missing_fields,
    text_paths,
    without_context,
)
from leakbound.tasks import Example

if TYPE_CHECKING:
    from pydantic import JsonValue

MADE_UP = (
    Example("The printer on the second floor has no paper.", "office"),
    Example("The train to the coast leaves at nine.", "travel"),
    Example("The invoice of May was paid twice.", "billing"),
)
QUESTION = "Which of these notes is about a printer?"
VALUES = {**row_values(MADE_UP), "query": QUESTION}
MOST = 14  # requests for the form of a body
PATIENCE = 60.0  # seconds for one request
BUSY = frozenset({408, 425, 429, 502, 503, 504})
HINT = (
    "If it is a server of models, give its base URL, which ends in /v1, or name openai/MODEL "
    "beside it."
)
BY_HAND = "or describe the service in a file (http:FILE.yaml, docs/systems.md)"


@dataclass(frozen=True, slots=True)
class FoundService:
    """How a service is asked."""

    url: str
    body: JsonValue
    answer: str
    requests: int
    optional: bool = False


def find_service(
    url: str,
    key: str | None = None,
    body: JsonValue = None,
    answer: str | None = None,
    insecure: bool = False,
    transport: Transport | None = None,
) -> FoundService:
    """Send requests about made-up rows until a service answers one of them."""
    _require_address(url, insecure)
    if body is not None and ("query" not in slots_of(body) or not slots_of(body) & ROWS):
        raise UsageError(
            'the body must have "{query}" in it, and "{context}", "{rows}" or ["{text}"], such as '
            '{"notes": "{context}", "question": "{query}"}.'
        )
    sender = transport or default_transport(1, cookies=True)
    return run_blocking(_Search(url, sender, key, answer).found(body))


def _require_address(url: str, insecure: bool) -> None:
    """Later requests hold rows and the key, and the address is written to a file."""
    parts = urlsplit(url) if is_plain(url) else None
    if parts is None or parts.query or parts.fragment:
        raise UsageError(
            "the address of the service must be like http://127.0.0.1:8000/answer, without a "
            "name, a password or a query, which may hold a key (it is not shown); put a key into "
            f"an environment variable and name that with --key-env, {BY_HAND}."
        )
    if parts.scheme == "http" and not insecure and not is_loopback(url):
        raise UsageError(
            f"{url} uses plain http to another machine, so anyone on the network path can read "
            "rows and key; use https, a tunnel to this machine, or --insecure if you trust the "
            "network."
        )


@dataclass(slots=True)
class _Search:
    url: str
    transport: Transport
    key: str | None
    answer: str | None
    requests: int = 0
    statuses: list[int] = field(default_factory=list)
    lacks: list[str] = field(default_factory=list)  # fields that it says it needs
    paths: list[str] = field(default_factory=list)  # of the texts of its last reply

    async def found(self, body: JsonValue) -> FoundService:
        try:
            bodies = (*await self._described(), *BODIES) if body is None else (body,)
            one, path = await self._accepted(bodies)
            optional = await self._answers_without_context(one)
        finally:
            await self.transport.close()
        return FoundService(self.url, one, path, self.requests, optional)

    async def _described(self) -> list[JsonValue]:
        """What the service takes by its OpenAPI description, if it has one."""
        try:
            place = urljoin(self.url, "/openapi.json")
            reply = await self.transport.send("GET", place, self._headers, None, PATIENCE)
        except TransportError:
            return []
        return bodies_of_schema(_json(reply), urlsplit(self.url).path)

    @property
    def _headers(self) -> dict[str, str]:
        return {} if self.key is None else {"Authorization": f"Bearer {self.key}"}

    async def _accepted(self, bodies: Sequence[JsonValue]) -> tuple[JsonValue, str]:
        """The first body that is answered, and where the answer is."""
        left, tried = list(bodies), list[object]()
        while left and len(tried) < MOST:
            body = left.pop(0)
            tried.append(body)
            reply = await self._sent(body)
            if (path := self._read(reply)) is not None:
                return body, path
            if len(bodies) > 1:
                found = _json(reply)
                self.lacks = missing_fields(found) or self.lacks
                more = [*bodies_for(found, body), *left]
                left = [one for one in more if one not in tried]
        raise TargetError(self._refusal(len(bodies) == 1))

    async def _answers_without_context(self, body: JsonValue) -> bool:
        bare = without_context(body)
        try:
            return bare is not None and self._read(await self._sent(bare)) is not None
        except TargetError:
            return False

    def _read(self, reply: HttpReply) -> str | None:
        """Where the answer is; None for a request that was refused."""
        if not 200 <= reply.status < 300:
            return None
        found = _json(reply)
        if found is None:
            raise TargetError(_no_json(self.url, reply))
        if is_error(found):
            return None
        self.paths = list(text_paths(found))
        if self.answer is not None:
            return self.answer if self.answer in self.paths else None
        return answer_path(self.paths)

    async def _sent(self, body: JsonValue) -> HttpReply:
        self.requests += 1
        content = json.dumps(filled(body, VALUES)).encode()
        try:
            reply = await self.transport.send(
                "POST", self.url, JSON_TYPE | self._headers, content, PATIENCE
            )
        except TransportError as error:
            raise TargetError(
                f"{self.url} could not be asked ({error.kind}); start the service, or give the "
                "right address."
            ) from None
        self.statuses.append(reply.status)
        self._require_open(reply.status)
        return reply

    def _require_open(self, status: int) -> None:
        """Refuse what no other body would change."""
        told = f"{self.url} answers with HTTP {status}"
        if status in (401, 403):
            must = "the key is not the right one" if self.key else "it wants a key"
            raise TargetError(
                f"{told}: {must}; put the key into an environment variable and name that with "
                f"--key-env (it is sent as a bearer token), {BY_HAND}."
            )
        if 300 <= status < 400:
            raise TargetError(
                f"{told}, a redirect, and no other address than the given one is contacted; give "
                "the one that it leads to."
            )
        if status in (404, 405, 410):
            what = "no POST at this address" if status == 405 else "nothing at this address"
            raise TargetError(f"{told}: it has {what}; check the path. {HINT}")
        if status in BUSY:
            raise TargetError(f"{told}: it is too busy, or not up yet; try again later.")

    def _refusal(self, given: bool) -> str:
        if self.paths:
            listed = ", ".join(self.paths[:8])
            what = (
                "and no name says which is the answer"
                if self.answer is None
                else f"and none at {self.answer!r}"
            )
            return (
                f"the reply of {self.url} has texts at {listed}, {what}; name the path of the "
                f"answer with --answer, such as --answer {self.paths[0]}."
            )
        statuses = ", ".join(f"HTTP {one}" for one in dict.fromkeys(self.statuses))
        if given:
            return (
                f"{self.url} does not answer the given body with JSON that holds a text "
                f"({statuses}); check --body, {BY_HAND}."
            )
        lacks = f" It says that it needs the fields {', '.join(self.lacks)}." if self.lacks else ""
        return (
            f"{self.url} answered none of {len(self.statuses)} usual requests with JSON that holds "
            f"a text ({statuses}).{lacks} Give the JSON that it takes with --body, such as "
            f"""--body '{{"notes": "{{context}}", "question": "{{query}}"}}', {BY_HAND}."""
        )


def _json(reply: HttpReply) -> JsonValue:
    """What a reply holds; None if it is no JSON."""
    try:
        found: JsonValue = json.loads(reply.body)
    except (ValueError, RecursionError):
        return None
    return found


def _no_json(url: str, reply: HttpReply) -> str:
    kind = (reply.header("content-type") or "").partition(";")[0].strip().lower()
    page = kind == "text/html" or reply.body.lstrip()[:1] == b"<"
    what = "a web page" if page else "something that is not JSON"
    return f"{url} answers with {what}; a service must answer with JSON. Check the path. {HINT}"
