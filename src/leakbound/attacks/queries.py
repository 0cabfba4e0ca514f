"""Audit queries: what the attacker sends, and what answer speaks for a member."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from leakbound._catalogue import Catalogue
from leakbound.attacks import templates
from leakbound.errors import UsageError
from leakbound.models.content import fill, images_in, join, text_only
from leakbound.tasks import Example, Query, Task

__all__ = [
    "QUERIES", "Asked", "AuditQuery", "Brainwash", "Gap", "GivenQuery", "IfThenExplicit", "IfThenImplicit", "Injection",
    "InputOutput", "Membership", "Repeat", "SignalPair",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Asked:
    """A rendered audit query; `nonmember` is the answer for absence, None where any other answer
    is.

    target: the text that a free answer gives away if it leaks (PRIVATE).
    """

    query: Query
    member: str
    nonmember: str | None
    target: str = ""


class AuditQuery(Protocol):
    """Renders the query for a canary. `rare` and `common` are the least and most frequent labels of
    the data.

    free: the answer is any text; score: the name of the score it is used with by default, "" for
    the strongest there is.
    """

    name: ClassVar[str]
    free: ClassVar[bool]
    score: ClassVar[str]

    def ask(self, canary: Example, task: Task, rare: str, common: str) -> Asked: ...


class _Choice:
    """Base of the queries whose answer is one of a given few."""

    __slots__ = ()
    free: ClassVar[bool] = False
    score: ClassVar[str] = ""
    tasks: ClassVar[str] = "any task"
    access: ClassVar[frozenset[str]] = frozenset({"black_box", "white_box"})


class _Free:
    """Base of the queries whose answer is any text."""

    __slots__ = ()
    free: ClassVar[bool] = True
    score: ClassVar[str] = "contains_canary"
    tasks: ClassVar[str] = "free answers"
    access: ClassVar[frozenset[str]] = frozenset({"black_box"})


@dataclass(frozen=True, slots=True)
class Membership(_Choice):
    """Asks whether the canary is in the context:

    yes or no (XL). The query brings its own answers.
    """

    name: ClassVar[str] = "membership"

    def ask(self, canary: Example, task: Task, rare: str, common: str) -> Asked:
        """yes speaks for a member, no against."""
        template = templates.MEMBERSHIP_IMAGE if images_in(canary.input) else templates.MEMBERSHIP
        return Asked(Query(fill(template, "{canary}", canary.input), ("yes", "no")), "yes", "no")


@dataclass(frozen=True, slots=True)
class IfThenExplicit(_Choice):
    """Asks for the rarest label if the canary is there, else for the most frequent one (CL)."""

    name: ClassVar[str] = "if_then_explicit"

    def ask(self, canary: Example, task: Task, rare: str, common: str) -> Asked:
        """The rare label speaks for a member; for a task without labels, A and B take their place."""
        return self._asked(templates.IF_THEN, canary, task, rare, common)

    def _asked(self, template: str, canary: Example, task: Task, rare: str, common: str) -> Asked:
        member, nonmember = (rare, common) if task.labels else ("A", "B")
        text = template.format(
            canary=text_only(canary.input, self.name), member=member, nonmember=nonmember
        )
        return Asked(Query(text, () if task.labels else ("A", "B")), member, nonmember)


@dataclass(frozen=True, slots=True)
class IfThenImplicit(IfThenExplicit):
    """The same without naming the canary:

    asks for the rarest label if some example does not belong there (CL).
    """

    name: ClassVar[str] = "if_then_implicit"

    def ask(self, canary: Example, task: Task, rare: str, common: str) -> Asked:
        """The canary's text is nowhere in the query."""
        return self._asked(templates.IF_THEN_IMPLICIT, canary, task, rare, common)


@dataclass(frozen=True, slots=True)
class InputOutput(_Choice):
    """Sends the canary's input as an ordinary query (CL):

    the canary's own label speaks for a member.
    """

    name: ClassVar[str] = "input_output"
    tasks: ClassVar[str] = "classification"

    def ask(self, canary: Example, task: Task, rare: str, common: str) -> Asked:
        """Needs a classification task."""
        if not task.labels:
            raise UsageError(
                "input_output needs a classification task; use membership or if_then_explicit for "
                "generation."
            )
        return Asked(Query(canary.input), canary.label, None)


@dataclass(frozen=True, slots=True)
class GivenQuery(_Choice):
    """A wording of your own: "{canary}", "{member}" and "{nonmember}" are filled in; yes and no
    unless the task has labels.

    text must hold "{canary}". `labelled`: answer with the rarest and the most frequent label of the
    data, not with yes and no.
    """

    name: ClassVar[str] = "given"
    text: str
    labelled: bool = False

    def __post_init__(self) -> None:
        if "{canary}" not in self.text:
            raise UsageError(
                "the query 'given' needs a text that holds {canary}; give it with --query-text."
            )

    def ask(self, canary: Example, task: Task, rare: str, common: str) -> Asked:
        """The text with the canary and both answers in their places."""
        labelled = self.labelled and bool(task.labels)
        member, nonmember = (rare, common) if labelled else ("yes", "no")
        text = self.text.replace("{member}", member).replace("{nonmember}", nonmember)
        return Asked(
            Query(fill(text, "{canary}", canary.input), () if labelled else ("yes", "no")),
            member,
            nonmember,
        )


@dataclass(frozen=True, slots=True)
class Gap(InputOutput):
    """Classifies the canary:

    its true label speaks for a member (GAP attack; use it with the canary natural).
    """

    name: ClassVar[str] = "gap"
    tasks: ClassVar[str] = "classification"


@dataclass(frozen=True, slots=True)
class Brainwash(_Choice):
    """Shows the canary under a wrong label again and again, then asks:

    who still says the right one has seen it (Wen et al.).
    """

    name: ClassVar[str] = "brainwash"
    tasks: ClassVar[str] = "classification"
    repeats: int = 6

    def ask(self, canary: Example, task: Task, rare: str, common: str) -> Asked:
        """The canary's own label speaks for a member; the wrong one is the most frequent other
        label.
        """
        if not task.labels:
            raise UsageError(
                "brainwash needs a classification task; use repeat or signal_pair for generation."
            )
        wrong = common if common != canary.label else rare
        block = (canary.input, f"\n{task.label_name}: {wrong}\n\n{task.input_name}: ")
        return Asked(Query(join([*block * self.repeats, canary.input])), canary.label, None)


@dataclass(frozen=True, slots=True)
class SignalPair(_Choice):
    """Asks for one of two public texts, far apart in meaning: one if the canary is there, the other
    if not (XL, for generation).

    The two texts are the answers that a release chooses from, as zero-shot answers of a model
    without examples would be.
    """

    name: ClassVar[str] = "signal_pair"
    member: str = templates.SIGNAL_MEMBER
    nonmember: str = templates.SIGNAL_NONMEMBER

    def ask(self, canary: Example, task: Task, rare: str, common: str) -> Asked:
        """The first text speaks for a member."""
        shown = text_only(canary.input, self.name)
        text = templates.IF_THEN.format(canary=shown, member=self.member, nonmember=self.nonmember)
        return Asked(Query(text, (self.member, self.nonmember)), self.member, self.nonmember)


@dataclass(frozen=True, slots=True)
class Repeat(_Free):
    """Gives the beginning of the canary and asks for the rest (Wen et al.):

    the nearer to the canary, the more a member.
    """

    name: ClassVar[str] = "repeat"
    score: ClassVar[str] = "overlap"
    share: float = 0.5

    def ask(self, canary: Example, task: Task, rare: str, common: str) -> Asked:
        """The first `share` of the canary's characters; its rest is the target."""
        told = text_only(canary.input, self.name)
        cut = max(1, round(self.share * len(told)))
        text = templates.REPEAT.format(prefix=told[:cut])
        return Asked(Query(text, free=True), "", None, told[cut:] or told)


@dataclass(frozen=True, slots=True)
class Injection(_Free):
    """Asks for all examples (prompt injection): the baseline that prompt defences stop."""

    name: ClassVar[str] = "injection"

    def ask(self, canary: Example, task: Task, rare: str, common: str) -> Asked:
        """The canary's text is the target."""
        return Asked(
            Query(templates.EXTRACT_ALL, free=True), "", None, text_only(canary.input, self.name)
        )


QUERIES: Catalogue[AuditQuery] = Catalogue(
    "the query",
    "leakbound.queries",
    (
        Membership, InputOutput, IfThenExplicit, IfThenImplicit, Gap, Brainwash, SignalPair, Repeat,
        Injection, GivenQuery,
    ),
)  # fmt: skip
