"""leakbound tune: a better query, searched on pilot pairs within a budget of model calls."""

from __future__ import annotations

from pathlib import Path

import click

from leakbound.cli.init.sources import with_sources
from leakbound.cli.options.collect import call_options, rate_option
from leakbound.cli.options.endpoint import endpoint_options
from leakbound.cli.options.spec import spec_from, spec_options
from leakbound.cli.screen.help_pages import COUNT, FILE, PATH, cli_command, option
from leakbound.cli.screen.output import emit, say
from leakbound.errors import UsageError
from leakbound.models import Endpoint
from leakbound_lab.tuning import Tuned, save_attack, tune_spec
from leakbound_lab.tuning.reflect import TOKENS


@cli_command(
    "private.jsonl app/rag.py:answer --max-calls 2000",
    first="--data --system --model --mechanism --pairs --max-calls --save --config",
)
@click.argument("sources", nargs=-1, metavar="[ROWS] [SYSTEM or MODEL]")
@spec_options
@endpoint_options
@rate_option
@option(
    "--start",
    "query to start from, with {canary} in it [default: the audit's]",
    default="",
    metavar="TEXT",
)
@option("--max-calls", "budget of model calls", COUNT, 2000)
@option("--pilot-pairs", "paired trials per query", COUNT, 20)
@option(
    "--reflection-model",
    "model that proposes queries and reads the pilot's canaries and the replies; none: try a list "
    "of rewrites [default: the audited model]",
    metavar="ADDRESS|none",
)
@option("--reflection-tokens", "tokens of a reply of the reflection model", COUNT, TOKENS)
@option("--save", "YAML file to write: the attack", FILE, Path("attack.yaml"))
@option("--force", "overwrite an existing file", bool)
@option("--out", "folder to write into: the queries that were tried", PATH, Path("runs"))
def command(
    sources: tuple[str, ...], config: str | None, assignments: tuple[str, ...], start: str,
    max_calls: int, pilot_pairs: int, reflection_model: str | None, reflection_tokens: int,
    save: Path, force: bool, out: Path, rate: float | None, disposable_store: bool,
    endpoint: Endpoint, **flags: object,
) -> int:  # fmt: skip
    """Search for a better query: takes the options of `audit`, and leaves a file for its
    --config.

    Queries are scored on pilot pairs that share no random numbers and no canary with the audit of
    the same seed. The same command resumes, and asks nothing twice; an attack file that is there is
    only replaced with --force.
    """
    spec = spec_from(config, assignments, with_sources(sources, flags))
    if not save.absolute().parent.is_dir():
        raise click.UsageError(
            f"the folder of --save {str(save)!r} does not exist; name a file in one that does."
        )
    if save.exists() and not force:
        raise UsageError(f"{str(save)!r} exists; add --force, or name another file with --save.")
    tuned = tune_spec(
        spec,
        max_calls=max_calls,
        pairs=pilot_pairs,
        start=start,
        reflection=reflection_model,
        reflection_tokens=reflection_tokens,
        out=out,
        tell=lambda line: say(line, err=True),
        endpoint=endpoint,
        calls=call_options(endpoint, config, rate, disposable_store)
        if spec.system.address
        else None,
    )
    save_attack(tuned, save)
    say(_describe(tuned, save))
    emit(_facts(tuned, save))
    return 0


def _facts(tuned: Tuned, save: Path) -> dict[str, object]:
    return {
        "attack": save, "folder": tuned.folder, "query": tuned.best, "start": tuned.start,
        "before": tuned.before, "after": tuned.after, "scored": tuned.scored,
        "refused": tuned.refused, "pilot_pairs": tuned.pairs, "model_calls": tuned.calls,
        "max_calls": tuned.max_calls, "ended": tuned.ended, "reflection": tuned.reflection,
    }  # fmt: skip


def _describe(tuned: Tuned, save: Path) -> str:
    gain = "" if tuned.after > tuned.before else " (no query did better than the first)"
    return "\n".join(
        [
            f"Pilot accuracy {tuned.before:.3f} before, {tuned.after:.3f} after{gain}",
            f"  {len(tuned.scored)} {'query' if len(tuned.scored) == 1 else 'queries'} scored on "
            f"{tuned.pairs} pilot pairs, {tuned.refused} refused; ended: {tuned.ended}",
            f"  {tuned.calls} of {tuned.max_calls} model calls spent (cost: {tuned.cost})",
            f"  Query: {tuned.best}",
            f"  Attack file: {save}",
            f"  Next: leakbound audit --config {save}, with the same --seed and the other options "
            "of this command",
        ]
    )
