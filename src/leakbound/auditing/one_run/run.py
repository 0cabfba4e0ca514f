"""One run from its design to its result; the same call resumes an interrupted run."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from leakbound.auditing.collect.collect import hidden
from leakbound.auditing.one_run.design import PlantedCanary
from leakbound.auditing.one_run.prepare import PreparedOneRun
from leakbound.auditing.one_run.result import assemble_one_run, build_of
from leakbound.auditing.result.audit_result import AuditResult
from leakbound.auditing.store.prior_results import PriorResults
from leakbound.auditing.store.run_store import EvidenceRow, RunStore
from leakbound.errors import LeakboundError, StoreError, TargetError, UsageError
from leakbound.models import Scripted
from leakbound.systems import (
    OneSession,
    SystemMechanism,
    filled_store,
    require_store,
)
from leakbound.tasks import Aggregate, Vector

Progress = Callable[[int, int], None]


def run_one_run(
    prepared: PreparedOneRun,
    out: Path,
    progress: Progress = lambda done, total: None,
    replay: bool = False,
    reuse: bool = True,
) -> tuple[AuditResult, Path]:
    """Plant the canaries, ask what is missing, and compute the result."""
    store, prior = RunStore.open(
        prepared.folder(out),
        prepared.manifest,
        reuse,
        require=partial(_require_same_size, prepared),
    )
    size, stored = prepared.spec.design.batch_pairs, store.batches()
    missing = [first for first in prepared.design.batches(size) if first not in stored]
    if missing and replay:
        raise StoreError(
            f"{len(missing)} batches are not kept, and --replay asks nothing; run the audit "
            "without it."
        )
    if missing:
        with closing(_ask(prepared, store, missing)) as batches:
            _store(prepared, store, batches, progress)
    result = assemble_one_run(prepared, store, prior)
    result.know_data(prepared.data)
    if prior.day and not missing:
        result.know_stored(prior.day)
    store.finish(len(prepared.design.canaries), result.to_json())
    return result, store.folder


def _require_same_size(prepared: PreparedOneRun, prior: PriorResults) -> None:
    """Refuse earlier results from another number of the same canaries."""
    canaries = len(prepared.design.canaries)
    if sizes := prior.other_sizes(canaries):
        raise UsageError(
            "one_run needs a number of canaries that is fixed before any result is seen; it is "
            f"{canaries} here, and a result was computed from {sizes[0]} of these canaries before. "
            "Use another --seed, which plants other canaries by other coins."
        )


def _store(
    prepared: PreparedOneRun, store: RunStore, batches: Iterator[tuple[int, list[EvidenceRow]]],
    progress: Progress,
) -> None:  # fmt: skip
    done = sum(prepared.design.calls(row.pair) for row in _every(store))
    progress(done, prepared.answers)
    for first, rows in batches:
        calls = sum(prepared.design.calls(row.pair) for row in rows)
        store.add(first, rows, calls)
        done += calls
        progress(done, prepared.answers)


def _ask(
    prepared: PreparedOneRun, store: RunStore, missing: Sequence[int]
) -> Generator[tuple[int, list[EvidenceRow]], None, None]:
    """Batches as they are answered, from a store that is built once for all of them."""
    build = 1 + max((build_of(row) for row in _every(store)), default=0)
    size = prepared.spec.design.batch_pairs
    with _open(prepared) as mechanism:
        for first in missing:
            jobs = prepared.design.jobs(first, size)
            found = mechanism.collect(prepared.task, jobs, range(len(jobs)), Scripted())
            batch = prepared.design.batch(first, size)
            yield (
                first,
                [
                    _row(prepared, one, answer, build)
                    for one, answer in zip(batch, found, strict=True)
                ],
            )


def _every(store: RunStore) -> list[EvidenceRow]:
    return [*store.controls(), *store.evidence()]


def _row(
    prepared: PreparedOneRun, canary: PlantedCanary, answer: Aggregate, build: int
) -> EvidenceRow:
    """The answer as it may be kept; in place of a second context, the coin and the build."""
    if prepared.spec.design.store_text != "all":
        answer = hidden(answer, canary.asked, prepared.task.answers(canary.asked.query))
    return EvidenceRow(canary.index, answer, Vector((float(canary.planted), float(build))))


@contextmanager
def _open(prepared: PreparedOneRun) -> Iterator[SystemMechanism]:
    """The store with its canaries in place. An error of it is named by its type only."""
    mechanism, design = prepared.mechanism, prepared.design
    store = require_store(mechanism.system, mechanism.name)
    try:
        with filled_store(
            store, design.records, design.documents, mechanism.calls, mechanism.name
        ) as session:
            yield replace(mechanism, system=OneSession(session))
    except LeakboundError:
        raise
    except (Exception, SystemExit) as error:
        raise TargetError(
            f"the store {mechanism.name!r} raised {type(error).__name__} while records were put "
            "in or taken out; call its plant, open and remove by themselves to see why."
        ) from None
