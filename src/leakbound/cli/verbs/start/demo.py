"""leakbound demo: four systems, one page."""

from __future__ import annotations

from pathlib import Path

import click

from leakbound._install import install_hint
from leakbound.auditing import make_spec, prepare, run_audit
from leakbound.cli.screen.help_pages import COUNT, PATH, cli_command, option
from leakbound.cli.screen.output import emit, say, write_output
from leakbound.cli.screen.progress import progress
from leakbound.models import Scripted, open_model
from leakbound.models.address import lacks_torch
from leakbound.models.content import readable
from leakbound.models.request import Prompt
from leakbound.report import comparison_table, page

SYSTEMS = (
    {"mechanism": "few_shot"},
    {"mechanism": {"kind": "prompt_defense", "level": 1}},
    {"mechanism": {"kind": "prompt_defense", "level": 2}},
    {"mechanism": "report_noisy_max"},
)


def _find(prompt: Prompt) -> str:
    """Whether the last quoted text of a prompt stands in it twice."""
    text = readable(prompt)
    return "yes" if text.count(text.rsplit('"', 2)[-2]) > 1 else "no"


SCRIPT = Scripted(
    _find,
    lambda prompt, labels: [0.0 if one == _find(prompt) else -9.0 for one in labels],
    name="a script",
)


@cli_command("")
@option("--out", "folder to write into", PATH, Path("runs/demo"))
@option("--pairs", "paired trials, for each system", COUNT, 60)
def command(out: Path, pairs: int) -> int:
    """Audit an undefended system, two prompt defences and private voting on bundled data, with the
    pocket model (without torch, with a script in its place).

    Exits with 0 if the demo ran, whatever it found.
    """
    scripted = lacks_torch("pocket")
    model = SCRIPT if scripted else open_model("pocket")
    if scripted:
        say(
            "leakbound: torch is not installed, so these are scripted systems: in place of the "
            "pocket model, a script answers yes where the quoted text stands among the examples, "
            f"whatever an instruction says. For the pocket model: {install_hint('local')}"
        )
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
        f"undefended one {'is among them' if records[0] in guilty else 'is not among them'}."
    )
    click.echo(f"Report: {report}")
    runs = [
        {"folder": folder, "record": record}
        for folder, record in zip(folders, records, strict=True)
    ]
    emit({"exit_code": 0, "report": report, "violations": len(guilty), "runs": runs})
    return 0
