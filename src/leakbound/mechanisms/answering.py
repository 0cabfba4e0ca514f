"""What every mechanism shares: how a release is put into words, and what one answer costs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from leakbound.models import Model
from leakbound.privacy import Guarantee, calibrate_gaussian
from leakbound.tasks import Outputs, Query, Task

__all__ = ["NO_ANSWER", "Answering", "with_gaussian_noise"]

M = TypeVar("M", bound="Any")

NO_ANSWER = "(no answer)"


class Answering:
    """Base of the mechanisms whose release is a choice:

    its text is the chosen one, its price the guarantee.
    """

    __slots__ = ()
    guarantee: Any

    def decode(self, task: Task, query: Query, outputs: Outputs, model: Model) -> list[str]:
        """The chosen text of each draw; "(no answer)" where none was chosen. Asks nothing."""
        choices = (*(outputs.choices or task.answers(query)), NO_ANSWER)
        return [choices[i] for i in outputs.answers]

    def noise_in_collect(self, task: Task, query: Query) -> bool:
        """Is noise drawn, or its size used, while collecting? Then aggregates hold for these
        parameters only.
        """
        return False

    def cost(self, task: Task, query: Query) -> Guarantee:
        """The guarantee of one answer."""
        found: Guarantee = self.guarantee
        return found


def with_gaussian_noise(
    mechanism: M, epsilon: float, delta: float, method: Any = "analytic", field: str = "sigma"
) -> M:
    """The mechanism with the noise that its own sensitivity needs for (epsilon, delta)."""
    return replace(
        mechanism,
        **{field: calibrate_gaussian(epsilon, delta, mechanism.guarantee.sensitivity, method)},
    )
