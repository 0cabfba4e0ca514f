"""Audit queries: what the attacker sends, and which answer speaks for a member.

Their fields are their options. A wording of your own takes the place of `template`; where the
canary and the answers stand in it is written {canary}, {member} and {nonmember}.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from leakbound._catalogue import Catalogue
from leakbound._check import whole
from leakbound.attacks import templates
from leakbound.attacks.protocols import AuditQuery, RenderedQuery
from leakbound.attacks.retrieval import (
    Differential,
    Extraction,
    GrowingPrefixes,
    Interrogation,
    MaskedWords,
    SecondHalf,
)
from leakbound.attacks.templates import TemplateQuery, check_template, fill_template
from leakbound.errors import UsageError
from leakbound.models.content import Content, images_in, join, text_only
from leakbound.tasks import Example, Query, Task

__all__ = [
    "QUERIES", "AuditQuery", "Brainwash", "Differential", "EitherText", "Extraction", "Gap",
    "GivenQuery", "GrowingPrefixes", "IfThenExplicit", "IfThenImplicit", "Injection",
    "InputOutput", "Interrogation", "Lookup", "MaskedWords", "Membership", "Recall",
    "RenderedQuery", "Repeat", "SecondHalf", "SignalPair", "ZeroShotSignals",
]  # fmt: skip


def _yes_or_no(template: str, values: Mapping[str, Content]) -> RenderedQuery:
    """Yes speaks for a member, no against."""
    return RenderedQuery(Query(fill_template(template, values), ("yes", "no")), "yes", "no")


@dataclass(frozen=True, slots=True)
class Membership(TemplateQuery):
    """Asks whether the canary is in the context: yes speaks for a member, no against.

    The query brings its own answers.

    Attributes:
        template: Wording for a canary that is a text; must hold {canary}.
        image_template: Wording for a canary that is an image; must hold {canary}.

    Reference:
        XL.

    Examples:
        >>> task = Task("mail", ("work", "home"))
        >>> found = Membership("Is {canary} up there?").render(Example("x", "work"), task, "", "")
        >>> found.query.text, found.member, found.nonmember
        ('Is x up there?', 'yes', 'no')
    """

    name: ClassVar[str] = "membership"
    template: str = templates.MEMBERSHIP
    image_template: str = templates.MEMBERSHIP_IMAGE

    def __post_init__(self) -> None:
        for template in (self.template, self.image_template):
            check_template(self.name, template, self.places)

    def render(self, canary: Example, task: Task, rare: str, common: str) -> RenderedQuery:
        template = self.image_template if images_in(canary.input) else self.template
        return _yes_or_no(template, {"canary": canary.input})


@dataclass(frozen=True, slots=True)
class EitherText(TemplateQuery):
    """Asks whether the canary or a second text is in the context: yes speaks for a member.

    For data that cannot hold copies of the canary, such as a live store: where the second text
    stands in about half of the partitions, one partition decides. It needs a model that says yes to
    the second text alone, as the pocket model does. One that does not votes as if only the canary
    were asked about; the audit then says so.

    Attributes:
        other: The second text, which stands in about half of the partitions.
        template: Wording; must hold {canary} and {other}.

    Raises:
        UsageError: If there is no second text.

    Examples:
        >>> query = EitherText("Ann", "Is {canary} or {other} there?")
        >>> query.render(Example("Bob", "x"), Task("note"), "", "").query.text
        'Is Bob or Ann there?'
    """

    name: ClassVar[str] = "either_text"
    places: ClassVar[tuple[str, ...]] = ("canary", "other")
    other: str = ""
    template: str = templates.EITHER

    def __post_init__(self) -> None:
        TemplateQuery.__post_init__(self)
        if not self.other.strip():
            raise UsageError(
                "the query either_text needs a second text, which stands in about half of the "
                "partitions; write it as either_text:other=TEXT."
            )

    @property
    def second_text(self) -> str:
        return self.other

    def render(self, canary: Example, task: Task, rare: str, common: str) -> RenderedQuery:
        values = {"canary": text_only(canary.input, self.name), "other": self.other}
        return _yes_or_no(self.template, values)


@dataclass(frozen=True, slots=True)
class Lookup(TemplateQuery):
    """Shows the canary first, and asks whether it is among the documents of a store.

    A store answers from the records that it finds, so what it finds has to depend on the canary.
    Yes speaks for a member, no against.

    Attributes:
        template: Wording; must hold {canary}.

    Examples:
        >>> query = Lookup("{canary} - known?")
        >>> query.render(Example("Ann", ""), Task("notes"), "", "").query.text
        'Ann - known?'
    """

    name: ClassVar[str] = "lookup"
    tasks: ClassVar[str] = "stores, memories"
    template: str = templates.LOOKUP

    def render(self, canary: Example, task: Task, rare: str, common: str) -> RenderedQuery:
        return _yes_or_no(self.template, {"canary": text_only(canary.input, self.name)})


@dataclass(frozen=True, slots=True)
class IfThenExplicit(TemplateQuery):
    """Asks for the rarest label if the canary is there, else for the most frequent one.

    For generation it asks for the canary itself, else for another text.

    Attributes:
        template: Wording; must hold {canary}, {member} and {nonmember}.
        repeat_canary: Whether to ask for the canary itself although the task has labels.
        otherwise: The text that speaks against a member where the canary itself is asked for.

    Raises:
        UsageError: If `otherwise` is empty.

    Reference:
        CL, Section 3.2.

    Examples:
        >>> query = IfThenExplicit(otherwise="nothing").render(
        ...     Example("beef", ""), Task("note"), "", ""
        ... )
        >>> query.member, query.nonmember
        ('beef', 'nothing')
    """

    name: ClassVar[str] = "if_then_explicit"
    places: ClassVar[tuple[str, ...]] = ("canary", "member", "nonmember")
    template: str = templates.IF_THEN
    repeat_canary: bool = False
    otherwise: str = templates.SIGNAL_NONMEMBER

    def __post_init__(self) -> None:
        TemplateQuery.__post_init__(self)
        if not self.otherwise.strip():
            raise UsageError(
                f"the text otherwise of the query {self.name} is empty; it must be a text that is "
                "no canary."
            )

    def render(self, canary: Example, task: Task, rare: str, common: str) -> RenderedQuery:
        text = text_only(canary.input, self.name)
        if not self.repeat_canary and task.labels:
            return _either(self.template, text, True, (rare, common))
        return _either(self.template, text, False, (text, self.otherwise))


@dataclass(frozen=True, slots=True)
class IfThenImplicit(TemplateQuery):
    """Asks for the rarest label if some example does not belong there, without naming the canary.

    For a task without labels, A and B take the place of the labels.

    Attributes:
        template: Wording; must hold {member} and {nonmember}, and may not hold {canary}.

    Reference:
        CL.
    """

    name: ClassVar[str] = "if_then_implicit"
    places: ClassVar[tuple[str, ...]] = ("member", "nonmember")
    template: str = templates.IF_THEN_IMPLICIT

    def render(self, canary: Example, task: Task, rare: str, common: str) -> RenderedQuery:
        text, labelled = text_only(canary.input, self.name), bool(task.labels)
        return _either(self.template, text, labelled, (rare, common) if labelled else ("A", "B"))


def _either(
    template: str, canary: Content, labelled: bool, answers: tuple[str, str]
) -> RenderedQuery:
    """The first of two answers, which are labels of the task or given, speaks for a member."""
    values = {"canary": canary, "member": answers[0], "nonmember": answers[1]}
    query = Query(fill_template(template, values), () if labelled else answers)
    return RenderedQuery(query, *answers)


@dataclass(frozen=True, slots=True)
class InputOutput(TemplateQuery):
    """Sends the canary's input as an ordinary query: its own label speaks for a member.

    Attributes:
        exact: Whether to ask if exactly this text is in the examples, yes or no, as the wording of
            CL does, whose labels 1 and 0 say presence and absence. An application that classifies
            whatever it gets is asked without.
        template: That wording; must hold {canary}.

    Reference:
        CL, Section 3.2; the wording of `exact` follows its Appendix A.5.
    """

    name: ClassVar[str] = "input_output"
    tasks: ClassVar[str] = "classification"
    exact: bool = False
    template: str = templates.INPUT_OUTPUT

    def render(self, canary: Example, task: Task, rare: str, common: str) -> RenderedQuery:
        if self.exact:
            return _yes_or_no(self.template, {"canary": canary.input})
        return _classify(self.name, canary, task)


@dataclass(frozen=True, slots=True)
class Gap(AuditQuery):
    """Classifies the canary: its true label speaks for a member. Use it with the canary natural.

    Reference:
        Yeom, Giacomelli, Fredrikson and Jha (CSF 2018); Wen et al. (CCS 2024).
    """

    name: ClassVar[str] = "gap"
    tasks: ClassVar[str] = "classification"

    def render(self, canary: Example, task: Task, rare: str, common: str) -> RenderedQuery:
        return _classify(self.name, canary, task)


def _classify(query: str, canary: Example, task: Task) -> RenderedQuery:
    """The input of the canary, whose label speaks for a member."""
    if not task.labels:
        raise UsageError(
            f"{query} needs a classification task; use membership or if_then_explicit for "
            "generation."
        )
    return RenderedQuery(Query(canary.input), canary.label, None)


@dataclass(frozen=True, slots=True)
class GivenQuery(AuditQuery):
    """A wording of your own.

    Attributes:
        text: The wording; must hold {canary}, and may hold {member} and {nonmember}.
        labelled: Whether to ask for the rarest and the most frequent label of the data, not for
            yes and no.

    Raises:
        UsageError: If the text lacks {canary}.
    """

    name: ClassVar[str] = "given"
    text: str = ""
    labelled: bool = False

    def __post_init__(self) -> None:
        if "{canary}" not in self.text:
            raise UsageError(
                "the query 'given' needs a text that holds {canary}; write it as given:text=TEXT."
            )

    def render(self, canary: Example, task: Task, rare: str, common: str) -> RenderedQuery:
        labelled = self.labelled and bool(task.labels)
        answers = (rare, common) if labelled else ("yes", "no")
        return _either(self.text, canary.input, labelled, answers)


@dataclass(frozen=True, slots=True)
class Brainwash(AuditQuery):
    """Shows the canary under a wrong label again and again, then asks for its label.

    Who still gives the right one has seen it. The wrong label is the most frequent one, or the
    rarest where that is the canary's own.

    Attributes:
        repeats: How often the wrong label is shown, at least 0.

    Reference:
        Wen et al., "Membership inference attacks against in-context learning" (CCS 2024); CL takes
        6 repeats.
    """

    name: ClassVar[str] = "brainwash"
    tasks: ClassVar[str] = "classification"
    repeats: int = 6

    def __post_init__(self) -> None:
        whole("repeats of the query brainwash", self.repeats, 0)

    def render(self, canary: Example, task: Task, rare: str, common: str) -> RenderedQuery:
        if not task.labels:
            raise UsageError(
                "brainwash needs a classification task; use repeat or signal_pair for generation."
            )
        wrong = common if common != canary.label else rare
        block = (canary.input, f"\n{task.label_name}: {wrong}\n\n{task.input_name}: ")
        text = join([*block * self.repeats, canary.input])
        return RenderedQuery(Query(text), canary.label, None)


@dataclass(frozen=True, slots=True)
class SignalPair(TemplateQuery):
    """Asks for one of two public texts, far apart in meaning: one if the canary is there.

    The two texts are the answers that a mechanism chooses from. Where it chooses from zero-shot
    answers of the model, ask with `zero_shot_signals`.

    Attributes:
        member: y1, the text that speaks for a member.
        nonmember: y0, the text that speaks against.
        template: Wording; must hold {canary}, {member} and {nonmember}.

    Raises:
        UsageError: If both texts are the same or one is empty.

    Reference:
        XL, Section 3.4, the white-box query for generation.
    """

    name: ClassVar[str] = "signal_pair"
    places: ClassVar[tuple[str, ...]] = ("canary", "member", "nonmember")
    member: str = templates.SIGNAL_MEMBER
    nonmember: str = templates.SIGNAL_NONMEMBER
    template: str = templates.IF_THEN

    def __post_init__(self) -> None:
        TemplateQuery.__post_init__(self)
        if not self.member.strip() or not self.nonmember.strip() or self.member == self.nonmember:
            raise UsageError(
                f"the texts of the query {self.name} are {self.member!r} and {self.nonmember!r}; "
                "they must be two different texts."
            )

    def render(self, canary: Example, task: Task, rare: str, common: str) -> RenderedQuery:
        shown = text_only(canary.input, self.name)
        return _either(self.template, shown, False, (self.member, self.nonmember))


@dataclass(frozen=True, slots=True)
class ZeroShotSignals(SignalPair):
    """As `signal_pair`, of a system that releases a zero-shot answer of its model.

    A model without examples is told to pick one of the two texts at random, so that both are among
    the candidates, and the text that is released tells what the examples said. Where the model
    always picks the same text, nothing is told: XL finds an epsilon of 0 then. An answer that holds
    the first text speaks for a member.

    Attributes:
        member: y1, the text that speaks for a member.
        nonmember: y0, the text that speaks against.
        template: Wording; must hold {canary}, {member} and {nonmember}.

    Reference:
        XL, Section 3.4 and Prompt 3, the black-box query for generation.

    Examples:
        >>> query = ZeroShotSignals().render(Example("beef", ""), Task("note"), "", "")
        >>> query.query.free, query.target == templates.SIGNAL_MEMBER
        (True, True)
    """

    name: ClassVar[str] = "zero_shot_signals"
    free: ClassVar[bool] = True
    score: ClassVar[str] = "contains_canary"
    template: str = templates.IF_THEN + templates.PICK_ONE

    def render(self, canary: Example, task: Task, rare: str, common: str) -> RenderedQuery:
        asked = SignalPair.render(self, canary, task, rare, common)
        return _free(asked.query.text, self.member)


def _free(text: Content, target: str) -> RenderedQuery:
    """An answer that holds the target speaks for a member."""
    return RenderedQuery(Query(text, free=True), "", None, target)


class _FreeQuery(TemplateQuery):
    """A query whose answer is any text."""

    __slots__ = ()
    free: ClassVar[bool] = True
    asks: ClassVar[Literal["membership", "text"]] = "text"
    score: ClassVar[str] = "contains_canary"
    tasks: ClassVar[str] = "free answers"


@dataclass(frozen=True, slots=True)
class Repeat(_FreeQuery):
    """Gives the beginning of the canary and asks for the rest, which is the target.

    The nearer the answer is to the rest, the more it speaks for a member.

    Attributes:
        share: Share of the canary's characters that is given, in (0, 1).
        template: Wording; must hold {prefix}.

    Reference:
        Wen et al. (CCS 2024).
    """

    name: ClassVar[str] = "repeat"
    score: ClassVar[str] = "overlap"
    places: ClassVar[tuple[str, ...]] = ("prefix",)
    share: float = 0.5
    template: str = templates.REPEAT

    def __post_init__(self) -> None:
        TemplateQuery.__post_init__(self)
        if not 0 < self.share < 1:
            raise UsageError(
                f"share of the query repeat is {self.share}; it must be above 0 and below 1."
            )

    def render(self, canary: Example, task: Task, rare: str, common: str) -> RenderedQuery:
        whole = text_only(canary.input, self.name)
        cut = max(1, round(self.share * len(whole)))
        return _free(fill_template(self.template, {"prefix": whole[:cut]}), whole[cut:] or whole)


@dataclass(frozen=True, slots=True)
class Recall(_FreeQuery):
    """Gives the first words of the canary and asks for its end; its last word is the target.

    Attributes:
        words: Words of the canary that are given, at least 1; never the last one.
        template: Wording; must hold {prefix}.

    Examples:
        >>> task = Task("notes")
        >>> found = Recall(2, "{prefix} ...?").render(Example("a b c d", ""), task, "", "")
        >>> found.query.text, found.target
        ('a b ...?', 'd')
    """

    name: ClassVar[str] = "recall"
    tasks: ClassVar[str] = "stores, memories"
    places: ClassVar[tuple[str, ...]] = ("prefix",)
    least: ClassVar[Mapping[str, int]] = {"words": 1}
    words: int = 20
    template: str = templates.RECALL

    def render(self, canary: Example, task: Task, rare: str, common: str) -> RenderedQuery:
        found = text_only(canary.input, self.name).split()
        if len(found) < 2:
            raise UsageError(
                "the query recall gives the first words of a canary and asks for its last one, and "
                f"a canary has {len(found)} word; use --canary coded, or --query lookup."
            )
        prefix = " ".join(found[:-1][: self.words])
        return _free(fill_template(self.template, {"prefix": prefix}), found[-1])


@dataclass(frozen=True, slots=True)
class Injection(_FreeQuery):
    """Asks for all examples (prompt injection): the baseline that prompt defences stop.

    Attributes:
        template: Wording; it names no canary, whose text is the target.

    Reference:
        CL.
    """

    name: ClassVar[str] = "injection"
    places: ClassVar[tuple[str, ...]] = ()
    template: str = templates.EXTRACT_ALL

    def render(self, canary: Example, task: Task, rare: str, common: str) -> RenderedQuery:
        return _free(self.template, text_only(canary.input, self.name))


QUERIES: Catalogue[AuditQuery] = Catalogue(
    "the query",
    "leakbound.queries",
    (
        Membership, InputOutput, IfThenExplicit, IfThenImplicit, Gap, Brainwash, SignalPair,
        ZeroShotSignals, Repeat, Injection, EitherText, GivenQuery, Recall, Lookup,
        MaskedWords, Interrogation, SecondHalf, Differential, GrowingPrefixes, Extraction,
    ),
)  # fmt: skip
