"""An audit from a prepared spec to its result; the same call resumes an interrupted run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from leakbound.auditing.assemble import assemble
from leakbound.auditing.collect import Batches, BatchRunner, CollectionPlan, collect, run_serial
from leakbound.auditing.one_pass import OnePass
from leakbound.auditing.prepare import Prepared
from leakbound.auditing.result import AuditResult
from leakbound.auditing.store import RunStore
from leakbound.errors import StoreError, UsageError
from leakbound.models import Model

__all__ = ["collection_plan", "replay_only", "run_audit", "run_shard", "write_result"]

Progress = Callable[[int, int], None]


def run_audit(
    prepared: Prepared,
    out: Path,
    progress: Progress = lambda done, total: None,
    reuse: bool = True,
    ask: BatchRunner = run_serial,
) -> tuple[AuditResult, Path]:
    """Collect what is missing, and compute the result in one pass.

    Args:
        prepared: The audit.
        out: Folder of the runs.
        progress: Called with (pairs done, pairs in all).
        reuse: Whether outputs that another run under `out` collected for the same questions are
            reused.
        ask: Asks the model; the result does not depend on it.

    Returns:
        The result, and the folder of the run.

    Raises:
        LeakboundError: If the model cannot be asked, or the run cannot be stored.
    """
    store, plan = _opened(prepared, out, reuse), collection_plan(prepared)
    seen = OnePass(prepared, store, plan)
    collect(plan, prepared.model, store, ask=ask, progress=progress, stop=seen)
    return write_result(seen), store.folder


def run_shard(
    prepared: Prepared,
    shard: tuple[int, int],
    out: Path,
    progress: Progress = lambda done, total: None,
    reuse: bool = True,
    ask: BatchRunner = run_serial,
) -> Path:
    """Collect the batches of one shard only.

    Args:
        prepared: The audit.
        shard: (i, N), the i-th of N shards.
        out: Folder of the runs.
        progress: Called with (pairs done, pairs of the shard).
        reuse: Whether outputs that another run collected for the same questions are reused.
        ask: Asks the model.

    Returns:
        The folder of the run, for `merge`.

    Raises:
        UsageError: If the audit may stop early.
    """
    if prepared.spec.decision.stop_when_rejected:
        raise UsageError(
            "stop_when_rejected looks at all pairs in their order, and a shard sees every Nth "
            "batch; leave one of the two out."
        )
    store = _opened(prepared, out, reuse)
    collect(collection_plan(prepared), prepared.model, store, shard, ask, progress)
    store.belongs_to(*shard)
    return store.folder


def collection_plan(prepared: Prepared) -> CollectionPlan:
    """What a run asks, batch by batch.

    Args:
        prepared: The audit.

    Returns:
        Its batches.
    """
    shape = prepared.spec.design
    return CollectionPlan(
        prepared.task,
        prepared.mechanism,
        prepared.pairs,
        shape.batch_pairs,
        shape.store_text == "all",
        prepared.controls,
    )


def write_result(seen: OnePass) -> AuditResult:
    """Compute the result of what is stored, and write it beside the outputs.

    Args:
        seen: A pass over the store of the run; what it has not seen yet, it sees now.

    Returns:
        The result of the pairs up to where the audit ended.
    """
    seen()
    result = assemble(seen, seen.store.calls(seen.seen))
    seen.store.write("record.json", result.to_json())
    return result


def replay_only(plan: CollectionPlan, model: Model, batches: Sequence[int]) -> Batches:
    """Ask nobody: an audit that is replayed finds its outputs in its run.

    Args:
        plan: What the run asks.
        model: Not asked.
        batches: Batches that the run lacks.

    Raises:
        StoreError: Always.
    """
    raise StoreError(
        f"{len(batches)} of {len(plan.batches())} batches are not kept, and --replay asks no "
        "model; run the audit without it, or give the --cache that has their answers."
    )


def _opened(prepared: Prepared, out: Path, reuse: bool) -> RunStore:
    store = RunStore(out / prepared.name, prepared.manifest)
    if reuse:
        store.adopt(prepared.spec.design.batch_pairs, prepared.spec.design.pairs)
    return store
