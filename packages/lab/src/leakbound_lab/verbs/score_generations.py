"""leakbound score-generations: how many published responses repeat their context."""

from __future__ import annotations

from pathlib import Path

import click

from leakbound.cli.screen.help_pages import PATH, cli_command, option
from leakbound.cli.screen.output import emit
from leakbound_lab.studies.regurgitation import Counts, count_generations, load_generations

MEANS = {
    "text": "a run of half the response; ROUGE-L F1 above 0.5",
    "program": "more than 25 shared words; ROUGE-L precision or recall above 0.5",
}


@cli_command("generations.csv --json")
@click.argument("file", type=click.Path(path_type=Path))
@option("--context", "file of contexts, row by row: CSV or JSONL", PATH, name="contexts")
@option("--context-field", "field of the contexts [default: found by its name]")
@option("--response-field", "field of the responses [default: found by its name]")
@option("--reference-field", "field of reference responses [default: found by its name]")
def command(
    file: Path,
    contexts: Path | None,
    context_field: str | None,
    response_field: str | None,
    reference_field: str | None,
) -> int:
    """Count the responses of a CSV or JSONL FILE that repeat their context, by the paper's text and
    by its program.

    Overlap does not prove leakage: a model may have known the words without the context.
    `leakbound influence` measures that.
    """
    rows = load_generations(file, contexts, context_field, response_field, reference_field)
    counts = count_generations(rows)
    click.echo(_describe(counts))
    emit(counts)
    return 0


def _describe(counts: Counts) -> str:
    lines = [f"{counts.generations} generations"]
    for name, means in MEANS.items():
        lines.append(
            f"  by the {name}: repeat {counts.repeat[name]}, rouge {counts.rouge[name]}  ({means})"
        )
    if counts.rouge1 is not None:
        lines.append(
            f"  against the references: mean ROUGE-1 F1 {counts.rouge1:.4f}, ROUGE-L F1 "
            f"{counts.rougel:.4f}"
        )
    return "\n".join(lines)
