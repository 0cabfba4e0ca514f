"""FewShot and ZeroShot: the whole private context in one prompt, or nothing of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from leakbound.mechanisms.parts.single import Undefended
from leakbound.privacy import Guarantee, PureDP
from leakbound.tasks import Job


@dataclass(frozen=True, slots=True)
class FewShot(Undefended):
    """Prompts with all examples, then the query, and returns the model's answer unchanged.

    This is the non-private upper bound of every trade-off.

    Guarantee:
        None.
    """

    name: ClassVar[str] = "few_shot"


@dataclass(frozen=True, slots=True)
class ZeroShot(Undefended):
    """Prompts without examples: the zero-shot baseline of every trade-off.

    Guarantee:
        0-DP under any relation, because the answer does not depend on the context.
    """

    name: ClassVar[str] = "zero_shot"

    @property
    def guarantee(self) -> Guarantee:
        """0-DP: the context is not read."""
        return PureDP(0.0)

    def shown(self, job: Job) -> Job:
        """The query without the context."""
        return Job((), job.query)
