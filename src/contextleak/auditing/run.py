"""An audit from a prepared spec to its record: collect, release, estimate. The same call resumes an interrupted run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from contextleak.auditing.assemble import assemble, drawn, played
from contextleak.auditing.collect import collect
from contextleak.auditing.prepare import Prepared
from contextleak.auditing.record import AuditRecord
from contextleak.auditing.store import RunStore

__all__ = ["run_audit"]

Progress = Callable[[int, int], None]


def run_audit(
    prepared: Prepared, out: Path, progress: Progress = lambda done, total: None, reuse: bool = True
) -> tuple[AuditRecord, Path]:
    """Collect what is missing, then compute the record; returns it with the run's folder.

    reuse: answers that another run under `out` got to the same questions are taken over, not asked for again.
    """
    folder = out / prepared.name
    store = RunStore(folder, prepared.identity)
    if reuse:
        store.adopt(prepared.spec.batch_pairs, prepared.spec.pairs)
    collect(
        prepared.task, prepared.mechanism, prepared.pairs, prepared.model, store, prepared.spec.batch_pairs, progress,
        stop=lambda: _refuted(prepared, store), keep_text=prepared.spec.store_text == "all",
    )  # fmt: skip
    record = assemble(prepared, store.evidence(), store.calls())
    store.write("record.json", record.to_json())
    return record, folder


def _refuted(prepared: Prepared, store: RunStore) -> bool:
    """May the audit end early? Only an anytime-valid bet may say so."""
    return prepared.spec.stop_when_refuted and prepared.bet.broken(played(prepared, drawn(prepared, store.evidence())))
