"""An attack: canary, audit query, score; and the access it needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from leakbound.attacks.canaries import Canary
from leakbound.attacks.queries import AuditQuery
from leakbound.attacks.scores import Score
from leakbound.errors import TargetError, UsageError
from leakbound.tasks import Access, Mechanism

__all__ = ["Attack", "Insertion"]

Insertion = Literal["replace", "append", "add"]


@dataclass(frozen=True, slots=True)
class Attack:
    """`replace` puts the canary in the place of a random example; `append` adds its text to one's
    input (CL Alg. 1).
    """

    canary: Canary
    query: AuditQuery
    score: Score
    insertion: Insertion = "replace"

    @property
    def access(self) -> Access:
        """What its score reads."""
        return self.score.access

    def require(self, mechanism: Mechanism) -> None:
        """Refuse, before any model call, an attack that reads what the system does not release, or
        scores another kind of answer.
        """
        if self.score.free != self.query.free:
            other = self.query.score or (
                "predicted_member" if not self.query.free else "contains_canary"
            )
            kind = "a free text" if self.query.free else "one of a few answers"
            raise UsageError(
                f"the score {self.score.name} does not fit {self.query.name}, whose answer is "
                f"{kind}; use --score {other}."
            )
        if self.access not in mechanism.access:
            raise TargetError(
                f"the score {self.score.name} needs {self.access} access, and {mechanism.name} "
                "offers only "
                f"{', '.join(sorted(mechanism.access))}; use --score predicted_member."
            )
