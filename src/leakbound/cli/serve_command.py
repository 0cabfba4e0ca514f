"""leakbound serve: the same answers over HTTP."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from leakbound._install import install_hint
from leakbound.cli.answer_command import answering_options, open_private
from leakbound.cli.options import SETTINGS
from leakbound.errors import UsageError
from leakbound.models import Endpoint, Local
from leakbound.serving import application, is_local

__all__ = ["command"]


@click.command(context_settings=SETTINGS)
@answering_options
@click.option("--host", default="127.0.0.1", show_default=True, help="address to listen on")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="port; 0 takes a free one",
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=65_536,
    show_default=True,
    help="most bytes of a request",
)
def command(
    config: str | None,
    assignments: tuple[str, ...],
    budget: float | None,
    ledger: Path,
    longest_query: int,
    host: str,
    port: int,
    limit: int,
    endpoint: Endpoint,
    local: Local,
    **flags: object,
) -> int:
    """Answer queries from the private rows over HTTP: an OpenAI-compatible /v1/chat/completions.

    Listens on this machine only. For any other --host, put a bearer token into the environment
    variable LEAKBOUND_TOKEN; if it is set, it is required on this machine too. Only the last user
    message is read. An exhausted budget is HTTP 403.
    """
    token = os.environ.get("LEAKBOUND_TOKEN") or None
    if token is None and not is_local(host):
        raise UsageError(
            f"--host {host} lets other machines in, and no token is set; put one into the "
            "environment variable "
            "LEAKBOUND_TOKEN (clients send it as bearer token), or listen on 127.0.0.1."
        )
    private = open_private(
        config, assignments, budget, ledger, longest_query, endpoint, local, flags
    )
    _listen(application(private, token, limit), host, port)
    return 0


def _listen(app: Any, host: str, port: int) -> None:
    try:
        import uvicorn
    except ImportError:
        raise UsageError(
            f"serving needs uvicorn; install it with: {install_hint('serve')}."
        ) from None
    try:
        uvicorn.run(app, host=host, port=port, server_header=False)
    except SystemExit:
        raise UsageError(
            f"the server cannot listen on {host}, port {port}; choose another --port or --host "
            "(--port 0 takes a free one)."
        ) from None
