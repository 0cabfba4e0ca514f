"""Audit queries: what the attacker sends, and what answer speaks for a member."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from contextleak.attacks import templates
from contextleak.errors import UsageError
from contextleak.icl import Exemplar, Query, Task

__all__ = ["QUERIES", "Asked", "AuditQuery", "GivenQuery", "IfThenExplicit", "InputOutput", "Inquiry"]


@dataclass(frozen=True, slots=True)
class Asked:
    """A rendered audit query; `nonmember` is the answer for absence, None where any other answer is."""

    query: Query
    member: str
    nonmember: str | None


class AuditQuery(Protocol):
    """Renders the query for a canary. `rare` and `common` are the least and most frequent labels of the data."""

    name: ClassVar[str]

    def ask(self, canary: Exemplar, task: Task, rare: str, common: str) -> Asked: ...


@dataclass(frozen=True, slots=True)
class Inquiry:
    """Asks whether the canary is in the context: yes or no (XL). The query brings its own answers."""

    name: ClassVar[str] = "inquiry"

    def ask(self, canary: Exemplar, task: Task, rare: str, common: str) -> Asked:
        """yes speaks for a member, no against."""
        return Asked(Query(templates.INQUIRY.format(canary=canary.input), ("yes", "no")), "yes", "no")


@dataclass(frozen=True, slots=True)
class IfThenExplicit:
    """Asks for the rarest label if the canary is there, else for the most frequent one (CL)."""

    name: ClassVar[str] = "if_then_explicit"

    def ask(self, canary: Exemplar, task: Task, rare: str, common: str) -> Asked:
        """The rare label speaks for a member; for a task without labels, A and B take their place."""
        member, nonmember = (rare, common) if task.labels else ("A", "B")
        text = templates.IF_THEN.format(canary=canary.input, member=member, nonmember=nonmember)
        return Asked(Query(text, () if task.labels else ("A", "B")), member, nonmember)


@dataclass(frozen=True, slots=True)
class InputOutput:
    """Sends the canary's input as an ordinary query (CL): the canary's own label speaks for a member."""

    name: ClassVar[str] = "input_output"

    def ask(self, canary: Exemplar, task: Task, rare: str, common: str) -> Asked:
        """Needs a classification task."""
        if not task.labels:
            raise UsageError(
                "input_output needs a classification task; use inquiry or if_then_explicit for generation."
            )
        return Asked(Query(canary.input), canary.label, None)


@dataclass(frozen=True, slots=True)
class GivenQuery:
    """A wording of your own: "{canary}", "{member}" and "{nonmember}" are filled in; yes and no unless the task has labels.

    text must hold "{canary}". `labelled`: answer with the rarest and the most frequent label of the data, not with yes and no.
    """

    name: ClassVar[str] = "given"
    text: str
    labelled: bool = False

    def __post_init__(self) -> None:
        if "{canary}" not in self.text:
            raise UsageError("the query 'given' needs a text that holds {canary}; give it with --query-text.")

    def ask(self, canary: Exemplar, task: Task, rare: str, common: str) -> Asked:
        """The text with the canary and both answers in their places."""
        labelled = self.labelled and bool(task.labels)
        member, nonmember = (rare, common) if labelled else ("yes", "no")
        text = self.text
        for name, value in (("{canary}", canary.input), ("{member}", member), ("{nonmember}", nonmember)):
            text = text.replace(name, value)
        return Asked(Query(text, () if labelled else ("yes", "no")), member, nonmember)


QUERIES: dict[str, type] = {kind.name: kind for kind in (Inquiry, InputOutput, IfThenExplicit, GivenQuery)}
