"""leakbound probe: what a model at an address really supports."""

from __future__ import annotations

import json

import click

from leakbound.cli.options.endpoint import endpoint_options
from leakbound.cli.options.takers import require_taken
from leakbound.cli.screen.help_pages import cli_command
from leakbound.cli.screen.output import emit
from leakbound.models import Endpoint, open_model
from leakbound.models.openai.endpoint import key_from_environment
from leakbound.models.probe import probe_endpoint, probe_model
from leakbound.report.probe_terminal import probe_table


@cli_command("openai/my-model --base-url http://127.0.0.1:8000/v1 --json > capabilities.json")
@click.argument("address")
@endpoint_options
def command(address: str, endpoint: Endpoint) -> int:
    """Send the model at ADDRESS at most 30 requests about public texts, and report what it really
    supports.

    Checks log-probabilities and their positions, seeds, temperature, repeated requests and limits;
    then reports which mechanisms, scores and influence readings it can serve. --json prints the
    record, which --capabilities of other commands reads; here --capabilities is ignored. Ends with
    0, or with 4 if nothing answers.
    """
    require_taken([address])
    kind, _, model = address.partition("/")
    if kind == "openai" and model:
        record = probe_endpoint(model, endpoint, key_from_environment(endpoint))
    else:
        record = probe_model(open_model(address), address)
    click.echo(probe_table(record))
    emit(json.loads(record.model_dump_json()))
    return 0
