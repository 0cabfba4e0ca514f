"""What a canary, a query, a score and an attack of them are.

A class that inherits from one gets its defaults; one that does not must have every member.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import getattr_static
from typing import ClassVar, Literal, Protocol

import numpy as np

from leakbound._members import holds_for, members_of, require_stated
from leakbound.attacks.words import redact
from leakbound.errors import TargetError, UsageError
from leakbound.models.content import Content, Private
from leakbound.stats import CategoricalLaw, OutputDistribution, ThresholdRule
from leakbound.stats.arrays import Floats
from leakbound.tasks import Access, Context, Example, Mechanism, Outputs, Query, Task


class Canary(Protocol):
    """Makes the canary of each pair.

    Attributes:
        name: Name in the catalogue, configuration files and records.
        mislabels: Whether the canary carries a label that is not its own, so that the design has
            to choose another one than that of the held-out row.
        needs_tokenizer: Whether `fit` splits texts by the model's tokenizer, so that a replay must
            open the model.
        of_rows: Whether its text may have words of the private rows, which no report shows.
        fixed: Whether it is one record, the same in every pair, that the configuration holds.
    """

    name: ClassVar[str]
    mislabels: ClassVar[bool] = False
    of_rows: ClassVar[bool] = True
    fixed: ClassVar[bool] = False
    needs_tokenizer: ClassVar[bool] = False

    @property
    def file_contents(self) -> tuple[Content, ...]:
        """What it read from files that a configuration names by path only; part of a run's name."""
        return ()

    @property
    def code_digits(self) -> int:
        """How many hexadecimal digits at the end of its text are drawn uniformly in every pair,
        independently of all else; by default none."""
        return 0

    def fit(self, rows: Context, tokenize: Callable[[str], list[str]]) -> Canary:
        """A canary that knows the private data; by default the same one.

        Args:
            rows: All rows of the data (PRIVATE).
            tokenize: Splits a text into the tokens of the model under audit, as texts.
        """
        return self

    def make(self, held_out: Example, label: str, rng: np.random.Generator) -> Example:
        """The canary of one pair.

        Args:
            held_out: A row of the data that is in neither context of the pair (PRIVATE).
            label: Label to carry, unless the canary has one of its own.
            rng: Source of all randomness.

        Raises:
            UsageError: If no canary can be made of this row.
        """


# What a class may override and still inherit what is stated of its texts; and of scores, what is.
OF_CANARY = frozenset({"name", "mislabels", "fixed", "needs_tokenizer", "file_contents"})
OF_SCORE = {"quotes": False, "of_votes": "none", "counts_unreadable": False}


def chances_of(score: Score) -> Callable[..., Floats | None] | None:
    """The chances that a score states of its own `score`; those of the protocol ask it."""
    stated = holds_for(score, "chances", {*members_of(Score)} - {"score"})
    asks = getattr_static(type(score), "chances", None) is Score.chances
    return score.chances if stated or asks else None


@dataclass(frozen=True, slots=True, repr=False)
class RenderedQuery(Private):
    """A query as it is sent, with the answers that speak for and against a member.

    Attributes:
        query: What is sent.
        member: The answer that speaks for a member; "" where any text may be answered.
        nonmember: The answer that speaks against; None where any other answer does.
        target: The text that a free answer gives away if it leaks (PRIVATE).
    """

    query: Query
    member: str
    nonmember: str | None
    target: str = ""

    def kept(self, text: str) -> str:
        """What may be kept of a free answer (PRIVATE): its scores must stay as they are.

        The words of the target in it, with one blot in place of whatever stands between them.
        `overlap` alone loses what longer words of other rows share with a target of one word.
        """
        return redact(text, self.target)

    def evaluate(self, text: str) -> float | None:
        """What an attack on a document makes of an answer, from -1 to 1; None of other queries."""
        return None


class AuditQuery(Protocol):
    """Renders what the attacker asks about a canary.

    Attributes:
        name: Name in the catalogue, configuration files and records.
        free: Whether the answer is any text, not one of a few.
        asks: What it asks for: whether the record is there (`membership`), or its `text`.
        score: Name of the score that it is used with by default; "" for the strongest that the
            access allows.
        tasks: The tasks that it fits, for people.
        canary: Name of the canary that it is used with by default; "" for that of the design.
        places: What its option `template` must hold, as in {canary}; () where it has none.

    Raises:
        UsageError: Of the queries of this package, if a template lacks a place that it must hold,
            or holds another one, or if a number lies outside its range.
    """

    name: ClassVar[str]
    free: ClassVar[bool] = False
    asks: ClassVar[Literal["membership", "text"]] = "membership"
    score: ClassVar[str] = ""
    tasks: ClassVar[str] = "any task"
    canary: ClassVar[str] = ""
    places: ClassVar[tuple[str, ...]] = ()

    @property
    def second_text(self) -> str:
        """A text that must stand in about half of the partitions beside the canary; "" for none."""
        return ""

    def render(self, canary: Example, task: Task, rare: str, common: str) -> RenderedQuery:
        """The query about one canary.

        Args:
            canary: The record that is in one context of the pair (PRIVATE).
            task: The task that the system under audit does.
            rare: The least frequent label of the data.
            common: The most frequent label of the data.

        Raises:
            UsageError: If the query fits neither the task nor the canary.
        """


class Score(Protocol):
    """Scores outputs: one number for each draw, higher for members.

    Attributes:
        name: Name in the catalogue, configuration files and records.
        access: What it reads: `black_box` (the answer), `probabilities` (those of the answers) or
            `white_box` (the noisy aggregate).
        threshold: The rule by which its threshold is chosen by default.
        free: Whether it reads a free text, not one of a few answers.
        reads_text: Whether it looks for text of the record in the answer.
        learns: Whether it has to be fitted on pilot pairs, which then enter no bound.
        quotes: Whether it is 1 exactly where an answer holds the target, else 0.
        counts_unreadable: Whether it tells answers that cannot be read from others.
        of_votes: What it is of noisy votes, whose chances are then known: the "winner", a "margin"
            between two classes or at `levels` of shares, or "none" of these.
    """

    name: ClassVar[str]
    access: ClassVar[Access]
    threshold: ClassVar[ThresholdRule]
    free: ClassVar[bool] = False
    reads_text: ClassVar[bool] = False
    learns: ClassVar[bool] = False
    quotes: ClassVar[bool] = False
    counts_unreadable: ClassVar[bool] = False
    of_votes: ClassVar[Literal["winner", "margin", "none"]] = "none"

    def fit(self, member: Floats, nonmember: Floats) -> Score:
        """A score that knows the outputs of pilot pairs; by default the same one.

        Args:
            member: (pairs, dim) mean noisy aggregates of the canary-in contexts.
            nonmember: The same for the canary-out contexts.
        """
        return self

    def levels(self, voters: int) -> Floats:
        """(K,) rising thresholds that an e-process may choose from, fixed before any output.

        Args:
            voters: How many answers the aggregate counts or averages.
        """

    def score(self, outputs: Outputs, rendered: RenderedQuery, answers: tuple[str, ...]) -> Floats:
        """(draws,) scores of independent outputs of one context.

        Args:
            outputs: What the mechanism released.
            rendered: The query that was sent.
            answers: The query's answers, in the order of their classes.

        Raises:
            UsageError: If the outputs do not hold what the score reads.
        """

    def noise_levels(self, voters: int, mu: float | None) -> Floats:
        """(K,) rising thresholds for a known scale of the noise; by default `levels`.

        Args:
            voters: How many answers the aggregate counts or averages.
            mu: What one answer can move, in units of the noise; None where it is not known.
        """
        return self.levels(voters)

    def chances(
        self, law: OutputDistribution, outputs: Outputs, rendered: RenderedQuery,
        answers: tuple[str, ...], levels: Floats,
    ) -> Floats | None:  # fmt: skip
        """(K,) exact chances that the score of an output is at or above each level.

        By default those of a mechanism that chooses among finitely many outputs. None where they
        cannot be computed, so that they are estimated from simulated outputs.

        Args:
            law: Distribution of an output.
            outputs: Some outputs of the same aggregate: what is public in them, such as points.
            rendered: The query that was sent.
            answers: The query's answers, in the order of their classes.
            levels: (K,) thresholds.
        """
        more = (outputs.noisy, outputs.picked, outputs.points)
        if not isinstance(law, CategoricalLaw) or any(one is not None for one in more):
            return None
        kinds = len(law.probabilities)
        if kinds > len(outputs.choices or answers) + 1:  # the last one: none of them
            return None
        each = self.score(Outputs(np.arange(kinds), choices=outputs.choices), rendered, answers)
        total = law.probabilities.sum()  # a float32 softmax sums to 1 but for rounding
        return np.asarray((each[:, None] >= levels).T @ (law.probabilities / total))


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
        """What the score reads, such as `black_box`; None before a score is chosen."""
        return None if self.score is None else self.score.access

    def require(self, mechanism: Mechanism) -> None:
        """Refuse, before any model call, an attack that cannot work on a mechanism.

        Raises:
            UsageError: If the score reads another kind of answer than the query asks for, or a
                class overrides code and inherits what its base states of that code.
            TargetError: If the score reads what the mechanism does not release.
        """
        require_stated("canary", self.canary, {"code_digits": 0, "of_rows": True}, OF_CANARY)
        if self.score is None:
            return
        require_stated("score", self.score, OF_SCORE, {"name", "access", "threshold", "free"})
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
