"""A recipe: one table or figure of a paper, with what the paper prints and what makes ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from leakbound.reproduce.context import RecipeContext

__all__ = ["NO_NUMBERS", "Measured", "Printed", "Recipe", "recipe"]

NO_NUMBERS = "no number in the text"
Needs = Literal["nothing", "model"]


@dataclass(frozen=True, slots=True)
class Printed:
    """What a paper says of one setting: a number as it is printed, or the expected shape in words.

    what: the quantity, in the words that the measured rows use; where: model, data and place in the
    paper.
    """

    setting: str
    what: str
    value: float | str
    where: str


@dataclass(frozen=True, slots=True)
class Measured:
    """Our number for one setting. shown: for people, with its interval or its kind."""

    setting: str
    what: str
    value: float
    shown: str


@dataclass(frozen=True, slots=True)
class Recipe:
    """One table or figure by name.

    differs: what is not as in the paper (model, data, wording, estimator), and why where it is
    known. model, task: what it runs on
    unless others are given; no task means the bundled rows.
    """

    name: str
    title: str
    shows: str
    printed: tuple[Printed, ...]
    differs: str
    needs: Needs
    run: Callable[[RecipeContext], Sequence[Measured]]
    model: str = "pocket"
    task: str | None = None

    @property
    def status(self) -> str:
        """What it takes to run it."""
        return (
            "exact, without a model"
            if self.needs == "nothing"
            else f"runs on the {self.model} model"
        )


def recipe(
    name: str, title: str, shows: str, printed: Iterable[Printed], differs: str, run: Callable[..., Iterable[Measured]],
    *given: Any, needs: Needs = "model",
) -> Recipe:  # fmt: skip
    """A recipe whose rows are those of `run(lab, *given)`."""
    return Recipe(
        name,
        title,
        shows,
        tuple(printed),
        differs.strip(),
        needs,
        lambda lab: tuple(run(lab, *given)),
    )
