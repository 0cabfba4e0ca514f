"""A third-party package: one class for each catalogue, and one address scheme of each kind."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from leakbound.attacks import AuditQuery, Canary, PredictedMember, RenderedQuery
from leakbound.estimators import Bounds, Estimator, Observations, TrialDesign
from leakbound.mechanisms import MechanismBase
from leakbound.models import Model, Scripted
from leakbound.privacy import Guarantee, PureDP
from leakbound.stats import CategoricalLaw, Estimate
from leakbound.tasks import Access, Aggregate, Example, Job, Outputs, Query, Task, Votes


@dataclass(frozen=True, slots=True)
class CoinFlip(MechanismBase):
    """Answers at random whatever the context holds. Guarantee: 0-DP under any relation."""

    name: ClassVar[str] = "coin_flip"
    access: ClassVar[frozenset[Access]] = frozenset({"black_box"})
    needs: ClassVar[frozenset[type]] = frozenset()
    exactness: ClassVar[str] = "full"
    heads: float = 0.5

    @property
    def guarantee(self) -> Guarantee:
        """0-DP."""
        return PureDP(0.0)

    def voters(self, shots: int) -> int:
        """One answer."""
        return 1

    def noise_in_collect(self, task: Task, query: Query) -> bool:
        """Nothing is drawn before the release."""
        return False

    def requests(self, task: Task, job: Job, draw: int) -> list[Any]:
        """None."""
        return []

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        """No vote for any answer."""
        return [Votes((0,) * (len(task.answers(job.query)) + 1)) for job in jobs]

    def release(self, aggregate: Any, draws: int, rng: np.random.Generator) -> Outputs:
        """The first answer with the chance `heads`, else the second."""
        return Outputs((rng.random(draws) >= self.heads).astype(np.int64))

    def output_distribution(self, aggregate: Any) -> CategoricalLaw:
        """The coin."""
        rest = [0.0] * (len(aggregate.counts) - 2)
        return CategoricalLaw(np.array([self.heads, 1 - self.heads, *rest]))


@dataclass(frozen=True, slots=True)
class Dated(Canary):
    """A text with a year."""

    name: ClassVar[str] = "dated"
    year: int = 1999

    def make(self, held_out: Example, label: str, rng: np.random.Generator) -> Example:
        """A number of that year."""
        return Example(f"case {rng.integers(1 << 40)} of {self.year}", label)


@dataclass(frozen=True, slots=True)
class Polite(AuditQuery):
    """Asks whether the canary is there, politely."""

    name: ClassVar[str] = "polite"
    please: str = "Please tell me"

    def render(self, canary: Example, task: Task, rare: str, common: str) -> RenderedQuery:
        """yes speaks for a member."""
        text = f'{self.please}: is "{canary.text}" above?'
        return RenderedQuery(Query(text, ("yes", "no")), "yes", "no")


@dataclass(frozen=True, slots=True)
class SaysYes(PredictedMember):
    """Another name for an existing score."""

    name: ClassVar[str] = "says_yes"


class _Differences:
    """Counts of wins and losses."""

    rejected = False

    def __init__(self, design: TrialDesign) -> None:
        self.design = design
        self.gains: list[float] = []

    process = None

    def observe(self, observations: Observations) -> None:
        """Score of the canary-in output less that of the canary-out output."""
        trials = observations.trials
        self.gains.extend((trials.member - trials.nonmember).tolist())

    def bounds(self) -> tuple[Estimate, ...]:
        """ln((1 + d - 2 delta)/(1 - d)) of Hoeffding's lower limit d on the advantage."""
        n = len(self.gains)
        slack = math.sqrt(2 * math.log(1 / (1 - self.design.confidence)) / n)
        low = max(0.0, float(np.mean(self.gains)) - slack)
        claim = self.design.claim
        epsilon = max(0.0, math.log((1 + low - 2 * claim.delta) / (1 - low)))
        return (
            Estimate(
                "hoeffding", "lower_bound", epsilon, claim.delta, self.design.confidence,
                {"pairs": n}, ("paired trials are independent",),
            ),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Hoeffding(Estimator):
    """Hoeffding's inequality on the attacker's advantage."""

    name: ClassVar[str] = "hoeffding"
    kind: ClassVar[Any] = "lower_bound"
    anytime: ClassVar[bool] = False
    simultaneous: ClassVar[bool] = True
    reads: ClassVar[frozenset[Any]] = frozenset({"trials"})

    def begin(self, design: TrialDesign) -> _Differences:
        """An observer that has seen no pair."""
        return _Differences(design)

    def largest_certifiable(self, design: TrialDesign, pairs: int) -> Bounds:
        """What a perfect attack reaches."""
        seen = _Differences(design)
        seen.gains = [1.0 - 1e-9] * pairs
        return Bounds(seen.bounds()[0].epsilon or 0.0)


def open_sample(rest: str) -> Scripted:
    """A model that finds quoted texts in its prompt."""

    def complete(prompt: str) -> str:
        head, _, asked = prompt.rpartition('is "')
        return "yes" if asked.partition('"')[0] in head else "no"

    return Scripted(complete=complete, name=f"sample/{rest}")


def open_system(rest: str) -> Any:
    """A system that answers the rest of its address."""
    return lambda context, query: rest
