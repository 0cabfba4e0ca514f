"""InvisibleInk: clipped differences from the public logits, averaged over a batch of prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, get_args

import numpy as np
import numpy.typing as npt

from leakbound._check import one_of, positive, whole
from leakbound.errors import UsageError
from leakbound.mechanisms.parts.base import PartitionedMechanism, PublicFacts
from leakbound.mechanisms.parts.decoding import Decoding
from leakbound.mechanisms.parts.exponential import epsilon_per_choice, gumbel_choices
from leakbound.mechanisms.parts.tokens import finite, is_failed, log_softmax
from leakbound.privacy import BoundedRange, Relation
from leakbound.stats.arrays import Floats, Ints
from leakbound.tasks import Context
from leakbound.tasks.partition import places_by_position, split_by_position


@dataclass(frozen=True, slots=True)
class InvisibleInk(Decoding, PartitionedMechanism):
    """Draws from softmax(phi/tau), where phi = phi_pub + mean_i clip(phi_i - phi_pub, -C, C).

    phi_pub are the scores of a prompt without examples. phi_i are those of the i-th of B prompts
    with disjoint parts of the context. Scores are defined up to a constant, so the median over the
    choices is subtracted from each difference before it is clipped. The difference of a failed call
    is 0. The choices are the query's answers. A free answer is drawn token by token, from all
    tokens whose public logit is at most 2C/B below the k-th largest. The public prompt is run in a
    separate pass. Private: context, phi_i. Public: query, phi_pub, choices, B, C, tau.

    Attributes:
        clip: C of one choice among the query's answers, in nats.
        partitions: B, the number of disjoint parts of the context.
        temperature: tau, above 0.
        tokens: T, the largest number of tokens of a free answer.
        candidates: k, the number of public tokens that are always among the choices.
        relation: "replace_one"; or "add_remove", where each part is one example or empty.
        token_clip: C of each token; `clip` if None.

    Guarantee:
        One choice is an exponential mechanism. Replacing an example replaces one clipped
        difference, so each entry of phi/tau changes by at most 2C/(B tau) in either direction. The
        bounded range is 4C/(B tau), and rho of zCDP is 2 (C/(B tau))^2. Under "add_remove", a
        missing example leaves its slot to the public scores, and its difference is 0 (zero-out).
        The range is then 2C/(B tau), and rho is a quarter: T/2 (C/(B tau))^2 for the T choices of a
        free answer. Proof: docs/mechanisms/invisible_ink.md.

    Reference:
        Vinod, Pillutla and Thakurta, "InvisibleInk: High-utility and low-cost text generation with
        differential privacy" (2025), arXiv 2507.02974; Cesar and Rogers (ALT 2021) for the range.

    Examples:
        >>> made = InvisibleInk(clip=1.0, partitions=8, tokens=16, relation="add_remove")
        >>> made.guarantee.rho == 0.5 * (1 / 8) ** 2
        True
        >>> InvisibleInk(clip=1.0, partitions=8).guarantee.rho / made.guarantee.rho
        4.0
    """

    exactness = Decoding.exactness
    name: ClassVar[str] = "invisible_ink"
    clip: float
    partitions: int = 10
    temperature: float = 1.0
    tokens: int = 24
    candidates: int = 100
    relation: Relation = "replace_one"
    token_clip: float | None = None

    def __post_init__(self) -> None:
        for name in ("clip", "temperature"):
            positive(name, getattr(self, name))
        for name in ("partitions", "tokens", "candidates"):
            whole(name, getattr(self, name))
        if self.token_clip is not None:
            positive("token_clip", self.token_clip)
        one_of("relation", self.relation, get_args(Relation))

    @classmethod
    def calibrated(
        cls,
        epsilon: float,
        delta: float,
        partitions: int = 10,
        temperature: float = 1.0,
        tokens: int = 24,
        candidates: int = 100,
        relation: Relation = "replace_one",
    ) -> Self:
        """The mechanism with the clips that a claim allows for one answer, of one or many choices.

        Args:
            epsilon: epsilon of the claim, above 0.
            delta: delta of the claim in [0, 1); used for the tokens of free answers.

        Examples:
            >>> made = InvisibleInk.calibrated(2.0, 1e-5, partitions=20)
            >>> made.clip, made.guarantee.epsilon(1e-5)
            (10.0, 2.0)
        """
        positive("epsilon", epsilon)
        unit = cls(1.0, partitions, temperature, tokens, candidates, relation)
        each = epsilon_per_choice(epsilon, delta, tokens)
        value = unit.guarantee.value
        return replace(unit, clip=epsilon / value, token_clip=each / value)

    @classmethod
    def group_options(cls, facts: PublicFacts, given: Mapping[str, Any]) -> dict[str, Any]:
        """One partition for every two examples, or for every example if answers are free."""
        if given.get("relation") == "add_remove":
            return {}
        return {"partitions": max(1, facts.shots // facts.per_expert)}

    @property
    def guarantee(self) -> BoundedRange:
        """Bounded range of one choice among answers: 4C/(B tau), or 2C/(B tau) under add_remove."""
        return self._choice(self.clip)

    def _choice(self, clip: float) -> BoundedRange:
        moved = 4 if self.relation == "replace_one" else 2
        return BoundedRange(moved * clip / (self.partitions * self.temperature), self.relation)

    def disjoint_parts(self, shots: int) -> tuple[tuple[int, ...], ...]:
        if self.relation == "add_remove" and shots > self.partitions:
            return ()
        return places_by_position(shots, self.partitions)

    def _parts(self, context: Context) -> list[Context]:
        """Parts by position. Under add_remove, each holds one example, and the others are empty."""
        if self.relation == "replace_one":
            return split_by_position(context, self.partitions)
        if len(context) > self.partitions:
            raise UsageError(
                f"{len(context)} examples are more than {self.partitions} partitions; under "
                "add_remove each example needs a separate partition. Use more partitions, or the "
                "relation replace_one."
            )
        return [(row,) for row in context] + [()] * (self.partitions - len(context))

    @property
    def _token_clip(self) -> float:
        return self.clip if self.token_clip is None else self.token_clip

    @property
    def _token_guarantee(self) -> BoundedRange:
        return self._choice(self._token_clip)

    def _kept(self, scores: Sequence[npt.ArrayLike], size: int) -> Floats:
        """phi_pub and all phi_i."""
        return finite(np.stack(scores))

    def _exponents(self, values: Floats) -> Floats:
        return self._utility(values.reshape(self.partitions + 1, -1), self.clip)

    def _token(self, rows: list[Floats], rng: np.random.Generator) -> int:
        near = 2 * self._token_clip / self.partitions
        tokens = near_top(rows[0], self.candidates, near)
        utility = self._utility(np.stack(rows)[:, tokens], self._token_clip)
        return int(tokens[gumbel_choices(utility, 1, rng)[0]])

    def _utility(self, rows: Floats, clip: float) -> Floats:
        """phi/tau of (B + 1, choices) scores, with the public scores first."""
        moved = np.where(is_failed(rows[1:])[:, None], 0.0, rows[1:] - rows[0])
        moved = np.clip(moved - np.median(moved, axis=1, keepdims=True), -clip, clip)
        return np.asarray((log_softmax(rows[0]) + moved.sum(0) / self.partitions)
                          / self.temperature)  # fmt: skip


def near_top(logits: Floats, count: int, below: float) -> Ints:
    """The most likely tokens of a model that sees no examples, and those slightly less likely."""
    last = np.partition(logits, -min(count, logits.size))[-min(count, logits.size)]
    return np.asarray(np.flatnonzero(logits >= last - below), np.int64)
