"""An audit from a prepared spec to its record:

collect, release, estimate. The same call resumes an interrupted run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from leakbound.auditing.assemble import assemble
from leakbound.auditing.collect import Batches, BatchRunner, CollectionPlan, collect, run_serial
from leakbound.auditing.prepare import Prepared
from leakbound.auditing.result import AuditResult
from leakbound.auditing.sequential import SequentialStop
from leakbound.auditing.store import RunStore
from leakbound.errors import StoreError, UsageError
from leakbound.models import Model

__all__ = ["replay_only", "questions", "run_audit", "run_shard", "write_record"]

Progress = Callable[[int, int], None]


def run_audit(
    prepared: Prepared, out: Path, progress: Progress = lambda done, total: None, reuse: bool = True,
    ask: BatchRunner = run_serial,
) -> tuple[AuditResult, Path]:  # fmt: skip
    """Collect what is missing, then compute the record; returns it with the run's folder.

    reuse: answers that another run under `out` got to the same questions are taken over, not asked
    for again. ask: who asks.
    The results depend on none of these.
    """
    store, watch = _opened(prepared, out, reuse)
    collect(questions(prepared), prepared.model, store, ask=ask, progress=progress, stop=watch)
    return write_record(prepared, store, watch), store.folder


def run_shard(
    prepared: Prepared, shard: tuple[int, int], out: Path, progress: Progress = lambda done, total: None,
    reuse: bool = True, ask: BatchRunner = run_serial,
) -> Path:  # fmt: skip
    """Collect the batches of shard i of N only; returns the run's folder, for `merge`.

    Raises UsageError for an early stop.
    """
    if prepared.spec.stop_when_rejected:
        raise UsageError(
            "stop_when_rejected looks at all pairs in their order, and a shard sees every Nth "
            "batch; leave one of the two out."
        )
    store, _ = _opened(prepared, out, reuse)
    collect(questions(prepared), prepared.model, store, shard, ask, progress)
    store.belongs_to(*shard)
    return store.folder


def questions(prepared: Prepared) -> CollectionPlan:
    """What the run asks."""
    spec = prepared.spec
    return CollectionPlan(
        prepared.task,
        prepared.mechanism,
        prepared.pairs,
        spec.batch_pairs,
        spec.store_text == "all",
    )


def write_record(prepared: Prepared, store: RunStore, watch: SequentialStop) -> AuditResult:
    """The record of what is stored, written beside it: of the pairs up to where the audit ended."""
    used = watch.seen if watch() else len(prepared.pairs)
    record = assemble(prepared, store.evidence(stop=used), used, store.calls(used))
    store.write("record.json", record.to_json())
    return record


def replay_only(questions: CollectionPlan, model: Model, batches: Sequence[int]) -> Batches:
    """Asks nobody: an audit that is replayed finds its answers in its run."""
    raise StoreError(
        f"{len(batches)} of {len(questions.batches())} batches are not kept, and --replay asks no "
        "model; run the audit without "
        "it, or give the --cache that has their answers."
    )


def _opened(prepared: Prepared, out: Path, reuse: bool) -> tuple[RunStore, SequentialStop]:
    store = RunStore(out / prepared.name, prepared.manifest)
    if reuse:
        store.adopt(prepared.spec.batch_pairs, prepared.spec.pairs)
    return store, SequentialStop(prepared, store)
