"""Asking a system of the user at the pace that its operator allows; no result depends on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from leakbound.auditing.collect import Batches, CollectionPlan
from leakbound.models import Model
from leakbound.systems import CallOptions, SystemMechanism

__all__ = ["SystemRunner"]


class SystemRunner:
    """Asks the batches of a system; several at once where more calls are allowed than fit in one.

    Args:
        mechanism: The system.
        calls: Pace, time and retries of its calls.
    """

    def __init__(self, mechanism: SystemMechanism, calls: CallOptions) -> None:
        self.mechanism = mechanism.called(calls)

    def __call__(self, questions: CollectionPlan, model: Model, batches: Sequence[int]) -> Batches:
        """Ask batches.

        Args:
            questions: What the run asks.
            model: Not asked.
            batches: First pairs of the batches to ask.

        Yields:
            The batches in their order. As many are asked together as have a pair for each call
            that may be made at once; an interruption can lose them.
        """
        asked = replace(questions, mechanism=self.mechanism)
        together = max(1, self.mechanism.at_once // questions.size)
        for start in range(0, len(batches), together):
            yield from asked.ask_together(batches[start : start + together], model)

    @property
    def line(self) -> str:
        """What was tried again or never answered, in a line; "" if nothing was."""
        return self.mechanism.caller.meter.line()
