"""A recipe: one table or figure of a paper, what the paper prints, and how it is measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from leakbound.reproduce.claims import PaperClaim
from leakbound.reproduce.context import RecipeContext
from leakbound.reproduce.measures import MEASURES
from leakbound.reproduce.values import MeasuredValue, PrintedValue

__all__ = ["Needs", "Recipe"]

Needs = Literal["nothing", "model"]


@dataclass(frozen=True, slots=True)
class Recipe:
    """One table or figure by name.

    Attributes:
        name: The paper and the figure, such as "contextleak/fig6".
        title: What the figure shows, in a few words.
        finding: What the paper reads out of it, in a sentence.
        printed: The values that the paper prints.
        differences: What is not as in the paper (model, data, wording, estimator), and why where it
            is known.
        measure: Name of the measure in MEASURES.
        options: Keyword arguments of the measure.
        needs: "nothing" for exact recipes, "model" for those that ask one.
        model: Model address unless another is given.
        task: Task by name unless another is given; None for the bundled rows.
        claim: What the paper reads out of it, as inequalities; None where it reads nothing.
        cells: Names of quantities by patterns of settings, of which the claim speaks.
    """

    name: str
    title: str
    finding: str
    printed: tuple[PrintedValue, ...]
    differences: str
    measure: str
    options: Mapping[str, object]
    needs: Needs = "model"
    model: str = "pocket"
    task: str | None = None
    claim: PaperClaim | None = None
    cells: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def requirement(self) -> str:
        """What it takes to run it."""
        exact = self.needs == "nothing"
        return "exact, without a model" if exact else f"runs on the {self.model} model"

    def run(self, context: RecipeContext) -> Iterator[MeasuredValue]:
        """Measure it.

        Args:
            context: Models, rows and scale.

        Yields:
            The measured values, in the order of the table.
        """
        yield from MEASURES[self.measure](context, **self.options)
