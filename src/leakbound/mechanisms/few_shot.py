"""FewShot and ZeroShot: the whole private context in one prompt, or none of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from leakbound.mechanisms.single import Undefended
from leakbound.privacy import Guarantee, PureDP
from leakbound.tasks import Job

__all__ = ["FewShot", "ZeroShot"]


@dataclass(frozen=True, slots=True)
class FewShot(Undefended):
    """All examples, then the query; the model's answer is released as it is.

    The non-private upper bound of every trade-off.

    Guarantee:
        None.
    """

    name: ClassVar[str] = "few_shot"


@dataclass(frozen=True, slots=True)
class ZeroShot(Undefended):
    """No example at all: the zero-shot baseline of every trade-off.

    Guarantee:
        0-DP under any relation: the answer does not depend on the context.
    """

    name: ClassVar[str] = "zero_shot"

    @property
    def guarantee(self) -> Guarantee:
        """0-DP: the context is not read."""
        return PureDP(0.0)

    def shown(self, job: Job) -> Job:
        """The query alone.

        Args:
            job: Context (PRIVATE) and query.

        Returns:
            The query over an empty context.
        """
        return Job((), job.query)
