"""Where `openai/...` models are reached and what they may cost:

options of every command that opens a model, and of no record.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from leakbound.models import Capabilities, Endpoint

__all__ = ["endpoint_options"]

OPTIONS = (
    click.option(
        "--base-url",
        "base_urls",
        multiple=True,
        metavar="URL",
        envvar="LEAKBOUND_BASE_URL",
        help="address of the server of an openai/<model>, such as http://127.0.0.1:8000/v1; "
        "several (the option again, or commas) "
        "share the requests [default: api.openai.com]; a key is read from LEAKBOUND_API_KEY or "
        "OPENAI_API_KEY only",
    ),
    click.option(
        "--capabilities",
        default="",
        metavar="LIST|FILE",
        help="what that server can do beside chat, such as "
        "completions,prompt_logprobs,token_ids,seed,embeddings; or the .json file "
        "that leakbound probe --json wrote",
    ),
    click.option(
        "--connections", type=int, default=16, show_default=True, help="most requests to it at once"
    ),
    click.option(
        "--timeout", type=float, default=120.0, show_default=True, help="seconds for one request"
    ),
    click.option(
        "--retries",
        type=int,
        default=5,
        show_default=True,
        help="of a request that failed and may yet succeed",
    ),
    click.option(
        "--max-cost",
        type=float,
        default=None,
        metavar="USD",
        help="stop, resumably, before more is spent",
    ),
    click.option(
        "--max-minutes", type=float, default=None, help="stop, resumably, after so many minutes"
    ),
    click.option(
        "--price-in", type=float, default=None, metavar="USD", help="of a million prompt tokens"
    ),
    click.option(
        "--price-out",
        type=float,
        default=None,
        metavar="USD",
        help="of a million completion tokens",
    ),
)
NAMES = (
    "base_urls",
    "capabilities",
    "connections",
    "timeout",
    "retries",
    "max_cost",
    "max_minutes",
    "price_in",
    "price_out",
)


def endpoint_options(function: Callable[..., object]) -> Callable[..., object]:
    """The options; the function gets an `endpoint` in their place.

    One line tells at the end what was asked and spent.
    """

    @functools.wraps(function)
    def with_endpoint(**flags: Any) -> object:
        endpoint = _endpoint(**{name: flags.pop(name) for name in NAMES})
        try:
            return function(endpoint=endpoint, **flags)
        finally:
            if endpoint.meter.requests:
                click.echo(endpoint.meter.line(), err=True)

    for option in reversed(OPTIONS):
        with_endpoint = option(with_endpoint)
    return with_endpoint


def _endpoint(base_urls: tuple[str, ...], capabilities: str, **rest: Any) -> Endpoint:
    urls = tuple(part.strip() for text in base_urls for part in text.split(",") if part.strip())
    return Endpoint(urls, capabilities=_capabilities(capabilities), **rest)


def _capabilities(text: str) -> Capabilities:
    """As stated, or as a probe found them."""
    if not text.endswith(".json"):
        return Capabilities.parse(text)
    from leakbound.models.probe import capabilities_of, load_probe

    return capabilities_of(load_probe(Path(text)))
