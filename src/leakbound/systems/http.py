"""A system behind HTTP:

a YAML file says how a context and a query become requests, and where the answer stands in the
reply.
"""

from __future__ import annotations

import json
import os
import re
import ssl
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import httpx
import yaml
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from leakbound.errors import TargetError, UsageError
from leakbound.models.content import join, text_only
from leakbound.tasks import Context, Task

__all__ = ["HttpService", "load_service"]

SLOT = re.compile(r"\{(context|rows|query)\}")
VARIABLE = re.compile(r"\$\{(\w+)\}")
SECRET = re.compile(r"authorization|cookie|key|token|secret", re.IGNORECASE)


class HttpCall(BaseModel):
    """One request. In the body, "{rows}" becomes a list of {input, label}, "{context}" the rows as
    text, "{query}" the query.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"] = "POST"
    headers: dict[str, str] = Field({}, repr=False)
    body: JsonValue = None

    @property
    def origin(self) -> tuple[str, str, int | None]:
        """Where it goes."""
        url = httpx.URL(self.url)
        return url.scheme, url.host, url.port

    @property
    def slots(self) -> set[str]:
        """What of a trial stands in the body; its keys stay as they are."""
        return {name for text in _texts(self.body) for name in SLOT.findall(text)}


class HttpServiceConfig(HttpCall):
    """The request that asks; `answer` and `scores` are paths into the reply, such as
    choices.0.message.content.

    setup: sent before each question, to put the context in place. teardown: sent after it, to take
    the context away, whatever happened.
    """

    answer: str
    scores: str | None = None
    timeout: float = Field(60.0, gt=0)
    setup: HttpCall | None = None
    teardown: HttpCall | None = None

    @property
    def requests(self) -> list[HttpCall]:
        """All that are there."""
        return [one for one in (self.setup, self, self.teardown) if one is not None]


class HttpService:
    """Answers through a service.

    Only its own host and port is contacted: no redirect is followed, no proxy used, nothing
    retried.
    """

    def __init__(self, service: HttpServiceConfig) -> None:
        self._service = service
        self.stateful = service.setup is not None or service.teardown is not None

    def __repr__(self) -> str:
        return f"HttpService({_shown(self._service)})"

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context()

    async def __call__(self, context: Context, query: str) -> Any:
        """Put the context in place, ask, take it away; the answer, with scores if the file says
        where they stand.
        """
        service = self._service
        values = {
            "rows": [{"input": text_only(row.input, "a system behind HTTP"), "label": row.label} for row in context],
            "context": join(map(Task("http").block, context)), "query": query,
        }  # fmt: skip
        async with httpx.AsyncClient(
            timeout=service.timeout, trust_env=False, verify=self._tls
        ) as client:
            try:
                if service.setup is not None:
                    await _send(client, service.setup, values)
                reply = await _json(await _send(client, service, values), service)
            finally:
                if service.teardown is not None:
                    await _send(client, service.teardown, values)
        text = _at(reply, service.answer, service)
        return (
            text
            if service.scores is None
            else {"text": text, "scores": _at(reply, service.scores, service)}
        )


async def _send(
    client: httpx.AsyncClient, request: HttpCall, values: Mapping[str, Any]
) -> httpx.Response:
    """One request. An error tells status or type: bodies may hold private text."""
    body = {} if request.body is None else {"json": _filled(request.body, values)}
    try:
        reply = await client.request(request.method, request.url, headers=request.headers, **body)
    except httpx.HTTPError as error:
        raise TargetError(
            f"the system at {_shown(request)} could not be asked ({type(error).__name__})."
        ) from None
    if not reply.is_success:
        raise TargetError(
            f"the system at {_shown(request)} answered with status {reply.status_code}; it must "
            "be 2xx."
        )
    return reply


async def _json(reply: httpx.Response, request: HttpCall) -> Any:
    try:
        return reply.json()
    except ValueError:
        raise TargetError(f"the system at {_shown(request)} did not answer with JSON.") from None


def _filled(template: Any, values: Mapping[str, Any]) -> Any:
    """The template with its slots filled as JSON values:

    what is filled in is never read for slots or quotes.
    """
    if isinstance(template, dict):
        return {key: _filled(value, values) for key, value in template.items()}
    if isinstance(template, list):
        return [_filled(value, values) for value in template]
    if not isinstance(template, str):
        return template
    if whole := SLOT.fullmatch(template):
        return values[whole[1]]
    return SLOT.sub(lambda slot: _text(values[slot[1]]), template)


def _texts(template: Any) -> Iterator[str]:
    """The texts of a template that are filled."""
    if isinstance(template, str):
        yield template
    elif isinstance(template, dict | list):
        for value in template.values() if isinstance(template, dict) else template:
            yield from _texts(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _at(reply: Any, path: str, request: HttpCall) -> Any:
    """What stands at a dotted path; whole numbers index lists."""
    for step in path.split("."):
        try:
            reply = reply[int(step)] if isinstance(reply, list) else reply[step]
        except (KeyError, IndexError, ValueError, TypeError):
            raise TargetError(
                f"the reply of {_shown(request)} has nothing at {path!r}; check `answer` and "
                "`scores`."
            ) from None
    return reply


def _shown(request: HttpCall) -> str:
    """The address without its query, which may hold a key."""
    return str(httpx.URL(request.url).copy_with(query=None, fragment=None))


def load_service(file: Path) -> HttpService:
    """The service that a YAML file describes, checked.

    Raises UsageError with a sentence that shows no header.
    """
    try:
        values = yaml.safe_load(file.read_text(encoding="utf-8"))
        found = HttpServiceConfig(**values)
    except (yaml.YAMLError, UnicodeDecodeError):
        raise UsageError(f"the system file {str(file)!r} is not YAML.") from None
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(
            f"the system file {str(file)!r} is wrong at {'.'.join(map(str, first['loc']))!r}: "
            f"{first['msg']}."
        ) from None
    except TypeError:
        raise UsageError(
            f"the system file {str(file)!r} must hold keys and values, such as 'url: http://...'."
        ) from None
    _check(found, str(file))
    return HttpService(_with_secrets(found, str(file)))


def _check(service: HttpServiceConfig, file: str) -> None:
    for request in service.requests:
        _check_request(request, file)
        if request.origin != service.origin:
            raise UsageError(
                f"setup and teardown of {file!r} must go to the same host and port as its url."
            )
    shown = service.slots | (service.setup.slots if service.setup else set())
    if "query" not in service.slots or not shown & {"context", "rows"}:
        raise UsageError(
            f'{file!r} must have "{{query}}" in its body, and "{{context}}" or "{{rows}}" in its body or in that of its setup.'
        )


def _check_request(request: HttpCall, file: str) -> None:
    try:
        url = httpx.URL(request.url)
    except httpx.InvalidURL:
        url = httpx.URL("")
    if url.scheme not in ("http", "https") or not url.host or url.userinfo:
        raise UsageError(
            f"a url of {file!r} cannot be used; it must be http://host:port/path, without a name "
            "or password."
        )
    if VARIABLE.search(request.url + json.dumps(request.body)):
        raise UsageError(
            f"{file!r} has ${{...}} outside of headers; only headers are filled from the "
            "environment."
        )
    for name, value in request.headers.items():
        if SECRET.search(name) and not VARIABLE.search(value):
            raise UsageError(
                f"the header {name} of {file!r} holds its secret; write ${{NAME}} and set NAME in "
                "the environment."
            )


def _with_secrets(service: HttpServiceConfig, file: str) -> HttpServiceConfig:
    """The service with headers filled from the environment."""
    parts = {
        name: part.model_copy(update={"headers": _headers(part, file)})
        for name in ("setup", "teardown")
        if (part := getattr(service, name)) is not None
    }
    return service.model_copy(update={"headers": _headers(service, file), **parts})


def _headers(request: HttpCall, file: str) -> dict[str, str]:
    for name in VARIABLE.findall("".join(request.headers.values())):
        if name not in os.environ:
            raise UsageError(f"{file!r} reads the environment variable {name}, which is not set.")
    return {
        key: VARIABLE.sub(lambda at: os.environ[at[1]], value)
        for key, value in request.headers.items()
    }
