"""Where `openai/...` models are reached, what they may cost, and how a local model is loaded.

Options of every command that opens a model. Only the capabilities and the dialect change a record.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from leakbound.auditing.spec.audit_spec import load_endpoint
from leakbound.cli.screen.help_pages import Function, combine, names_of, option, together
from leakbound.errors import UsageError, unknown_name
from leakbound.models.address import Local

if TYPE_CHECKING:
    from leakbound.models import Capabilities, Dialect, Endpoint
    from leakbound.models.openai.account import PriceList

server = partial(option, section="Model behind an address")
OPTIONS = (
    server(
        "--base-url",
        "address of the server of an openai/<model>, such as http://127.0.0.1:8000/v1; "
        "several (repeat the option, or use commas) "
        "share the requests [default: api.openai.com]; Azure's may end in ?api-version=...",
        multiple=True,
        metavar="URL",
        envvar="LEAKBOUND_BASE_URL",
    ),
    server(
        "--key-env",
        "environment variable that holds the key [default: OPENAI_API_KEY for "
        "api.openai.com, LEAKBOUND_API_KEY for any other host]",
        metavar="NAME",
    ),
    server("--insecure", "allow plain http to other machines", bool),
    server(
        "--capabilities",
        "what the server supports in addition to chat, such as "
        "completions,prompt_logprobs,token_ids,seed,embeddings; or the .json file "
        "that leakbound probe --json wrote",
        default="",
        metavar="LIST|FILE",
    ),
    server(
        "--param",
        "parameter added to every request for text, such as max_completion_tokens=16",
        multiple=True,
        metavar="NAME=VALUE",
    ),
    server(
        "--omit",
        "parameter left out of every request, such as temperature",
        multiple=True,
        metavar="NAME",
    ),
    server(
        "--rename",
        "parameter under another name, such as max_tokens=max_completion_tokens",
        multiple=True,
        metavar="NAME=NEW",
    ),
    server("--connections", "maximum concurrent requests", int, 16),
    server("--timeout", "timeout of a request in seconds", float, 120.0),
    server("--retries", "retries of a request after a temporary failure", int, 5),
    server(
        "--max-cost", "stop before more is spent; the same command resumes", float, metavar="USD"
    ),
    server("--max-minutes", "stop after so many minutes; the same command resumes", float),
    server("--price-in", "price of a million prompt tokens", float, metavar="USD"),
    server("--price-out", "price of a million completion tokens", float, metavar="USD"),
    server(
        "--price",
        "JSON file with a date and prices of models [default: the bundled list]",
        metavar="FILE",
    ),
)
NAMES = names_of(*OPTIONS)


def endpoint_options(function: Function, tells: bool = True) -> Function:
    """The options as `endpoint`, over those of the configuration file. One line tells requests,
    tokens and cost at the end, unless answers are to tell nothing of the rows."""

    @functools.wraps(function)
    def with_endpoint(**flags: Any) -> object:
        given = {name: flags.pop(name) for name in NAMES}
        endpoint = _endpoint(**(given | _of_file(flags.get("config"))))
        try:
            return function(endpoint=endpoint, **flags)
        finally:
            if tells and endpoint.meter.requests:
                click.echo(endpoint.meter.line(), err=True)

    return together(*OPTIONS)(with_endpoint)


def _of_file(config: str | None) -> dict[str, object]:
    """What a configuration file says and the command line does not."""
    found = load_endpoint(Path(config)) if config else {}
    for name in found:
        if name not in NAMES:
            raise unknown_name("the key of endpoint", name, NAMES)
    source = click.get_current_context().get_parameter_source
    unsaid = {name for name in found if source(name) in (None, ParameterSource.DEFAULT)}
    return {name: _texts(name, found[name]) for name in unsaid}


def _texts(name: str, value: object) -> object:
    """A mapping as the command line writes it, and one text as a list of one."""
    if name in ("param", "rename"):
        if not isinstance(value, Mapping):
            raise UsageError(f"endpoint.{name} is {value!r}; it must be names with values.")
        plain = name == "rename"
        return tuple(f"{key}={one if plain else json.dumps(one)}" for key, one in value.items())
    if name in ("base_url", "omit"):
        found = value if isinstance(value, list) else [value]
        return tuple(str(one) for one in found)
    return value


def _endpoint(
    base_url: tuple[str, ...],
    capabilities: str,
    param: tuple[str, ...],
    omit: tuple[str, ...],
    rename: tuple[str, ...],
    price: str | None,
    **rest: Any,
) -> Endpoint:
    from leakbound.models import Dialect, Endpoint  # here and below: not for help

    urls = tuple(part.strip() for text in base_url for part in text.split(",") if part.strip())
    if base_url and not urls:
        raise UsageError(
            "--base-url is empty; name the address of your server, such as "
            "http://127.0.0.1:8000/v1, or leave it out for api.openai.com."
        )
    can, probed = _capabilities_at(capabilities)
    dialect = Dialect.parse(param, omit, rename).over(probed)
    listed = _price_list(price)
    return Endpoint(urls, capabilities=can, dialect=dialect, prices=listed, **rest)


def _price_list(name: str | None) -> PriceList:
    from leakbound.models.openai.account import PRICES, PriceList

    if name is None:
        return PRICES
    file = Path(name)
    try:
        return PriceList.read(file.read_text(encoding="utf-8"), str(file))
    except (OSError, UnicodeDecodeError):
        raise UsageError(
            f"the price list {str(file)!r} cannot be read; --price takes a JSON file."
        ) from None


def _capabilities_at(text: str) -> tuple[Capabilities, Dialect]:
    from leakbound.models import Capabilities, Dialect

    if not text.endswith(".json"):
        return Capabilities.parse(text), Dialect()
    from leakbound.models.probe import capabilities_of, load_probe

    record = load_probe(Path(text))
    return capabilities_of(record), record.dialect


UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def size(text: str) -> int:
    """Bytes of a size such as 4GB, 4G, 512MB or 1.5g (powers of 1,024)."""
    match = re.fullmatch(r"\s*(\d{1,15}(?:\.\d+)?)\s*([KMGT]?)I?B?\s*", text.upper())
    if not match:
        raise UsageError(f"--memory got {text!r}; it must be a size such as 4GB or 512MB.")
    return int(float(match[1]) * UNITS[match[2]])


local = partial(option, section="Local model")
local_options = combine(
    "local",
    Local,
    local(
        "--memory",
        "memory limit of the process for a local model (on a GPU: of the GPU), such as 4GB "
        "[default: half of what is free]",
        callback=lambda ctx, param, text: None if text is None else size(text),
        metavar="SIZE",
    ),
    local(
        "--dtype",
        "number format of a local model; auto: float32 on a CPU, bfloat16 on a GPU",
        click.Choice(["auto", "float32", "bfloat16", "float16"]),
        "auto",
    ),
    local("--device", "device of a local model", click.Choice(["auto", "cpu", "cuda"]), "auto"),
    local(
        "--chat-template",
        "whether prompts go through the chat template of a local model; auto: if it has one; off: "
        "plain text, which small instruct models often classify better",
        click.Choice(["auto", "on", "off"]),
        "auto",
    ),
)
