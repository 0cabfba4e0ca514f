"""leakbound gate: may these runs pass?"""

from __future__ import annotations

from functools import partial
from itertools import combinations
from pathlib import Path

import click

from leakbound.auditing.result.sentences import first_line, subject_of
from leakbound.cli.screen.finished_runs import runs_at
from leakbound.cli.screen.help_pages import FILE, cli_command, option
from leakbound.cli.screen.output import emit, say, write_output
from leakbound.cli.screen.result import show
from leakbound.errors import StoreError, UsageError
from leakbound.gating.gate import MAX_DELTA, Gate, GateResult, check_gate
from leakbound.report.export.gate_files import gate_page, gate_screen, junit, sarif, tally_words

UNFINISHED = "The run is unfinished. Run its command again to finish it; it reuses what is stored."
EXIT = {"violation": 1, "inconclusive": 3, "passed": 0}  # the first that any run has is the answer


@cli_command("runs --max-epsilon 2 --min-power 0.8 --junit gate.xml --sarif gate.sarif")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@option("--max-epsilon", "largest lower bound that passes", float, required=True)
@option(
    "--min-power",
    "minimum power: the probability of rejecting a claim that is false by --factor",
    float,
)
@option("--factor", "of --min-power: assumed leak, as a multiple of the claim", float, 2.0)
@option(
    "--accuracy",
    "of --min-power, if the claim is random guessing: how often the attack is right",
    float,
)
@option("--require", "verdict that each run must have", click.Choice(["no_violation"]))
@option("--max-delta", "largest delta of a claim that passes", float, MAX_DELTA)
@option("--html", "HTML page to write: each rule, its value and its limit", FILE)
@option("--junit", "JUnit XML file to write", FILE, name="target")
@option("--sarif", "SARIF 2.1.0 file to write, for code scanning", FILE, name="sarif_file")
def command(
    runs: tuple[Path, ...], max_epsilon: float, min_power: float | None, factor: float,
    accuracy: float | None, require: str | None, max_delta: float, html: Path | None,
    target: Path | None, sarif_file: Path | None,
) -> int:  # fmt: skip
    """Pass or fail finished runs (folders, folders of runs, or record.json files), with a one-line
    reason for each.

    Lower bounds decide, never point estimates. Exits with 0 (all pass), 1 (a violation, or a bound
    above --max-epsilon), 2 (a run was edited or cannot be read) or 3 (a run is unfinished, or could
    not have failed this gate). Makes no model calls.
    """
    files = {"--junit": target, "--sarif": sarif_file, "--html": html}
    for (flag, one), (other, file) in combinations(files.items(), 2):
        if one is not None and one == file:
            raise UsageError(f"{flag} and {other} both name {str(one)!r}; name two files.")
    gate = Gate(max_epsilon, min_power, factor, require == "no_violation", max_delta, accuracy)
    given = runs_at(runs)
    records, refused = given.results()
    decided = [check_gate(record, gate) for record in records]
    missing = {**dict.fromkeys(given.names, UNFINISHED), **refused}
    results = [*decided, *(GateResult(run, "inconclusive", why) for run, why in missing.items())]
    if target is not None:
        write_output(target, junit(results), "--junit")
    if sarif_file is not None:
        write_output(sarif_file, sarif(records, decided), "--sarif")
    if html is not None:
        write_output(html, gate_page(results, records, gate), "--html")
    code = next(
        code for outcome, code in EXIT.items() if any(p.outcome == outcome for p in results)
    )
    code = StoreError.exit_code if refused and code != EXIT["violation"] else code
    heading = first_line(f"GATE ({tally_words(results)})", list(map(subject_of, records)))
    long = [heading, *(f"{one.outcome.upper()}: {one.run}: {one.why}" for one in results)]
    show(partial(gate_screen, results, records, gate, code=code), lambda: say("\n".join(long)))
    emit({"exit_code": code, "runs": results})
    return code
