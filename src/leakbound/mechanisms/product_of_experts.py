"""ProductOfExperts: the exponential mechanism over clipped log-probabilities (PoE Alg. 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
import numpy.typing as npt

from leakbound._check import one_of, positive, whole
from leakbound.errors import UsageError
from leakbound.mechanisms.parts.base import CalibratedMechanism, PublicFacts
from leakbound.mechanisms.parts.contextual_calibration import less_prior, score_requests
from leakbound.mechanisms.parts.decoding import Decoding
from leakbound.mechanisms.parts.exponential import (
    clip_log_probabilities,
    epsilon_per_choice,
    gumbel_choices,
)
from leakbound.mechanisms.parts.tokens import public_tokens
from leakbound.privacy import BoundedRange, Relation, share_down
from leakbound.stats.arrays import Floats
from leakbound.tasks import AnyRequest, Context, Job, Task, present
from leakbound.tasks.partition import places_by_position, split_by_position

ExpertCalibration = Literal["replace_one", "add_remove", "paper"]


@dataclass(frozen=True, slots=True)
class ProductOfExperts(Decoding, CalibratedMechanism):
    """P(y) proportional to exp(lambda U(y)), U(y) = sum over experts of clip(ln p_j(y), -C, 0).

    An expert is a group of examples. The candidates y are the query's answers, with p_j normalised
    over them. A free answer is drawn token by token, and its candidates are the most likely tokens
    of the model without examples. The clip is a clamp: values below -C count as -C. So do labels
    that the model does not show, and all candidates of an expert whose call failed. An expert with
    one example favours the label of that example, whatever the query. With `prior` "content_free",
    that tendency is subtracted before the clip. Private: context, U. Public: query, candidates,
    group size, C, epsilon, prior.

    Attributes:
        epsilon: epsilon of one choice among the query's answers.
        group_size: Number of examples of an expert.
        clip: C, above 0.
        calibration: "replace_one": lambda = epsilon/(2C). "add_remove": lambda = epsilon/C, a
            guarantee under that relation. "paper": lambda = epsilon/C read under replace_one, as
            published.
        tokens: Largest number of tokens of a free answer.
        candidates: Number of public candidate tokens.
        token_epsilon: epsilon of each token; epsilon/tokens if None.
        prior: "none"; or "content_free": the scores of an expert's answers minus those for the
            query "N/A" replace its log-probabilities, at twice the calls. Not used for free
            answers.

    Raises:
        UsageError: If a number is not positive, the calibration or prior is unknown, or groups of
            several examples are calibrated for add_remove.

    Guarantee:
        One choice is epsilon-bounded range, hence epsilon-DP, under replace_one or add_remove,
        depending on the calibration. Replacing an example replaces one expert and changes U by a
        range of 2C. Adding or removing an expert changes it by C, so under add_remove the empty
        slot of a record whose budget is spent has no expert. "paper" is 2 epsilon-bounded range
        under replace_one, because replacing is not monotone. A calibrated expert still sees only
        its own examples and public information, and the clip bounds it in the same way. A free
        answer is the composition of `tokens` choices of `token_epsilon`. With `calibrated` it
        satisfies the claim at its delta, and tokens token_epsilon, which may be more, at delta = 0.
        Noisy scores are not covered: black box only. Proof: docs/mechanisms/product_of_experts.md.

    Reference:
        PoE Algorithm 1; Durfee and Rogers, "Practical differentially private top-k selection"
        (NeurIPS 2019), for the bounded range.
    """

    exactness = Decoding.exactness
    name: ClassVar[str] = "product_of_experts"
    scores_prior: ClassVar[bool] = False
    unwritten: ClassVar[tuple[str, ...]] = ("prior",)
    epsilon: float
    group_size: int = 1
    clip: float = 2.0
    calibration: ExpertCalibration = "replace_one"
    tokens: int = 8
    candidates: int = 50
    token_epsilon: float | None = None
    prior: Literal["none", "content_free"] = "none"

    def __post_init__(self) -> None:
        for name in ("epsilon", "clip"):
            positive(name, getattr(self, name))
        for name in ("group_size", "tokens", "candidates"):
            whole(name, getattr(self, name))
        one_of("calibration", self.calibration, get_args(ExpertCalibration))
        one_of("prior", self.prior, ("none", "content_free"))
        if self.calibration == "add_remove" and self.group_size > 1:
            raise UsageError(
                "add_remove needs a group_size of 1: with larger groups, removing an example "
                "regroups the others, and a group that loses one of several examples is replaced, "
                "not removed. Use group_size 1, or the calibration replace_one."
            )

    @classmethod
    def calibrated(
        cls,
        epsilon: float,
        delta: float,
        group_size: int = 1,
        clip: float = 2.0,
        calibration: ExpertCalibration = "replace_one",
        tokens: int = 8,
        candidates: int = 50,
        prior: Literal["none", "content_free"] = "none",
    ) -> Self:
        """The mechanism for a claim about one answer, of one choice or of many tokens.

        Args:
            epsilon: epsilon of the claim, above 0.
            delta: delta of the claim in [0, 1); used for the tokens of free answers, which have the
                largest epsilon that composes to the claim.
            calibration: "replace_one", "add_remove" or "paper". "paper" does not satisfy the claim.
        """
        each = None if calibration == "paper" else epsilon_per_choice(epsilon, delta, tokens)
        return cls(epsilon, group_size, clip, calibration, tokens, candidates, each, prior)

    @classmethod
    def group_options(cls, facts: PublicFacts, given: Mapping[str, Any]) -> dict[str, Any]:
        """Two examples for each expert; one if answers are free, or under add_remove."""
        alone = given.get("calibration") == "add_remove"
        return {"group_size": 1 if alone else facts.per_expert}

    @property
    def rate(self) -> float:
        """lambda of one choice among answers: the factor of U in the exponent."""
        return self._rate(self.epsilon)

    def _rate(self, epsilon: float) -> float:
        return epsilon / (2 * self.clip if self.calibration == "replace_one" else self.clip)

    @property
    def _each(self) -> float:
        each = self.token_epsilon
        return share_down(self.epsilon, self.tokens) if each is None else each

    @property
    def guarantee(self) -> BoundedRange:
        """Guarantee of one choice among answers: lambda times the range of U under the relation."""
        return self._choice(self.epsilon)

    def _choice(self, epsilon: float) -> BoundedRange:
        relation: Relation = "add_remove" if self.calibration == "add_remove" else "replace_one"
        return BoundedRange(epsilon * (2 if self.calibration == "paper" else 1), relation)

    def voters(self, shots: int) -> int:
        """One score vector for each expert."""
        return -(-shots // self.group_size)

    def disjoint_parts(self, shots: int) -> tuple[tuple[int, ...], ...]:
        return places_by_position(shots, self.voters(shots))

    def _parts(self, context: Context) -> list[Context]:
        """Groups by position. The group of an example does not depend on the other examples."""
        if self.calibration == "add_remove":  # an empty slot has no expert, like a missing example
            return [(row,) for row in present(context)]
        return split_by_position(context, self.voters(len(context)))

    def requests(self, task: Task, job: Job, draw: int) -> list[AnyRequest]:
        if self.prior == "none" or not task.answers(job.query):
            return Decoding.requests(self, task, job, draw)
        return [*score_requests(task, self._parts(job.context), job.query)]

    def _total(self, scores: Sequence[npt.ArrayLike], size: int) -> Floats:
        """U of `size` candidates; 0 without experts."""
        rows = np.stack(scores) if len(scores) else np.empty((0, size))
        return np.asarray(clip_log_probabilities(rows, self.clip).sum(0))

    @property
    def _token_guarantee(self) -> BoundedRange:
        return self._choice(self._each)

    def _kept(self, scores: Sequence[npt.ArrayLike], size: int) -> Floats:
        calibrated = self.prior != "none" and scores
        return self._total([*less_prior(scores)] if calibrated else scores, size)

    def _exponents(self, values: Floats) -> Floats:
        return self.rate * values

    def _token(self, rows: list[Floats], rng: np.random.Generator) -> int:
        public, *private = rows
        tokens = public_tokens(public, self.candidates)
        total = self._total([row[tokens] for row in private], len(tokens))
        return int(tokens[gumbel_choices(self._rate(self._each) * total, 1, rng)[0]])
