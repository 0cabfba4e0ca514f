"""leakbound export: a finished run in the formats of others, and what it can be made from again."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from pathlib import Path

import click
import yaml

from leakbound.auditing.result.export import config_text
from leakbound.cli.finished_runs import one_result
from leakbound.cli.help_pages import SETTINGS, subcommand
from leakbound.cli.output import emit
from leakbound.cli.screen import say
from leakbound.errors import UsageError

RUN = click.argument("run", type=click.Path(path_type=Path))
DIGEST = re.compile(r"(?P<name>.+)@sha256:(?P<digest>[0-9a-f]{64})")
ONE_GAP = "..."  # as report.opendp writes it


@click.group(context_settings=SETTINGS)
def command() -> None:
    """Write a finished run in the formats of others, or what it can be made from again.

    Each command prints to the standard output and reads the record alone; --json prints YAML as
    JSON.
    """


@subcommand(command, "config", "runs/NAME > audit.yaml")
@RUN
def config(run: Path) -> int:
    """Print a YAML file with which `leakbound audit --config FILE` makes this run again, in the
    same folder.
    """
    text = config_text(one_result(run))
    click.echo(text, nl=False)
    emit(yaml.safe_load(text))
    return 0


@subcommand(command, "in-toto", "runs/NAME --subject app.py > statement.json")
@RUN
@click.option(
    "--subject",
    "subjects",
    multiple=True,
    required=True,
    metavar="FILE|NAME@sha256:DIGEST",
    help="artifact that was audited, such as the file of the application; may be given again",
)
def in_toto_statement(run: Path, subjects: tuple[str, ...]) -> int:
    """Print an in-toto statement (test-result v0.1, not signed): PASSED for no violation, WARNED if
    a finding stands beside it, FAILED for a violation and for an inconclusive audit.
    """
    from leakbound.report.in_toto import in_toto

    text = in_toto(one_result(run), dict(map(_subject, subjects)))
    click.echo(text, nl=False)
    emit(json.loads(text))
    return 0


@subcommand(command, "cyclonedx", "runs/NAME > card.json")
@RUN
def model_card(run: Path) -> int:
    """Print a CycloneDX 1.6 model card: the bound and the rates of the attack, with confidence
    intervals.
    """
    from leakbound.report.cyclonedx import cyclonedx

    text = cyclonedx(one_result(run))
    click.echo(text, nl=False)
    emit(json.loads(text))
    return 0


@subcommand(
    command, "opendp", "runs/NAME --published 2026-01-31 --curator 'Help desk' > entry.yaml"
)
@RUN
@click.option("--published", required=True, metavar="YYYY-MM-DD", help="day of publication")
@click.option(
    "--curator",
    "curators",
    multiple=True,
    required=True,
    help="who publishes the service; may be given again",
)
@click.option("--name", default=ONE_GAP, help="name of the service")
@click.option("--description", default=ONE_GAP, help="what it is")
@click.option("--intended-use", default=ONE_GAP, help="what it is for")
@click.option("--region", default=ONE_GAP, help="region of the data, or whose laws apply")
@click.option("--author", "authors", multiple=True, help="who made the entry; none: the curators")
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
    from leakbound.report.opendp import Publication, registry_entry

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
