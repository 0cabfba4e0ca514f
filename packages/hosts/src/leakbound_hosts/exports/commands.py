"""`leakbound export` for registries: in-toto, CycloneDX, OpenDP."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from pathlib import Path

import click
import yaml

from leakbound.cli.screen.finished_runs import one_result
from leakbound.cli.screen.help_pages import cli_command, option
from leakbound.cli.screen.output import emit, say
from leakbound.errors import UsageError
from leakbound_hosts.exports.opendp import Publication, registry_entry
from leakbound_hosts.exports.statements import cyclonedx, in_toto

RUN = click.argument("run", type=click.Path(path_type=Path))
DIGEST = re.compile(r"(?P<name>.+)@sha256:(?P<digest>[0-9a-f]{64})")
ONE_GAP = "..."  # as registry_entry writes it


@cli_command("runs/NAME --subject app.py > statement.json")
@RUN
@option(
    "--subject",
    "artifact that was audited, such as the file of the application; may be given again",
    name="subjects",
    multiple=True,
    required=True,
    metavar="FILE|NAME@sha256:DIGEST",
)
def in_toto_statement(run: Path, subjects: tuple[str, ...]) -> int:
    """Print an in-toto statement (test-result v0.1, not signed): PASSED for no violation, WARNED if
    a finding stands beside it, FAILED for a violation and for an inconclusive audit.
    """
    text = in_toto(one_result(run), dict(map(_subject, subjects)))
    click.echo(text, nl=False)
    emit(json.loads(text))
    return 0


@cli_command("runs/NAME > card.json")
@RUN
def model_card(run: Path) -> int:
    """Print a CycloneDX 1.6 model card: the bound and the rates of the attack, with confidence
    intervals.
    """
    text = cyclonedx(one_result(run))
    click.echo(text, nl=False)
    emit(json.loads(text))
    return 0


@cli_command("runs/NAME --published 2026-01-31 --curator 'Help desk' > entry.yaml")
@RUN
@option("--published", "day of publication", required=True, metavar="YYYY-MM-DD")
@option(
    "--curator",
    "who publishes the service; may be given again",
    name="curators",
    multiple=True,
    required=True,
)
@option("--name", "name of the service", default=ONE_GAP, show_default=False)
@option("--description", "what it is", default=ONE_GAP, show_default=False)
@option("--intended-use", "what it is for", default=ONE_GAP, show_default=False)
@option("--region", "region of the data, or whose laws apply", default=ONE_GAP, show_default=False)
@option("--author", "who made the entry; none: the curators", name="authors", multiple=True)
def deployment(
    run: Path,
    published: str,
    curators: tuple[str, ...],
    name: str,
    description: str,
    intended_use: str,
    region: str,
    authors: tuple[str, ...],
) -> int:
    """Print a draft entry (YAML, tier 3) for the OpenDP registry of deployments. The audited
    mechanism must have a guarantee. What is left out stands as "..." in the entry.
    """
    known = Publication(published, curators, name, description, intended_use, region, authors)
    text = registry_entry(one_result(run), known)
    click.echo(text, nl=False)
    emit(yaml.safe_load(text))
    if known.gaps:
        say(f"leakbound: to be filled in: {', '.join(known.gaps)}.", err=True)
    return 0


def _subject(text: str) -> tuple[str, str]:
    """Name and digest of an artifact."""
    if known := DIGEST.fullmatch(text):
        return known["name"], known["digest"]
    path = Path(text)
    try:
        return path.name, sha256(path.read_bytes()).hexdigest()
    except OSError:
        raise UsageError(
            f"--subject is {text!r}; it must be a file that can be read, or NAME@sha256: with 64 "
            "hexadecimal digits, such as those of a container image."
        ) from None
