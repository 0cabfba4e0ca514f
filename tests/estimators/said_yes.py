"""An estimator in one file: error rates of the word "yes" in what each context answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from leakbound.estimators import Bounds, Estimator, Observations, Observer, TrialDesign
from leakbound.estimators.base import Reads
from leakbound.stats import Estimate, Kind, clopper_pearson


@dataclass(frozen=True, slots=True)
class SaidYes(Estimator):
    """Clopper-Pearson limits of how often a word is said."""

    name: ClassVar[str] = "said_yes"
    kind: ClassVar[Kind] = "lower_bound"
    anytime: ClassVar[bool] = False
    simultaneous: ClassVar[bool] = True
    reads: ClassVar[frozenset[Reads]] = frozenset({"text"})
    word: str = "yes"

    def begin(self, design: TrialDesign) -> Observer:
        return _Words(self.word, design)

    def largest_certifiable(self, design: TrialDesign, pairs: int) -> Bounds:
        n = self.tested_pairs(design, pairs)
        return Bounds(_bound(n, n, 0, design).epsilon or 0.0 if n else 0.0)


class _Words:
    rejected = False

    def __init__(self, word: str, design: TrialDesign) -> None:
        self.word, self.design = word, design
        self.pairs = self.member = self.nonmember = 0

    process = None

    def observe(self, observations: Observations) -> None:
        for one, other in observations.texts[observations.after(self.design.pilot)]:
            self.pairs += 1
            self.member += self.word in one
            self.nonmember += self.word in other

    def bounds(self) -> tuple[Estimate, ...]:
        return (_bound(self.pairs, self.member, self.nonmember, self.design),)


def _bound(pairs: int, member: int, nonmember: int, design: TrialDesign) -> Estimate:
    cells = member, pairs - member, nonmember, pairs - nonmember
    return clopper_pearson(*cells, design.claim.delta, design.confidence, "a word")
