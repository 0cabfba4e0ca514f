"""Who asks the batches of an audit: an endpoint, several batches at once; a system, at its pace."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace

from leakbound.auditing.collect.collect import (
    Batch,
    Batches,
    BatchRunner,
    CollectionPlan,
    run_serial,
)
from leakbound.auditing.prepare.prepared import Prepared
from leakbound.errors import UsageError
from leakbound.models import Model
from leakbound.models.model import Concurrent, concurrent_model
from leakbound.systems import CallOptions, SystemMechanism

MOST = 64  # batches at once: each has a thread, and what is asked ahead is lost when an audit ends


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
    requests = {
        request
        for pair in plan.pairs_of(batches[len(batches) // 2])
        for job in pair.jobs
        for request in plan.mechanism.requests(plan.task, job, pair.draw)
    }
    return min(-(-endpoint.connections // max(1, len(requests))) + 1, len(batches), MOST)


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


def runner_of(prepared: Prepared, calls: CallOptions | None) -> BatchRunner:
    """Who asks the batches of an audit, in this process."""
    if calls is not None and not isinstance(calls, CallOptions):
        raise UsageError(
            f"calls is {type(calls).__name__}; it must be leakbound.systems.CallOptions, such as "
            "CallOptions(connections=8, timeout=30)."
        )
    if application := prepared.mechanism.application:
        return SystemRunner(application, calls or CallOptions())
    if calls is not None:
        raise UsageError(
            f"calls are those of a system, and {prepared.mechanism.name} asks a model; leave them "
            "out, or give a system."
        )
    return run_serial


def pace(prepared: Prepared, calls: CallOptions | None) -> Prepared:
    """An audit whose system is called in a given way wherever it is asked."""
    runner = runner_of(prepared, calls)
    return (
        replace(prepared, mechanism=runner.mechanism)
        if isinstance(runner, SystemRunner)
        else prepared
    )


class SystemRunner:
    """Asks the batches of a system; several at once where more calls are allowed than fit in
    one.
    """

    def __init__(self, mechanism: SystemMechanism, calls: CallOptions) -> None:
        self.mechanism = mechanism.called(calls)

    def __call__(self, questions: CollectionPlan, model: Model, batches: Sequence[int]) -> Batches:
        """Ask batches."""
        asked = replace(questions, mechanism=self.mechanism)
        together = max(1, self.mechanism.at_once // questions.size)
        for start in range(0, len(batches), together):
            yield from asked.ask_together(batches[start : start + together], model)

    @property
    def line(self) -> str:
        """What was tried again or never answered, in a line; "" if nothing was."""
        return self.mechanism.caller.meter.line()
