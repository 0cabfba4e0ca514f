"""An attack: canary, query, score and insertion; and the access that it needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from leakbound.attacks.canaries import Canary
from leakbound.attacks.queries import AuditQuery
from leakbound.attacks.scores import Score
from leakbound.errors import TargetError, UsageError
from leakbound.tasks import Access, Mechanism

Insertion = Literal["replace", "append", "add"]


@dataclass(frozen=True, slots=True)
class Attack:
    """What is inserted, what is asked, and how outputs are scored.

    Attributes:
        canary: Makes the record that is inserted.
        query: Renders what is asked, and names the answer that speaks for a member.
        score: Turns outputs into numbers, higher for members; None for the strongest score that
            the access to the system allows, which the audit chooses.
        insertion: `replace` puts the canary in place of a random example, `append` adds its
            text to the input of one (CL, Algorithm 1), `add` inserts it as one example more.

    Raises:
        UsageError: If canary or query is no such object.

    Examples:
        >>> from leakbound.attacks import Hex, Membership, PredictedMember
        >>> Attack(Hex(digits=8), Membership(), PredictedMember()).access
        'black_box'
    """

    canary: Canary
    query: AuditQuery
    score: Score | None = None
    insertion: Insertion = "replace"

    def __post_init__(self) -> None:
        _require_object("canary", self.canary, ("fit", "make"), "Hex(16)")
        _require_object("query", self.query, ("render",), "Membership()")

    @property
    def access(self) -> Access | None:
        """What the score reads: `black_box` or `white_box`; None before a score is chosen."""
        return None if self.score is None else self.score.access

    def require(self, mechanism: Mechanism) -> None:
        """Refuse, before any model call, an attack that cannot work on a mechanism.

        Raises:
            UsageError: If the score reads another kind of answer than the query asks for.
            TargetError: If the score reads what the mechanism does not release.
        """
        if self.score is None:
            return
        if self.score.free != self.query.free:
            other = self.query.score or (
                "predicted_member" if not self.query.free else "contains_canary"
            )
            kind = "a free text" if self.query.free else "one of a few answers"
            raise UsageError(
                f"the score {self.score.name} does not fit {self.query.name}, whose answer is "
                f"{kind}; use --score {other}."
            )
        if self.score.access not in mechanism.access:
            raise TargetError(
                f"the score {self.score.name} needs {self.score.access} access, and "
                f"{mechanism.name} offers only {', '.join(sorted(mechanism.access))}; "
                "use --score predicted_member."
            )


@dataclass(frozen=True, slots=True)
class ScoredAttack(Attack):
    """An attack whose score is chosen: what an audit runs."""

    score: Score

    @property
    def access(self) -> Access:
        return self.score.access


def _require_object(name: str, thing: object, methods: tuple[str, ...], such: str) -> None:
    """Enough to tell one from anything else; an audit checks every member."""
    if isinstance(thing, type) or not all(hasattr(thing, method) for method in methods):
        kind = f"the class {thing.__name__}" if isinstance(thing, type) else type(thing).__name__
        listed = " and ".join(methods)
        raise UsageError(f"{name} is {kind}; it must be an object with {listed}, such as {such}.")
