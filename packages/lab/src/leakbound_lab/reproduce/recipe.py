"""A recipe: one table or figure of a paper, what the paper prints, and how to measure it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from leakbound_lab.reproduce.claims import PaperClaim
from leakbound_lab.reproduce.context import RecipeContext, Scale
from leakbound_lab.reproduce.measures import MEASURES
from leakbound_lab.reproduce.values import MeasuredValue, PrintedValue

Needs = Literal["nothing", "model"]


@dataclass(frozen=True, slots=True)
class Recipe:
    """One table or figure of a paper."""

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
        """Run the measure."""
        yield from MEASURES[self.measure](context, **self.options)
