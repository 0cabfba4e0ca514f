"""A recipe: one table or figure of a paper, what the paper prints, and how to measure it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from leakbound.reproduce.claims import PaperClaim
from leakbound.reproduce.context import RecipeContext, Scale
from leakbound.reproduce.measures import MEASURES
from leakbound.reproduce.values import MeasuredValue, PrintedValue

__all__ = ["Needs", "Recipe"]

Needs = Literal["nothing", "model"]


@dataclass(frozen=True, slots=True)
class Recipe:
    """One table or figure of a paper.

    Attributes:
        name: The paper and the figure, such as "contextleak/fig6".
        title: What the figure shows, in a few words.
        finding: What the paper concludes from it, in a sentence.
        printed: The values that the paper prints.
        differences: How this differs from the paper (model, data, wording, estimator), and why if
            the reason is known.
        measure: Name of the measure in MEASURES.
        options: Keyword arguments of the measure.
        needs: "nothing" for exact recipes, "model" for those that call one.
        models: Model addresses unless others are given.
        task: Task by name unless another is given; None for the bundled rows.
        claim: What the paper concludes, as inequalities; None if it concludes nothing.
        cells: Names of quantities by patterns of settings, for the cells that the claim may use.
        usual: The recipe's own default sizes, by the names of a Scale.
    """

    name: str
    title: str
    finding: str
    printed: tuple[PrintedValue, ...]
    differences: str
    measure: str
    options: Mapping[str, object]
    needs: Needs = "model"
    models: tuple[str, ...] = ("pocket",)
    task: str | None = None
    claim: PaperClaim | None = None
    cells: Mapping[str, Sequence[str]] = field(default_factory=dict)
    usual: Mapping[str, int] = field(default_factory=dict)

    @property
    def requirement(self) -> str:
        """What is needed to run it."""
        exact = self.needs == "nothing"
        return "exact, without a model" if exact else f"runs on {' and '.join(self.models)}"

    @property
    def scale(self) -> Scale:
        """Its default size."""
        return replace(Scale(), **self.usual)

    def run(self, context: RecipeContext) -> Iterator[MeasuredValue]:
        """Run the measure.

        Args:
            context: Models, rows and scale.

        Yields:
            The measured values, in the order of the table.
        """
        yield from MEASURES[self.measure](context, **self.options)
