"""leakbound selftest: the auditor against every known defect."""

from __future__ import annotations

import click

from leakbound.cli.screen.help_pages import WHOLE_NUMBER, cli_command, option
from leakbound.cli.screen.output import emit
from leakbound_lab.planted import passes, selftest


@cli_command("", "--seed 1")
@option("--seed", "seed of random choices", WHOLE_NUMBER, 0)
def command(seed: int) -> int:
    """Audit broken mechanisms and auditors that are known from public code, beside correct ones.

    Exits with 0 if every defect is found and at most 5 % of the audits of correct references are
    false alarms, else with 1.
    """
    rows = []
    for row in selftest(seed):
        rows.append(row)
        state = "found " if row.finding.rejected else "MISSED"
        of = f"false alarms: {row.false_alarms} of {row.reference_runs}"
        click.echo(f"{state}  {row.id:<28} {row.finding.evidence}; {of}")
    found = sum(row.finding.rejected for row in rows)
    alarms, runs = sum(r.false_alarms for r in rows), sum(r.reference_runs for r in rows)
    click.echo(
        f"{found} of {len(rows)} defects found, {alarms} false alarms in {runs} audits of correct "
        "references"
    )
    emit({"passed": passes(rows), "defects": rows})
    return 0 if passes(rows) else 1
