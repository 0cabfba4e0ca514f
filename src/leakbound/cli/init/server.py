"""A server that leakbound init is given by its address: an application, or a server of models."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click
import yaml
from pydantic import JsonValue

from leakbound.cli.init.sources import OPENAI, Sources
from leakbound.cli.screen.output import write_output
from leakbound.errors import UsageError, reason_of
from leakbound.models import Endpoint
from leakbound.models.openai.client import list_models, require_answer
from leakbound.models.openai.endpoint import key_from_environment
from leakbound.models.openai.replies import Unsupported
from leakbound.systems.http.search import FoundService, find_service
from leakbound.systems.replies import REPLY

MOST_NAMES = 20
OPTIONAL = (
    "It answers without that context, too, so it may not read it: check that it does. A service "
    "with documents of its own is described with plant and remove (docs/rag.md)."
)
UNREAD = (
    "Its answer was the same without that context: as long as nothing shows that it reads what it "
    "is sent, an audit must not pass, so its file says `reads_rows: false`. Give the JSON that it "
    "takes with --body"
)
EITHER = (
    "It answers rows as a list of texts and as one text: check that the body written is what it "
    "reads"
)


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How a server is reached and asked."""

    key_env: str | None = None
    insecure: bool = False
    body: str | None = None
    answer: str | None = None

    def require_used(self, named: Sources) -> None:
        """Refuse options that nothing reads."""
        asks = {"--body": self.body, "--answer": self.answer}
        reaches = {"--key-env": self.key_env, "--insecure": self.insecure or None}
        unread = {**asks} if named.is_model_server else {**asks, **reaches}
        given = next((flag for flag, value in unread.items() if value is not None), None)
        if given is None or (named.url is not None and not named.is_model_server):
            return
        what = "an application behind HTTP" if given in asks else "a server"
        raise UsageError(
            f"{given} says how {what} is asked, and none is named by its address (http://...); "
            f"leave {given} out."
        )


@dataclass(frozen=True, slots=True)
class Target:
    """What is audited at an address."""

    values: Mapping[str, Any] = field(default_factory=dict)
    endpoint: Endpoint = field(default_factory=Endpoint)
    settings: Mapping[str, Any] = field(default_factory=dict)
    file: str = ""
    lines: tuple[str, ...] = ()
    body: JsonValue = None


def system_file(out: Path) -> Path:
    """Where the description of an application stands."""
    return out.with_name(f"{out.stem}-system.yaml")


def targets_of(named: Sources, options: ServerOptions, out: Path) -> list[Target]:
    """Ask the server at an address how it is asked; several ways where rows have several forms."""
    options.require_used(named)
    if named.url is None:
        return [Target()]
    if named.is_model_server:
        return [_endpoint(named, options)]
    return _service(named.url, options, out)


def _endpoint(named: Sources, options: ServerOptions) -> Target:
    url = str(named.url)
    endpoint = Endpoint((url,), key_env=options.key_env, insecure=options.insecure)
    model = named.model or OPENAI + _serve(url, list_models(endpoint))
    settings = {"base_url": url, "key_env": options.key_env, "insecure": options.insecure}
    kept = {key: value for key, value in settings.items() if value not in (None, False)}
    return Target({"model": model}, endpoint, kept, lines=(_tried(model, url, endpoint),))


def _serve(url: str, names: Sequence[str]) -> str:
    """The only model, or the one that a person at a terminal chooses."""
    if len(names) == 1:
        return names[0]
    more = f", and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    listed = ", ".join(names[:MOST_NAMES]) + more
    if not sys.stdin.isatty():
        raise UsageError(
            f"{url} serves {len(names)} models ({listed}); name one beside the address, such as "
            f"{OPENAI}{names[0]}."
        )
    click.echo(f"{url} serves {len(names)} models: {listed}")
    return str(click.prompt("Model", type=click.Choice(names), show_choices=False))


def _tried(model: str, url: str, endpoint: Endpoint) -> str:
    try:
        require_answer(model.removeprefix(OPENAI), endpoint)
    except Unsupported as refused:
        return (
            f"Server: {url} refuses the parameter {refused.parameter!r} of a usual request; run "
            f"`leakbound probe {model} --base-url {url} --json > probe.json`, and add "
            "--capabilities probe.json to the audit"
        )
    return f"Server: {url} answered a request about a public text"


def _service(url: str, options: ServerOptions, out: Path) -> list[Target]:
    key = None  # none is sent to an application unless its variable is named
    if options.key_env is not None:
        key = key_from_environment(Endpoint((url,), key_env=options.key_env, insecure=True))
    found = find_service(url, key, _body(options.body), options.answer, options.insecure)
    forms = [found, *([replace(found, body=found.other)] if found.other is not None else [])]
    return [_service_as(url, one, options, out) for one in forms]


def _service_as(url: str, found: FoundService, options: ServerOptions, out: Path) -> Target:
    where = f"has its answer at {found.answer!r}" if found.answer else "its reply is the answer"
    lines = [
        f"Service: {url} takes {json.dumps(found.body)} and {where} "
        f"(found with {found.requests} requests about made-up rows)"
    ]
    lines += [OPTIONAL] if found.optional else []
    lines += [EITHER] if found.other is not None else []
    lines += [UNREAD] if found.unread else []
    values: dict[str, Any] = {"address": f"http:{system_file(out)}"}
    return Target(values, file=_describe(found, options), lines=tuple(lines), body=found.body)


def _body(text: str | None) -> Any:
    try:
        body = None if text is None else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"--body is not JSON ({reason_of(error)}); it must be like "
            """'{"notes": "{context}", "question": "{query}"}'."""
        ) from None
    if text is not None and body is None:
        raise UsageError("--body is null; it must be the JSON that the service takes.")
    return body


def _describe(found: FoundService, options: ServerOptions) -> str:
    slots = "private rows stand at {context}, {rows} or {text}, what the attacker asks at {query}"
    keys: list[tuple[str, object, str]] = [("url", found.url, "")]
    if options.key_env is not None:
        header = {"Authorization": f"Bearer ${{{options.key_env}}}"}
        keys.append(("headers", header, "the key, from the environment"))
    keys.append(("body", found.body, slots))
    keys.append(("answer", found.answer, "where the answer stands in a reply"))
    if found.beside:
        keys.append(("channels", {REPLY: ""}, "all of a reply: it has more than the answer"))
    if found.unread:
        keys.append(("reads_rows", False, "its answer was the same without the rows"))
    if options.insecure:
        keys.append(("insecure", True, "rows and key may go over plain http to another machine"))
    return "\n".join([
        "# Written by `leakbound init`: how an audit asks the application.",
        "# All keys, such as scores, tokens and timeout: docs/systems.md",
        *(_line(*one) for one in keys),
    ]) + "\n"  # fmt: skip


def _line(key: str, value: object, comment: str) -> str:
    text = yaml.safe_dump(
        {key: value}, default_flow_style=True, width=10_000, sort_keys=False
    ).strip()[1:-1]
    return f"{text}  # {comment}" if comment else text


@contextmanager
def written(file: Path, text: str) -> Iterator[None]:
    """Within, a file holds a text; afterwards it is as before if something failed."""
    before = file.read_bytes() if text and file.is_file() else None
    if text:
        write_output(file, text, "--save")
    try:
        yield
    except BaseException:
        if text and before is None:
            file.unlink(missing_ok=True)
        elif before is not None:
            write_output(file, before, "--save")
        raise
