"""leakbound watch: a scheduled audit with one test over all of its runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import click
import numpy as np

from leakbound._files import make_folder, write_private
from leakbound.auditing import AuditResult, prepare, run_audit
from leakbound.auditing.prepare.build import open_models
from leakbound.auditing.spec.audit_spec import AuditSpec
from leakbound.cli.options.collect import CollectOptions, call_options, rate_option
from leakbound.cli.options.endpoint import endpoint_options, local_options
from leakbound.cli.options.spec import spec_from
from leakbound.cli.screen.help_pages import COUNT, PATH, RealRange, cli_command, option
from leakbound.cli.screen.output import emit, say
from leakbound.cli.screen.progress import progress
from leakbound.errors import UsageError
from leakbound.models import Endpoint, Local
from leakbound.systems.journal import PathLock
from leakbound_hosts.watch import WatchEntry, WatchState, changes_since, next_entry

FACTS = {"system": "model_fingerprint", "rows": "data_fingerprint", "leakbound": "leakbound"}
METRICS: dict[str, tuple[str, Callable[[WatchEntry], float]]] = {
    "alarm": ("whether the standing test rejects the claim", lambda one: int(one.alarm)),
    "log_e_value": ("natural logarithm of the standing test", lambda one: one.log_standing),
    "alarm_level": ("logarithm at which there is an alarm", lambda one: one.level),
    "epsilon_lower_bound": ("lower bound on epsilon of the last run", lambda one: one.epsilon),
    "runs": ("runs so far", lambda one: one.number),
    "last_run_seconds": (
        "time of the last run, since 1970", lambda one: datetime.fromisoformat(one.at).timestamp(),
    ),
}  # fmt: skip


@cli_command("audit.yaml", "audit.yaml --state prod.jsonl --prometheus leakbound.prom")
@click.argument("config", type=str)
@option("--state", "file that remembers earlier runs", PATH, Path("watch.jsonl"), metavar="FILE")
@option("--out", "folder to write into: the runs", PATH, Path("runs"))
@option("--runs-a-year", "planned runs of a year", COUNT, 365)
@option("--alarms", "probability of a false alarm in a year", RealRange(0, 1, min_open=True,
        max_open=True), 0.05)  # fmt: skip
@option("--accept", "accept the last run: end the alarm, and count changes from here", bool)
@option("--prometheus", "write the state as metrics for Prometheus", PATH, metavar="FILE")
@rate_option
@endpoint_options
@local_options
def command(
    config: str, state: Path, out: Path, runs_a_year: int, alarms: float, accept: bool,
    prometheus: Path | None, rate: float | None, disposable_store: bool, endpoint: Endpoint,
    local: Local,
) -> int:  # fmt: skip
    """Run the audit of CONFIG (a file of `leakbound init`) again, and decide over a year of runs.

    Run it from cron or a timer. Each run uses fresh pairs, and its e-value is multiplied with those
    of earlier runs. Exits with 0 if there is no alarm, 1 if there is one, 3 if this run could see
    nothing, and 4 if the target is down, which uses none of the alarm budget. An alarm stays until
    --accept.
    """
    base = AuditSpec() if accept else spec_from(config, (), {})
    make_folder(state.parent, "--state")
    state.touch(0o600)
    held = PathLock(state, f"another watch of {str(state)!r} runs; wait until it ends.")
    kept = WatchState(state)
    if accept:
        kept.acknowledge()
        say(f"run {len(kept.entries)} is accepted")
    else:
        spec = _spec_of_run(base, len(kept.entries))
        calls = call_options(endpoint, config, rate, disposable_store)
        collecting = CollectOptions(out, None, None, False, None, calls)
        opener = partial(open_models, endpoint=endpoint, local=local)
        prepared = prepare(spec, opener=opener)
        with progress(prepared.name) as show:
            record, folder = run_audit(
                prepared, out, show, False, collecting.runner(prepared, opener)
            )
        kept.add(_entry_of(record, kept, folder, runs_a_year, alarms))
    del held
    last = kept.entries[-1]
    changed = changes_since(last, kept.accepted)
    if not accept:
        say("\n".join(_lines(last, kept, changed)))
    if prometheus is not None:
        write_private(prometheus, _metrics(last))
        prometheus.chmod(0o644)  # another user reads it, and it holds no text
    code = 1 if last.alarm else 3 if last.blind and not accept else 0
    emit({"exit_code": code, "entry": last, "changed": changed, "digest": kept.digest})
    return code


def _spec_of_run(spec: AuditSpec, before: int) -> AuditSpec:
    """The audit of a run, whose pairs and canaries no other run had."""
    if spec.design.layout == "one_run":
        raise UsageError("a one_run design has no e-value; watch by pairs, as with design: paired.")
    (seed,) = np.random.SeedSequence([spec.design.seed, before]).generate_state(1)
    design = spec.design.model_copy(update={"seed": int(seed)})
    return spec.model_copy(update={"design": design})


def _entry_of(
    record: AuditResult, kept: WatchState, folder: Path, runs: int, alarms: float
) -> WatchEntry:
    path = record.e_values
    if path is None:
        raise UsageError(
            f"the estimator {record.bound.method} has no e-value to multiply; use e_process."
        )
    facts = {name: str(record.provenance[key]) for name, key in FACTS.items()}
    return next_entry(
        kept.entries, path.log_e_values[-1] if path.pairs else 0.0, path.tested, datetime.now(UTC),
        runs, alarms, verdict=record.verdict, reason=record.reason, facts=facts,
        epsilon=record.bound.epsilon or 0.0, run=folder.name,
    )  # fmt: skip


def _lines(last: WatchEntry, kept: WatchState, changed: tuple[str, ...]) -> list[str]:
    mark = "✗ ALARM" if last.alarm else "✓ NO ALARM"
    e_value, level = math.exp(min(last.log_standing, 700)), math.exp(last.level)
    lines = [
        f"{mark}   run {last.number}, {last.tested}",
        f"   all runs         e-value {e_value:.3g}; alarm at {level:.3g} (false alarms in a year: "
        f"at most {1 / level:.3g})",
        f"   this run         e-value {math.exp(min(last.log_e, 700)):.3g}, "
        f"ε ≥ {last.epsilon:.2f}, {last.verdict.replace('_', ' ')}",
    ]
    if changed:
        since = kept.accepted.number if kept.accepted else 1
        lines.append(f"   changed          {', '.join(changed)}, since run {since}")
    if last.alarm:
        lines.append("   next             fix the leak, then: leakbound watch … --accept")
    elif last.blind:
        lines.append(f"   this run saw nothing: {str(last.reason).replace('_', ' ')}")
    return lines


def _metrics(last: WatchEntry) -> str:
    return "".join(
        f"# HELP leakbound_{name} {text}\n# TYPE leakbound_{name} gauge\n"
        f"leakbound_{name} {_number(value(last))}\n"
        for name, (text, value) in METRICS.items()
    )


def _number(value: float) -> str:
    return f"{value:.12g}".replace("-inf", "-Inf")
