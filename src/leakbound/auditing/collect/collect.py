"""The slow side: ask the model about both contexts of every pair, batch by batch."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from leakbound.attacks import RenderedQuery
from leakbound.attacks.words import redact
from leakbound.auditing.collect.quotes import KnownRecords
from leakbound.auditing.design.pairs import LATE, OTHERS, Controls, OtherPairs, Pair
from leakbound.auditing.prepare.prepared import Prepared
from leakbound.auditing.store.run_store import EvidenceRow, RunStore
from leakbound.errors import StoreError, TargetError, UsageError
from leakbound.models import Cached, Counted, Distinct, Model
from leakbound.models.model import Concurrent, concurrent_model
from leakbound.systems import CallOptions, SystemMechanism
from leakbound.tasks import (
    Aggregate,
    AnyRequest,
    GeneratedText,
    Job,
    Mechanism,
    Task,
    reply_of,
)
from leakbound.witness import mask_reply

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Batch:
    """What was collected of a few pairs, and the model calls that it took."""

    first: int
    rows: tuple[EvidenceRow, ...]
    calls: int


@dataclass(frozen=True, slots=True, repr=False)
class CollectionPlan:
    """What a run asks, in batches of `size` pairs that always start at the same pairs (PRIVATE).

    Control pairs come first, in batches of their own; of `late`, as many others come after the last
    pair. Without `keep_text`, of a free answer only the words that the canary has are kept.
    """

    task: Task
    mechanism: Mechanism
    pairs: Sequence[Pair]
    size: int
    keep_text: bool = True
    controls: Sequence[Pair] = ()
    late: Controls | None = None
    others: tuple[OtherPairs, ...] = ()
    known: KnownRecords | None = field(default=None, compare=False)  # of an application
    _last: dict[int, tuple[Pair, ...]] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, prepared: Prepared) -> CollectionPlan:
        shape, application = prepared.spec.design, prepared.mechanism.application
        known = KnownRecords(prepared.pairs.rows, prepared.public_labels) if application else None
        return cls(
            prepared.task, prepared.mechanism, prepared.pairs, shape.batch_pairs,
            shape.store_text == "all", prepared.controls, prepared.late_controls,
            (*(one.pairs for one in prepared.others), *prepared.repeats), known,
        )  # fmt: skip

    def pairs_of(self, first: int) -> tuple[Pair, ...]:
        if first not in self._last:
            pairs = tuple(self._some(first))
            self._last.clear()
            self._last[first] = pairs
        return self._last[first]

    def _some(self, first: int) -> Sequence[Pair]:
        """Those of a batch: of the controls below 0, of the pairs from 0 on."""
        if first >= 0:
            return self.pairs[first : first + self.size]
        if (place := -(first // LATE) - OTHERS) >= 0:
            start = first % LATE
            return self.others[place][start : start + self.size]
        if first < -LATE and self.late is not None:
            shard = -first // LATE
            start = first + shard * LATE + len(self.late)
            return self.late.late(shard)[start : start + self.size]
        start = first + len(self.controls)
        return self.controls[start : start + self.size]

    def batches(self, shard: tuple[int, int] = (1, 1)) -> list[int]:
        """First pairs of every Nth batch, those of shard i of N; the first has the controls."""
        number, total = shard
        controls = range(-len(self.controls), 0, self.size) if number == 1 else ()
        return [*controls, *range((number - 1) * self.size, len(self.pairs), total * self.size)]

    def late_batches(self, shard: int = 1) -> list[int]:
        """First pairs of the control batches that follow the last pair of a shard."""
        if self.late is None:
            return []
        end = -shard * LATE
        return [*range(end - len(self.late), end, self.size)]

    def other_batches(self, wanted: Collection[OtherPairs]) -> list[int]:
        """First pairs of the batches of what is asked beside the pairs."""
        starts = ((-(OTHERS + one.place) * LATE, len(one)) for one in wanted)
        return [at for start, size in starts for at in range(start, start + size, self.size)]

    def pairs_in(self, batches: Iterable[int]) -> int:
        """How many pairs these batches have together, control pairs left out."""
        return sum(min(self.size, len(self.pairs) - first) for first in batches if first >= 0)

    def requests_of(self, first: int) -> list[AnyRequest]:
        """The distinct requests of a batch."""
        found = (
            request
            for pair in self.pairs_of(first)
            for job in pair.jobs
            for request in self.mechanism.requests(self.task, job, pair.draw)
        )
        return list(dict.fromkeys(found))

    def ask(self, first: int, model: Model) -> Batch:
        """Ask everything about the pairs of a batch; equal requests reach the model once."""
        counted = Counted(model)
        (rows,) = self._ask([self.pairs_of(first)], Distinct(counted))
        calls = sum(pair.calls for pair in self.pairs_of(first))
        return Batch(first, rows, counted.calls if self.mechanism.needs else calls)

    def ask_together(self, batches: Sequence[int], model: Model) -> list[Batch]:
        """Ask several batches of a mechanism that asks no model, all at once."""
        pairs = [self.pairs_of(first) for first in batches]
        found = zip(batches, pairs, self._ask(pairs, model), strict=True)
        return [Batch(first, rows, sum(p.calls for p in some)) for first, some, rows in found]

    def _ask(
        self, batches: Sequence[tuple[Pair, ...]], model: Model
    ) -> list[tuple[EvidenceRow, ...]]:
        pairs = [pair for some in batches for pair in some]
        jobs: list[Job] = [job for pair in pairs for job in pair.jobs]
        draws = [pair.draw for pair in pairs for _ in pair.jobs]
        answers = list(self.mechanism.collect(self.task, jobs, draws, model))
        known = self.known
        found = iter(answers if known is None else map(known.mark, jobs, draws, answers))
        return [
            tuple(self._row(pair, [next(found) for _ in pair.jobs]) for pair in some)
            for some in batches
        ]

    def _row(self, pair: Pair, found: list[Aggregate]) -> EvidenceRow:
        member, nonmember = reversed(found[:2]) if pair.out_first else found[:2]
        row = EvidenceRow(pair.index, member, nonmember, found[-1] if pair.repeat else None)
        if self.keep_text:
            return row
        hide = partial(hidden, asked=pair.asked, answers=self.task.answers(pair.asked.query))
        again = None if row.again is None else hide(row.again)
        return EvidenceRow(row.pair, hide(row.member), hide(row.nonmember), again)


Batches = Generator[Batch, None, None]
BatchRunner = Callable[[CollectionPlan, Model, Sequence[int]], Batches]


def run_serial(questions: CollectionPlan, model: Model, batches: Sequence[int]) -> Batches:
    return (questions.ask(first, model) for first in batches)


def replay_only(plan: CollectionPlan, model: Model, batches: Sequence[int]) -> Batches:
    """Refuse to call a model: a replayed audit finds its outputs in its run."""
    raise StoreError(
        f"{len(batches)} of {len(plan.batches())} batches are not kept, and --replay asks no "
        "model; run the audit without it, or give the --cache that has their answers."
    )


def collect(
    plan: CollectionPlan,
    model: Model,
    store: RunStore,
    shard: tuple[int, int] = (1, 1),
    ask: BatchRunner = run_serial,
    progress: Progress = lambda done, total: None,
    stop: Callable[[], bool] = lambda: False,
) -> bool:
    """Collect the batches that the store lacks, in the shard's part of the run; were there any?"""
    mine, stored = plan.batches(shard), store.batches()
    missing = [first for first in mine if first not in stored]
    done, total = plan.pairs_in(mine) - plan.pairs_in(missing), plan.pairs_in(mine)
    progress(done, total)
    controls = {first for first in missing if first < 0}  # asked whenever the trials end
    wanted = missing if not stop() else sorted(controls)
    for batch in _run_batches(ask, plan, model, wanted):
        store.add(batch.first, batch.rows, batch.calls)
        controls.discard(batch.first)
        done += plan.pairs_in([batch.first])
        progress(done, total)
        if not controls and stop():
            return True
    if stop():
        return bool(wanted)
    left = [] if store.has_result and not missing else late_left(plan, store, shard)
    # what late controls are asked of: a cache answers them where it answered every pair, from
    # what it was told after these
    later = model.later(missing == mine) if isinstance(model, Cached) else model
    for batch in _run_batches(ask, plan, later, left):
        store.add(batch.first, batch.rows, batch.calls)
    return bool(wanted or left)


def collect_others(
    plan: CollectionPlan, wanted: Collection[OtherPairs], model: Model, store: RunStore,
    ask: BatchRunner = run_serial,
) -> bool:  # fmt: skip
    """Collect what the store lacks of those that are wanted, until the system fails; any?"""
    stored = store.batches()
    missing = [first for first in plan.other_batches(wanted) if first not in stored]
    with suppress(TargetError):
        for batch in _run_batches(ask, plan, model, missing):
            store.add(batch.first, batch.rows, batch.calls)
    return bool(missing)


def late_left(questions: CollectionPlan, store: RunStore, shard: tuple[int, int]) -> list[int]:
    """Late controls still to be asked: those that were stored before the last pair say nothing."""
    stored, (number, total) = store.order(), shard
    last = max((stored[first] for first in questions.batches(shard) if first in stored), default=0)
    while any(stored.get(first, last) < last for first in questions.late_batches(number)):
        number += total
    return [first for first in questions.late_batches(number) if first not in stored]


def _run_batches(
    ask: BatchRunner, questions: CollectionPlan, model: Model, batches: Sequence[int]
) -> Iterator[Batch]:
    """The batches as they come; what is under way is given up when nobody takes more."""
    if batches:
        with closing(ask(questions, model, batches)) as found:
            yield from found


def hidden(aggregate: Aggregate, asked: RenderedQuery, answers: tuple[str, ...]) -> Aggregate:
    """Blot out everything of a free answer that has nothing of the canary in it."""
    seen = reply_of(aggregate)
    kept = None if seen is None else mask_reply(seen, asked.target, answers)
    channels = {name: _hidden_text(one, asked) for name, one in aggregate.channels.items()}
    if isinstance(aggregate, GeneratedText):
        aggregate = GeneratedText(asked.kept(aggregate.text))
    return replace(aggregate, reply=kept, channels=channels)


def _hidden_text(found: GeneratedText, asked: RenderedQuery) -> GeneratedText:
    """What may be kept of the text of a channel: what its one score reads, and the witness."""
    seen = reply_of(found)
    kept = None if seen is None else mask_reply(seen, asked.target)
    return GeneratedText(redact(found.text, asked.target), reply=kept)


MOST_AT_ONCE = (
    64  # batches at once: each has a thread, and what is asked ahead is lost when an audit ends
)


def run_ahead(plan: CollectionPlan, model: Model, batches: Sequence[int]) -> Batches:
    """Ask as many batches at once as the connections of an endpoint have room for."""
    endpoint = concurrent_model(model)
    many = 1 if endpoint is None else _at_once(plan, endpoint, batches)
    if endpoint is None or many == 1:
        yield from run_serial(plan, model, batches)
        return
    asked = _Ahead(plan, model, batches, many)
    try:
        for first in batches:
            yield asked.batch(first)
    finally:
        if asked.end():
            endpoint.close()


def _at_once(plan: CollectionPlan, endpoint: Concurrent, batches: Sequence[int]) -> int:
    """Batches whose requests fill the connections, and one that waits behind them."""
    if len(batches) < 2 or endpoint.connections == 1:
        return 1
    requests = plan.requests_of(batches[len(batches) // 2])
    return min(-(-endpoint.connections // max(1, len(requests))) + 1, len(batches), MOST_AT_ONCE)


class _Ahead:
    """Threads that ask batches in their order, and at most so many ahead of who reads them."""

    def __init__(
        self, plan: CollectionPlan, model: Model, batches: Sequence[int], many: int
    ) -> None:
        self._plan, self._model = plan, model
        self._waiting = deque(batches)
        self._found: dict[int, Future[Batch]] = {first: Future() for first in batches}
        self._room = threading.Semaphore(many)
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(many)]
        for thread in self._threads:
            thread.start()

    def batch(self, first: int) -> Batch:
        """Wait for a batch; raises what asking it has raised."""
        found = self._found[first].result()  # stays there while a thread may yet look it up
        del self._found[first]
        self._room.release()
        return found

    def end(self) -> bool:
        """Take no more batches; returns whether some are still asked."""
        self._waiting.clear()
        for _ in self._threads:
            self._room.release()
        return any(not future.done() for future in self._found.values() if future.running())

    def _work(self) -> None:
        plan = replace(self._plan, _last={})  # keeps its last batch for one thread
        while self._room.acquire() and self._waiting:
            try:
                first = self._waiting.popleft()
            except IndexError:
                return
            future = self._found[first]
            future.set_running_or_notify_cancel()
            try:
                future.set_result(plan.ask(first, self._model))
            except BaseException as error:
                self._waiting.clear()
                future.set_exception(error)


def runner_of(
    prepared: Prepared, calls: CallOptions | None, out: Path | None = None
) -> BatchRunner:
    if calls is not None and not isinstance(calls, CallOptions):
        raise UsageError(
            f"calls is {type(calls).__name__}; it must be leakbound.systems.CallOptions, such as "
            "CallOptions(connections=8, timeout=30)."
        )
    if application := prepared.mechanism.application:
        made = calls or CallOptions()
        made = made if out is None else made.kept_at(prepared.folder(out))
        return SystemRunner(application, made)
    if calls is not None:
        raise UsageError(
            f"calls are those of a system, and {prepared.mechanism.name} asks a model; leave them "
            "out, or give a system."
        )
    return run_serial


class SystemRunner:
    """Asks the batches of a system; several at once where one has fewer calls than allowed."""

    def __init__(self, mechanism: SystemMechanism, calls: CallOptions) -> None:
        self.mechanism = mechanism.called(calls)

    def __call__(self, questions: CollectionPlan, model: Model, batches: Sequence[int]) -> Batches:
        asked = replace(questions, mechanism=self.mechanism)
        together = max(1, self.mechanism.at_once // questions.size)
        for start in range(0, len(batches), together):
            yield from asked.ask_together(batches[start : start + together], model)

    @property
    def line(self) -> str:
        """What was tried again or never answered, in a line; "" if nothing was."""
        return self.mechanism.caller.meter.line()
