"""leakbound demo: four systems, one page."""

from __future__ import annotations

from pathlib import Path

import click

from leakbound.auditing import make_spec, prepare, run_audit
from leakbound.cli.help_pages import cli_command
from leakbound.cli.output import emit, write_output
from leakbound.cli.progress import progress
from leakbound.models import open_model
from leakbound.report import comparison_table, page

__all__ = ["command"]

SYSTEMS = (
    {"mechanism": "few_shot"},
    {"mechanism": {"kind": "prompt_defense", "level": 1}},
    {"mechanism": {"kind": "prompt_defense", "level": 2}},
    {"mechanism": "report_noisy_max"},
)


@cli_command("")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("runs/demo"),
    show_default=True,
    help="where to write",
)
@click.option(
    "--pairs",
    type=click.IntRange(1),
    default=60,
    show_default=True,
    help="paired trials for each system",
)
def command(out: Path, pairs: int) -> int:
    """Audit an undefended system, two prompt defences and private voting on bundled data, with the
    pocket model.

    Ends with 0 when the demonstration worked, whatever it found.
    """
    model = open_model("pocket")
    records, folders = [], []
    for choice in SYSTEMS:
        prepared = prepare(make_spec({**choice, "pairs": pairs}), model)
        with progress(prepared.name) as show:
            record, folder = run_audit(prepared, out, show)
        records.append(record)
        folders.append(folder)
    report = out / "report.html"
    write_output(report, page(records, "What four systems leak about their examples"))
    guilty = [r for r in records if r.verdict == "violation"]
    click.echo(comparison_table(records))
    click.echo(
        f"{len(guilty)} of {len(records)} systems violate the claim ε = 1, δ = 1e-05; the "
        "undefended one "
        f"{'is among them' if records[0] in guilty else 'is not among them'}."
    )
    click.echo(f"Report: {report}")
    runs = [
        {"folder": folder, "record": record}
        for folder, record in zip(folders, records, strict=True)
    ]
    emit({"exit_code": 0, "report": report, "violations": len(guilty), "runs": runs})
    return 0
