"""Where `openai/...` models are reached, and what they may cost.

Options of every command that opens a model. Only the capabilities and the dialect change a record.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from leakbound.auditing.spec.config_file import load_endpoint
from leakbound.cli.screen.help_pages import Function, names_of, option, together
from leakbound.errors import UsageError, unknown_name
from leakbound.models import Capabilities, Dialect, Endpoint
from leakbound.models.openai.account import PRICES, PriceList

server = partial(option, section="Model behind an address")
OPTIONS = (
    server(
        "--base-url",
        "address of the server of an openai/<model>, such as http://127.0.0.1:8000/v1; "
        "several (repeat the option, or use commas) "
        "share the requests [default: api.openai.com]; Azure's may end in ?api-version=...",
        name="base_urls",
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
        name="params",
        multiple=True,
        metavar="NAME=VALUE",
    ),
    server(
        "--omit",
        "parameter left out of every request, such as temperature",
        name="omitted",
        multiple=True,
        metavar="NAME",
    ),
    server(
        "--rename",
        "parameter under another name, such as max_tokens=max_completion_tokens",
        name="renamed",
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
        name="prices",
        metavar="FILE",
    ),
)
NAMES = names_of(*OPTIONS)
# keys of `endpoint` in a configuration file that are not named as the parameters above
KEYS = {
    "base_url": "base_urls", "param": "params", "omit": "omitted", "rename": "renamed",
    "price": "prices",
}  # fmt: skip


def endpoint_options(function: Function) -> Function:
    """The options; the function gets an `endpoint` in their place.

    The `endpoint` section of the configuration file holds where the command line says nothing. At
    the end, one line reports requests, tokens and cost.
    """

    @functools.wraps(function)
    def with_endpoint(**flags: Any) -> object:
        given = {name: flags.pop(name) for name in NAMES}
        endpoint = _endpoint(**(given | _of_file(flags.get("config"))))
        try:
            return function(endpoint=endpoint, **flags)
        finally:
            if endpoint.meter.requests:
                click.echo(endpoint.meter.line(), err=True)

    return together(*OPTIONS)(with_endpoint)


def _of_file(config: str | None) -> dict[str, object]:
    """What a configuration file says and the command line does not."""
    found = load_endpoint(Path(config)) if config else {}
    values = {KEYS.get(name, name): value for name, value in found.items()}
    known = [name for name in NAMES if name not in KEYS.values()] + [*KEYS]
    for name in found:
        if name not in known:
            raise unknown_name("the key of endpoint", name, known)
    source = click.get_current_context().get_parameter_source
    unsaid = {name for name in values if source(name) in (None, ParameterSource.DEFAULT)}
    return {name: _texts(name, values[name]) for name in unsaid}


def _texts(name: str, value: object) -> object:
    """A mapping as the command line writes it, and one text as a list of one."""
    if name in ("params", "renamed"):
        if not isinstance(value, Mapping):
            raise UsageError(
                f"endpoint.{name.rstrip('s')} is {value!r}; it must be names with values."
            )
        plain = name == "renamed"
        return tuple(f"{key}={one if plain else json.dumps(one)}" for key, one in value.items())
    if name in ("base_urls", "omitted"):
        found = value if isinstance(value, list) else [value]
        return tuple(str(one) for one in found)
    return value


def _endpoint(
    base_urls: tuple[str, ...],
    capabilities: str,
    params: tuple[str, ...],
    omitted: tuple[str, ...],
    renamed: tuple[str, ...],
    prices: str | None,
    **rest: Any,
) -> Endpoint:
    urls = tuple(part.strip() for text in base_urls for part in text.split(",") if part.strip())
    if base_urls and not urls:
        raise UsageError(
            "--base-url is empty; name the address of your server, such as "
            "http://127.0.0.1:8000/v1, or leave it out for api.openai.com."
        )
    can, probed = _capabilities_at(capabilities)
    dialect = Dialect.parse(params, omitted, renamed).over(probed)
    listed = _price_list(prices)
    return Endpoint(urls, capabilities=can, dialect=dialect, prices=listed, **rest)


def _price_list(name: str | None) -> PriceList:
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
    """As stated, or as a probe found them."""
    if not text.endswith(".json"):
        return Capabilities.parse(text), Dialect()
    from leakbound.models.probe import capabilities_of, load_probe

    record = load_probe(Path(text))
    return capabilities_of(record), record.dialect
