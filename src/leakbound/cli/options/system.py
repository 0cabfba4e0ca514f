"""Options for how a system of the user is called. None of them changes a record."""

from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource

from leakbound.auditing.spec.audit_spec import load_endpoint
from leakbound.cli.screen.help_pages import option, together
from leakbound.models import Endpoint
from leakbound.systems import CallOptions

SHARED = ("connections", "timeout", "retries")  # options of endpoints that hold for systems, too


rate_option = together(
    option(
        "--disposable-store",
        "the store is a copy whose records may be lost; an audit adds records to no other",
        bool,
        section="Run",
    ),
    option(
        "--rate",
        "maximum calls of a --system per second; --connections, --timeout, --retries and "
        "--max-minutes, if given, apply to it too",
        float,
        metavar="CALLS",
        section="Run",
    ),
)


def call_options(
    endpoint: Endpoint, config: str | None, rate: float | None, disposable: bool
) -> CallOptions:
    """How a system is called, as far as the user says so."""
    source = click.get_current_context().get_parameter_source
    given = set(load_endpoint(Path(config)) if config else ())
    given |= {name for name in SHARED if source(name) not in (None, ParameterSource.DEFAULT)}
    return CallOptions(
        connections=endpoint.connections if "connections" in given else None,
        timeout=endpoint.timeout if "timeout" in given else None,
        retries=endpoint.retries,
        rate=rate,
        disposable=disposable,
        max_minutes=endpoint.max_minutes,
        began=endpoint.meter.began,
    )
