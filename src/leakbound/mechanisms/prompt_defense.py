"""PromptDefense: FewShot behind a system instruction that forbids leaking (CL, L1 and L2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from leakbound.errors import UsageError
from leakbound.mechanisms.parts.single import Undefended
from leakbound.mechanisms.parts.wording import L1, L2


@dataclass(frozen=True, slots=True)
class PromptDefense(Undefended):
    """Adds a preamble before the examples that forbids the model to reveal them.

    Attributes:
        level: Strength of the preamble, 1 or 2.
        text: Text of the preamble. If empty, the wording of this package is used.

    Raises:
        UsageError: If the level is not 1 or 2.

    Guarantee:
        None.

    Reference:
        CL, defence levels L1 and L2.
    """

    name: ClassVar[str] = "prompt_defense"
    level: int = 1
    text: str = ""

    def __post_init__(self) -> None:
        if self.level not in (1, 2):
            raise UsageError(f"the level of a prompt defence is {self.level!r}; it must be 1 or 2.")

    def preamble(self) -> str:
        """The instruction that is used."""
        return self.text or (L1, L2)[self.level - 1]
