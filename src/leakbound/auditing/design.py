"""The design of an audit: which contexts are compared. Pure; nothing here asks a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import overload

from leakbound.attacks import Attack, RenderedQuery
from leakbound.auditing.seeds import generator
from leakbound.errors import DataError, UsageError
from leakbound.models.content import images_in, join
from leakbound.privacy import Relation
from leakbound.tasks import Context, Example, Job, Task

__all__ = ["Pair", "Pairs", "design", "label_order", "relation_of"]


@dataclass(frozen=True, slots=True, repr=False)
class Pair:
    """A canary-in and a canary-out context that share everything but one example (PRIVATE).

    Attributes:
        index: Number of the pair, from 0.
        member: The query over the canary-in context.
        nonmember: The query over the canary-out context.
        asked: The query, with the answers that speak for and against a member.
        canary: The record that was inserted.
        position: Its place in the canary-in context.
        out_first: Whether the canary-out context is asked first. A fixed order would take a system
            that depends on what it was asked before for one that depends on its context.
        draw: Names the random draw of sampled answers. Both contexts share it, so parts that the
            canary does not touch are asked once.
    """

    index: int
    member: Job
    nonmember: Job
    asked: RenderedQuery
    canary: Example
    position: int
    draw: int
    out_first: bool = False

    @property
    def in_order(self) -> tuple[Job, Job]:
        """Both queries in the order in which they are asked."""
        return (self.nonmember, self.member) if self.out_first else (self.member, self.nonmember)

    def __repr__(self) -> str:
        return f"Pair({self.index}, <private>)"


def relation_of(insertion: str) -> Relation:
    """How the two contexts of a pair differ.

    Args:
        insertion: "add" puts in one more example; anything else changes one.

    Returns:
        The neighbouring relation.
    """
    return "add_remove" if insertion == "add" else "replace_one"


def label_order(rows: Context) -> tuple[str, str]:
    """The rarest and the most frequent label; equal counts are ordered by name.

    Args:
        rows: Examples (PRIVATE), at least one.

    Returns:
        (rarest, most frequent).
    """
    counts = sorted(Counter(row.label for row in rows).items(), key=lambda item: (item[1], item[0]))
    return counts[0][0], counts[-1][0]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Pairs(Sequence[Pair]):
    """The pairs of an audit; each is made from its own seed when it is read, and none is held.

    Attributes:
        rows: All examples (PRIVATE).
        task: Their task.
        attack: Canary, query, insertion.
        shots: Examples in a context.
        seed: Root of all randomness.
        labels: (rarest, most frequent) label.
        places: Numbers of the pairs.
    """

    rows: Context
    task: Task
    attack: Attack
    shots: int
    seed: int
    labels: tuple[str, str]
    places: range

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, at: int) -> Pair: ...
    @overload
    def __getitem__(self, at: slice) -> Pairs: ...
    def __getitem__(self, at: int | slice) -> Pair | Pairs:
        if isinstance(at, slice):
            return replace(self, places=self.places[at])
        return _pair(
            self.places[at], self.rows, self.task, self.attack, self.shots, self.seed, *self.labels
        )


def design(rows: Context, task: Task, attack: Attack, pairs: int, shots: int, seed: int) -> Pairs:
    """Independent pairs: contexts of rows drawn without replacement, a canary at a random place.

    Args:
        rows: All examples (PRIVATE).
        task: Their task.
        attack: Canary, query, insertion.
        pairs: Number of pairs.
        shots: Examples in a context.
        seed: Root of all randomness.

    Returns:
        The pairs, made when they are read.

    Raises:
        DataError: If there are not enough rows for a context and a held-out row.
    """
    if shots + 1 > len(rows):
        raise DataError(
            f"{shots} examples a context and one held-out row need {shots + 1} rows, and the data "
            f"has {len(rows)}; use fewer examples (--shots) or more data."
        )
    return Pairs(rows, task, attack, shots, seed, label_order(rows), range(pairs))


def _pair(
    index: int,
    rows: Context,
    task: Task,
    attack: Attack,
    shots: int,
    seed: int,
    rare: str,
    common: str,
) -> Pair:
    rng = generator(seed, "design", index)
    *chosen, spare = rng.choice(len(rows), size=shots + 1, replace=False)
    context = tuple(rows[i] for i in chosen)
    wrong = attack.canary.mislabels and rows[spare].label == rare
    canary = attack.canary.make(rows[spare], common if wrong else rare, rng)
    _require_form(canary, rows[spare], attack.canary.name)
    position = shots if attack.insertion == "add" else int(rng.integers(shots))
    asked = attack.query.render(canary, task, rare, common)
    _require_answer(asked, task)
    member = _insert(context, canary, position, attack.insertion)
    return Pair(
        index,
        Job(member, asked.query),
        Job(context, asked.query),
        asked,
        canary,
        position,
        int(rng.integers(1 << 31)),
        bool(generator(seed, "order", index).integers(2)),
    )


def _require_answer(asked: RenderedQuery, task: Task) -> None:
    allowed = task.answers(asked.query)
    if not asked.query.free and asked.member not in allowed:
        raise UsageError(
            f"the answer {asked.member!r} that speaks for a member is not one of "
            f"{', '.join(allowed)}; give the canary "
            "one of these labels (--canary-label), or use the query membership."
        )


def _require_form(canary: Example, row: Example, name: str) -> None:
    """Anyone could tell a canary of another form from the rows."""
    images = bool(images_in(canary.input)), bool(images_in(row.input))
    if images[0] != images[1]:
        kinds = ("an image", "texts") if images[0] else ("a text", "images")
        fits = "hex or natural" if images[0] else "patchwork, marked or natural"
        raise UsageError(
            f"the canary {name} is {kinds[0]}, and the rows hold {kinds[1]}; use --canary {fits}."
        )


def _insert(context: Sequence[Example], canary: Example, position: int, insertion: str) -> Context:
    if insertion == "add":
        return (*context, canary)
    old = context[position]
    new = (
        canary
        if insertion == "replace"
        else Example(join((old.input, " ", canary.input)), old.label)
    )
    return (*context[:position], new, *context[position + 1 :])
