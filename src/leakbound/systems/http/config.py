"""The YAML file of a system behind HTTP: its calls, and what is refused of them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, ValidationError

from leakbound.errors import UsageError, reason_of
from leakbound.models.http.hosts import is_exposed, is_host
from leakbound.systems.channels import CHANNELS_MUST, channel_texts

SLOT = re.compile(r"\{(context|rows|text|number|query|input|label|id)\}")
VARIABLE = re.compile(r"\$\{(\w+)\}")
SECRET = re.compile(r"authorization|cookie|key|token|secret", re.IGNORECASE)
ROWS = frozenset({"context", "rows", "text"})  # slots that hold a whole context
AROUND = ("setup", "teardown", "plant", "remove")  # requests beside the one that asks
REPLY_PARTS = ("seconds", "tokens", "finish_reason", "tool_calls")
PORTS = {"http": 80, "https": 443}
NEEDED = {"url": "url: http://127.0.0.1:8000/ask", "answer": "answer: choices.0.message.content"}


class HttpCall(BaseModel):
    """One HTTP request.

    Attributes:
        url: Absolute address.
        method: HTTP method.
        headers: Header fields; `${NAME}` stands for an environment variable.
        body: JSON to send. In its texts, "{rows}" becomes a list of {input, label}, "{context}" the
            rows as text, ["{text}"] a list of their texts (in an object of such a list "{label}"
            and "{number}", from 1, are those of the row), "{query}" the query; in requests about
            one record of a store, "{input}" and "{label}" are its texts, and "{id}" its id, in the
            url, too. None sends no content.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"] = "POST"
    headers: dict[str, str] = Field({}, repr=False)
    body: JsonValue = None

    @property
    def origin(self) -> tuple[str, str | None, int | None]:
        url = urlsplit(self.url)
        return url.scheme, url.hostname, url.port or PORTS.get(url.scheme)

    @property
    def slots(self) -> set[str]:
        """Names of the slots in the body, whose keys stay as they are, and the id in the url."""
        return slots_of(self.body) | ({"id"} if "{id}" in self.url else set())

    @property
    def shown(self) -> str:
        """The address for messages, without its query, which may hold a key."""
        return urlsplit(self.url)._replace(query="", fragment="").geturl()


CALL = tuple(HttpCall.model_fields)


class PlantCall(HttpCall):
    id: str | None = None


SEVERAL = BeforeValidator(lambda one: [one] if isinstance(one, dict) else one)
Credentials = Annotated[list[dict[str, str]], Field(min_length=1), SEVERAL]


class HttpSystemConfig(HttpCall):
    """The request that asks, and those around it.

    Attributes:
        answer: Path of the answer in the reply, such as choices.0.message.content; "": all.
        scores: Path of the scores in the reply; None if it has none.
        seconds: Path of the seconds that the service says it took; None to measure them.
        tokens: Path of the number of generated tokens, such as usage.completion_tokens.
        finish_reason: Path of the reason why the answer ended.
        tool_calls: Path of the list of tool calls.
        channels: Path of each channel, by its name, such as {memory: trace.memory}.
        timeout: Seconds for one request.
        setup: Sent when a session opens, to put the context in place.
        teardown: Sent when it closes, to take the context away, whatever happened.
        plant: Adds a record to a store; the documents, too, unless `setup` holds them.
        remove: Removes a record by its id.
        reads_rows: False where nothing has shown that an answer depends on the rows that are sent;
            then an audit never passes for seeing nothing of them.
        tenants: Headers with the credential of each of two tenants, by its name, or a list of such
            headers: its sessions take turns.
        reply_headers: Headers of the reply that are read beside its answer, such as x-cache.
        insecure: Whether rows and keys may go over plain http to another machine.
    """

    answer: str
    scores: str | None = None
    seconds: str | None = None
    tokens: str | None = None
    finish_reason: str | None = None
    tool_calls: str | None = None
    channels: dict[str, str] = {}
    timeout: float = Field(60.0, gt=0)
    setup: HttpCall | None = None
    teardown: HttpCall | None = None
    plant: PlantCall | None = None
    remove: HttpCall | None = None
    reads_rows: bool = True
    tenants: dict[str, Credentials] = Field({}, repr=False)
    reply_headers: tuple[str, ...] = ()
    insecure: bool = False

    @property
    def sets_up_rows(self) -> bool:
        """Whether `setup` puts the whole context in place."""
        return self.setup is not None and bool(self.setup.slots & ROWS)

    @property
    def paths(self) -> dict[str, str | None]:
        """Paths of what a reply may have beside its answer and its scores."""
        return {name: getattr(self, name) for name in REPLY_PARTS}

    def of_tenant(self, number: int, session: int = 0) -> HttpSystemConfig:
        several = [*self.tenants.values()][number]
        own = several[session % len(several)]
        return _with_headers(self, lambda call: {**call.headers, **own})

    @property
    def calls(self) -> list[HttpCall]:
        around = (self.setup, self, self.teardown, self.plant, self.remove)
        return [one for one in around if one is not None]


def slots_of(body: JsonValue) -> set[str]:
    return {name for text in _texts(body) for name in SLOT.findall(text)}


def is_one_a_row(template: JsonValue) -> bool:
    """Whether a template is a list that gets one item for each row, such as ["{text}"]."""
    return isinstance(template, list) and len(template) == 1 and "text" in slots_of(template[0])


def describe_rows(body: JsonValue, rows: int) -> str:
    """How rows are sent in a body, in words."""
    slots = slots_of(body)
    each = "texts" if "text" in slots else "objects" if "rows" in slots else ""
    each += " with their labels" if {"text", "label"} <= slots else ""
    return f"{rows} rows as {f'{rows} {each}' if each else 'one text'}"


def _is_loose(template: JsonValue) -> bool:
    """Whether {text} stands where it cannot be repeated."""
    if isinstance(template, dict):
        return any(map(_is_loose, template.values()))
    if isinstance(template, list):
        return not is_one_a_row(template) and any(map(_is_loose, template))
    return isinstance(template, str) and "{text}" in template


def _texts(template: JsonValue) -> Iterator[str]:
    if isinstance(template, str):
        yield template
    elif isinstance(template, dict | list):
        for value in template.values() if isinstance(template, dict) else template:
            yield from _texts(value)


def load_http_config(file: Path) -> HttpSystemConfig:
    """What a YAML file describes, checked, with headers filled from the environment."""
    try:
        values = yaml.safe_load(file.read_text(encoding="utf-8"))
        found = HttpSystemConfig(**values)
    except yaml.YAMLError as error:
        place = ""  # YAML shows no value of the file in it
        if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
            place = f": line {error.problem_mark.line + 1}: {error.problem}"
        raise UsageError(f"the system file {str(file)!r} is not YAML{place}.") from None
    except ValidationError as error:
        raise UsageError(f"the system file {str(file)!r} {_wrong(error)}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"the system file {str(file)!r} cannot be read ({reason_of(error)})."
        ) from None
    except TypeError:
        raise UsageError(
            f"the system file {str(file)!r} must hold keys and values, such as 'url: http://...'."
        ) from None
    _check(found, str(file))
    filled = _with_secrets(found, str(file))
    _require_safe(found, str(file))
    return filled


def _require_safe(config: HttpSystemConfig, file: str) -> None:
    # its requests hold private rows, and its headers a key; all of them go to one host
    if not config.insecure and is_exposed(config.url):
        raise UsageError(
            f"the url of {file!r} uses plain http to another machine, so anyone on the network "
            "path can read rows and keys; use https, a tunnel to this machine, or add "
            "'insecure: true' to the file if you trust the network."
        )


def _wrong(error: ValidationError) -> str:
    first = error.errors()[0]
    key = ".".join(map(str, first["loc"]))
    if first["type"] == "missing":
        line = NEEDED[str(first["loc"][-1])]
        return f"has no {key!r}, which every request needs; add a line such as '{line}'."
    if first["type"] == "extra_forbidden":
        own = {key: HttpSystemConfig.model_fields, f"plant.{first['loc'][-1]}": (*CALL, "id")}
        names = ", ".join(own.get(key, CALL) if "." in key else own[key])
        return f"has the key {key!r}, which means nothing; it must be one of {names}."
    return f"is wrong at {key!r}: {first['msg']}."


def _check(config: HttpSystemConfig, file: str) -> None:
    for call in config.calls:
        _check_call(call, file)
        if call.origin != config.origin:
            raise UsageError(
                f"every request of {file!r} must go to the same host and port as its url."
            )
    if channel_texts(config.channels) is None:
        raise UsageError(f"channels of {file!r} cannot be used; they must be {CHANNELS_MUST}.")
    if config.tenants:
        _check_tenants(config, file)
    if config.plant or config.remove:
        return _check_store(config, file)
    shown = config.slots | (config.setup.slots if config.setup else set())
    if "query" not in config.slots or not shown & ROWS:
        raise UsageError(
            f'{file!r} must have "{{query}}" in its body, and "{{context}}", "{{rows}}" or '
            '["{text}"] in its body or in that of its setup.'
        )


def _check_tenants(config: HttpSystemConfig, file: str) -> None:
    if len(config.tenants) != 2 or config.plant is None:
        raise UsageError(
            f"tenants of {file!r} must name two tenants, each with the headers of its credential, "
            "beside plant and remove, which add a record and take it out."
        )
    for headers in chain.from_iterable(config.tenants.values()):
        _check_secrets(headers, file)


def _check_store(config: HttpSystemConfig, file: str) -> None:
    plant, remove = config.plant, config.remove
    if plant is None or remove is None:
        lacking = "remove" if plant else "plant"
        raise UsageError(
            f"{file!r} has no {lacking}: a store needs both, plant to add a record and remove to "
            "take it out by its id."
        )
    if "query" not in config.slots or config.slots & ROWS:
        raise UsageError(
            f'{file!r} must have "{{query}}" in its body, and no "{{context}}" or "{{rows}}" '
            "beside it: the records of a store are planted."
        )
    if "input" not in plant.slots or ("id" in plant.slots) == (plant.id is not None):
        raise UsageError(
            f'plant of {file!r} must have "{{input}}" in its body, and either "{{id}}" in its url '
            "or body, or a path `id` to the id in its reply, such as id: document.id."
        )
    if "id" not in remove.slots:
        raise UsageError(f'remove of {file!r} must have "{{id}}" in its url or body.')


def _check_call(call: HttpCall, file: str) -> None:
    if not is_plain(call.url):
        raise UsageError(
            f"a url of {file!r} cannot be used; it must be http://host:port/path, without a name "
            "or password."
        )
    if _is_loose(call.body):
        raise UsageError(
            f'{file!r} has "{{text}}" outside of a list of one item; write ["{{text}}"], which '
            "becomes one item for each row."
        )
    if VARIABLE.search(call.url + json.dumps(call.body)):
        raise UsageError(
            f"{file!r} has ${{...}} outside of headers; only headers are filled from the "
            "environment."
        )
    _check_secrets(call.headers, file)


def _check_secrets(headers: Mapping[str, str], file: str) -> None:
    for name, value in headers.items():
        if SECRET.search(name) and not VARIABLE.search(value):
            raise UsageError(
                f"the header {name} of {file!r} holds its secret; write ${{NAME}} and set NAME in "
                "the environment."
            )


def is_plain(text: str) -> bool:
    """Whether a text is a web address that everybody reads alike, without a user."""
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        return False
    odd = "\\" in text or not text.isprintable() or any(map(str.isspace, text))
    good = url.scheme in PORTS and is_host(url.hostname or "") and port != 0
    return bool(good) and not odd and "@" not in url.netloc


def _with_secrets(config: HttpSystemConfig, file: str) -> HttpSystemConfig:
    filled = _with_headers(config, lambda call: _fill(call.headers, file))
    tenants = {name: [_fill(one, file) for one in own] for name, own in config.tenants.items()}
    every = [frozenset(one.items()) for one in chain.from_iterable(tenants.values())]
    if len({*every}) < len(every):
        raise UsageError(
            f"two of the tenants or clients of {file!r} have the same credential; give each one "
            "its own."
        )
    return filled.model_copy(update={"tenants": tenants})


def _with_headers(
    config: HttpSystemConfig, headers: Callable[[HttpCall], dict[str, str]]
) -> HttpSystemConfig:
    around = {name: getattr(config, name) for name in AROUND}
    changed = {
        name: call.model_copy(update={"headers": headers(call)})
        for name, call in around.items()
        if call is not None
    }
    return config.model_copy(update={"headers": headers(config), **changed})


def _fill(headers: Mapping[str, str], file: str) -> dict[str, str]:
    for name in VARIABLE.findall("".join(headers.values())):
        if name not in os.environ:
            raise UsageError(f"{file!r} reads the environment variable {name}, which is not set.")
        if not os.environ[name].isprintable():
            raise UsageError(
                f"{file!r} reads the environment variable {name}, which has characters that no "
                "header has; set it again."
            )
    return {
        key: VARIABLE.sub(lambda at: os.environ[at[1]], value) for key, value in headers.items()
    }
