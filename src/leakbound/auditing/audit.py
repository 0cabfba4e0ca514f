"""An audit from a prepared spec to its result; the same call resumes an interrupted run."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from leakbound.auditing.collect.collect import (
    BatchRunner,
    CollectionPlan,
    Progress,
    collect,
    collect_others,
    run_ahead,
)
from leakbound.auditing.decide.decide import Assessment, decide
from leakbound.auditing.observe.one_pass import OnePass
from leakbound.auditing.prepare.prepared import REPEATED, Prepared
from leakbound.auditing.result.assemble import assemble
from leakbound.auditing.result.audit_result import AuditResult
from leakbound.auditing.store.run_store import PriorResults, RunStore
from leakbound.stats.curves.curves import pair_accuracies, rates_without_each


def run_audit(
    prepared: Prepared,
    out: Path,
    progress: Progress = lambda done, total: None,
    reuse: bool = True,
    ask: BatchRunner = run_ahead,
    by_pair: bool = False,
) -> tuple[AuditResult, Path]:
    """Collect what is missing, and compute the result in one pass.

    Args:
        prepared: The audit.
        out: Folder of the runs.
        progress: Called with (pairs done, pairs in all).
        reuse: Whether outputs that another run under `out` collected for the same questions are
            reused.
        ask: Asks the model; the result does not depend on it.
        by_pair: Whether the result knows how well each pair is told apart (`AuditResult.by_pair`).

    Returns:
        The result, and the folder of the run.

    Raises:
        LeakboundError: If the model cannot be asked, the run cannot be stored or was changed, or
            the estimator needs a number of pairs that no earlier result has preceded.
    """
    plan, (store, prior) = CollectionPlan.of(prepared), open_run(prepared, out, reuse)
    seen = OnePass(prepared, store, plan, prior)
    try:
        asked = collect(plan, prepared.model, store, ask=ask, progress=progress, stop=seen)
        seen()
        found = decide(seen)
        for _ in REPEATED:  # what the first answers say decides what else is asked
            if prepared.own_test or not found.left:
                break
            asked = collect_others(plan, found.left, prepared.model, store, ask) or asked
            found = decide(seen)
    finally:
        prepared.close()
    result = write_result(seen, found)
    if by_pair:
        simulated = seen.tally.simulated()
        scores = simulated.member, simulated.nonmember
        result.know_pairs(pair_accuracies(*scores), rates_without_each(*scores))
    if prior.day and not asked:
        result.know_stored(prior.day)
    return result, store.folder


def open_run(prepared: Prepared, out: Path, reuse: bool) -> tuple[RunStore, PriorResults]:
    """The store of an audit, unless earlier results refuse its estimator."""
    require = partial(
        PriorResults.require_fixed_size, estimator=prepared.estimator,
        pairs=prepared.trial_design.pairs,
    )  # fmt: skip
    return RunStore.open(prepared.folder(out), prepared.manifest, reuse, require)


def write_result(seen: OnePass, found: Assessment | None = None) -> AuditResult:
    """Compute the result of what is stored, and write it beside the outputs."""
    if found is None:
        seen()
        found = decide(seen)
    result = assemble(seen, found)
    whole = seen.seen == seen.design.pairs
    seen.store.finish(seen.seen if whole else -seen.seen, result.to_json())
    return result
