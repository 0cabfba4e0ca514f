"""A recipe: one table or figure of a paper, what the paper prints, and how to measure it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from leakbound.models.address import BUNDLED
from leakbound_lab.reproduce.claims import PaperClaim
from leakbound_lab.reproduce.context import RecipeContext, Scale
from leakbound_lab.reproduce.measures import MEASURES
from leakbound_lab.reproduce.values import MeasuredValue, PrintedValue

Needs = Literal["nothing", "no_answer", "model"]
RestsOn = Literal["real_model", "pocket", "trained_in", "no_answer", "arithmetic"]
EVIDENCE: Mapping[RestsOn, str] = {
    "real_model": "a real model",
    "pocket": "the pocket model",
    "trained_in": "what the pocket model was trained or cut to do",
    "no_answer": "no answer of a model",
    "arithmetic": "arithmetic",
}


@dataclass(frozen=True, slots=True)
class Recipe:
    """One table or figure of a paper.

    `needs` is "no_answer" where the claim rests on calls that are counted, or on embeddings of
    fixed texts: any model shows it. `trained_in` is true where the pocket model was made to show
    the claim.
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
    trained_in: bool = False

    @property
    def requirement(self) -> str:
        exact = self.needs == "nothing"
        return "exact, without a model" if exact else f"runs on {' and '.join(self.models)}"

    def evidence(self, models: Sequence[str]) -> RestsOn:
        """What kind of evidence an outcome with these models is."""
        if self.needs != "model":
            return "arithmetic" if self.needs == "nothing" else "no_answer"
        if not set(models) & set(BUNDLED):
            return "real_model"
        return "trained_in" if self.trained_in else "pocket"

    @property
    def scale(self) -> Scale:
        return replace(Scale(), **self.usual)

    def run(self, context: RecipeContext) -> Iterator[MeasuredValue]:
        yield from MEASURES[self.measure](context, **self.options)
