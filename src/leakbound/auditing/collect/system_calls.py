"""Calls of a system of the user at the pace that its operator allows; no result depends on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from leakbound.auditing.collect.collect import Batches, BatchRunner, CollectionPlan, run_serial
from leakbound.auditing.prepare.prepared import Prepared
from leakbound.errors import UsageError
from leakbound.models import Model
from leakbound.systems import CallOptions, SystemMechanism


def runner_of(prepared: Prepared, calls: CallOptions | None) -> BatchRunner:
    """Who asks the batches of an audit, in this process."""
    if calls is not None and not isinstance(calls, CallOptions):
        raise UsageError(
            f"calls is {type(calls).__name__}; it must be leakbound.systems.CallOptions, such as "
            "CallOptions(connections=8, timeout=30)."
        )
    if isinstance(prepared.mechanism, SystemMechanism):
        return SystemRunner(prepared.mechanism, calls or CallOptions())
    if calls is not None:
        raise UsageError(
            f"calls are those of a system, and {prepared.mechanism.name} asks a model; leave them "
            "out, or give a system."
        )
    return run_serial


def paced(prepared: Prepared, calls: CallOptions | None) -> Prepared:
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
