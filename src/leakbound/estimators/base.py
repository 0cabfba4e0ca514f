"""What an estimator is: a frozen value that turns paired trials into bounds, in one pass.

A pair of trials asks the same query of two contexts that differ by the canary. `member` names the
canary-in context of a pair, `nonmember` the canary-out context.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from leakbound._check import delta_value, epsilon_value
from leakbound.errors import UsageError
from leakbound.privacy import ApproxDP, Gaussian, Guarantee, NonPrivate, Relation
from leakbound.stats import (
    Assumption,
    BestOnSameData,
    Bonferroni,
    Estimate,
    Fixed,
    Kind,
    OutputDistribution,
    Power,
    Split,
    ThresholdRule,
)
from leakbound.stats.power import PERFECT
from leakbound.stats.votes import KnownScores
from leakbound.stats.witness import StoredReply

__all__ = [
    "MOST_PAIRS", "Bounds", "Claim", "Distribution", "DistributionPair", "Estimator",
    "Observations", "Observer", "PairedScores", "Reads", "ReplyPair", "TrialDesign", "exceeds",
    "require_deciding", "require_fixed_size", "threshold_rule",
]  # fmt: skip

ROUNDING = 1e-6  # a calibrated guarantee equals the claim but for this share
MOST_PAIRS = 4096  # up to which a plan looks for a rejection: enough for any claim up to 7
RULES = "a number, 'split', 'split:0.3', 'bonferroni' or 'best'"
T = TypeVar("T")
Floats = npt.NDArray[np.float64]
Reads = Literal["trials", "chances", "votes", "distribution", "text", "replies", "channels"]
Distribution = OutputDistribution | None
ReplyPair = tuple[StoredReply | None, StoredReply | None]
DistributionPair = tuple[Distribution, Distribution]


@dataclass(frozen=True, slots=True)
class Claim:
    """What the operator states: (epsilon, delta)-DP under a neighbouring relation.

    Args:
        epsilon: Claimed epsilon, for all outputs that a trial sees.
        delta: Claimed delta.
        relation: How neighbouring contexts differ.

    Raises:
        UsageError: If epsilon or delta is no privacy parameter, or the relation is another.
    """

    epsilon: float
    delta: float
    relation: Relation = "replace_one"

    def __post_init__(self) -> None:
        epsilon_value(self.epsilon)
        delta_value(self.delta)
        if self.relation not in ("replace_one", "add_remove"):
            raise UsageError(
                f"relation is {self.relation!r}; it must be 'replace_one' or 'add_remove'."
            )

    def guarantee(self) -> ApproxDP:
        """The claim as a guarantee.

        Returns:
            (epsilon, delta)-DP under the claim's relation.
        """
        return ApproxDP(self.epsilon, self.delta, self.relation)


@dataclass(frozen=True, slots=True)
class Bounds:
    """A pair of bounds.

    Args:
        epsilon: Bound on epsilon at the claim's delta.
        mu: Bound on mu of Gaussian differential privacy; None where an estimator gives none.
    """

    epsilon: float
    mu: float | None = None


@dataclass(frozen=True, slots=True)
class TrialDesign:
    """Everything that an estimator may know before the first model call.

    Args:
        claim: What the operator states.
        guarantee: What the mechanism is proven to satisfy, for all outputs that a trial sees.
        confidence: Confidence of every bound.
        pairs: Planned number of paired trials.
        pilot: First pairs that only teach the score; they enter no bound.
        levels: Thresholds of the score, fixed beforehand.
        rule: How the threshold of a decision is chosen.
        early_stop: Whether the audit ends once the claim or the guarantee is rejected.
        answers: Outputs of one context that a trial sees.
        sigma: Standard deviation of the Gaussian noise on each vote count; None where the mechanism
            releases no noisy votes.
        voters: Answers that an aggregate counts; None where it counts none, or nobody knows.
        two_answers: Whether the query has one answer for each of the two contexts.
        known: Scores whose chances are known exactly given the votes, with the pairs of chances
            that the design allows; None where votes are not all that a score depends on.
        noise_levels: Thresholds of the e-process, which reach as far as the noise does; empty for
            `levels`.
        served: Whether outputs are drawn by the mechanism's own release, so that they are also
            audited one by one, as they are served.
        replies: Whether answers are free texts or carry metadata, so that a learned witness reads
            whole replies beside the score.
        channels: Channels of a system that are tested, each apart; empty where replies are read
            whole, and until the control replies have told which there are.
        draws: Simulated outputs of each aggregate; 1 where none are simulated.
        copies: Other partitions that hold the canary in both contexts.
        assumption: How often the model notices canaries and raises false alarms, for the power.
        first_look: Pairs of the first of the earlier results that were computed from the same
            pairs, where they are of another number; 0 if that audit ended early. Stakes then aim
            where those of that result did; None if there is no such result.
    """

    claim: Claim
    guarantee: Guarantee = NonPrivate()
    confidence: float = 0.95
    pairs: int = 100
    pilot: int = 0
    levels: tuple[float, ...] = (0.5,)
    rule: ThresholdRule = Fixed()
    early_stop: bool = False
    answers: int = 1
    sigma: float | None = None
    voters: int | None = None
    two_answers: bool = True
    known: KnownScores | None = None
    noise_levels: tuple[float, ...] = ()
    served: bool = False
    replies: bool = False
    channels: tuple[str, ...] = ()
    draws: int = 2000
    copies: int = 0
    assumption: Assumption = PERFECT
    first_look: int | None = None

    @property
    def horizon(self) -> int | None:
        """Number of pairs at which the stakes of an e-process aim; None for an early end.

        After a look, whoever chose the number of pairs may have chosen it by what was seen. Stakes
        that aim at it would depend on pairs that they are placed on; so the e-process of the first
        result goes on.
        """
        if self.first_look is not None:
            return self.first_look or None
        return None if self.early_stop else self.pairs

    @property
    def thresholds(self) -> Floats:
        """(K,) thresholds of the e-process."""
        if self.known is not None:
            return self.known.thresholds
        return np.asarray(self.noise_levels or self.levels, float)

    @property
    def one_answer(self) -> bool:
        """Whether an output is one answer of a system, not what a private mechanism makes of
        several."""
        return not self.served and (self.voters or 1) == 1

    @property
    def claim_is_guaranteed(self) -> bool:
        """Whether a Gaussian guarantee implies the claim, up to the rounding of a calibration."""
        known, most = isinstance(self.guarantee, Gaussian), self.claim.epsilon * (1 + ROUNDING)
        return known and self.claim.delta > 0 and self.guarantee.epsilon(self.claim.delta) <= most

    @property
    def hypotheses(self) -> tuple[Literal["claim", "guarantee"], ...]:
        """What is tested, in this order, each only if the one before it was rejected.

        The guarantee comes first where it implies the claim, so one test speaks for both. Testing
        in a fixed order keeps the error of all tests together at that of one.
        """
        if not isinstance(self.guarantee, Gaussian):
            return ("claim",)
        return ("guarantee", "claim") if self.claim_is_guaranteed else ("claim", "guarantee")

    @property
    def tested(self) -> Guarantee:
        """What is tested first: the guarantee if it is Gaussian and implies the claim, else the
        claim."""
        return self.guarantee if self.hypotheses[0] == "guarantee" else self.claim.guarantee()

    @property
    def guarantee_mu(self) -> float | None:
        """mu of the guarantee where it is Gaussian, else None."""
        return self.guarantee.mu if isinstance(self.guarantee, Gaussian) else None

    def threshold_pairs(self, pairs: int) -> int:
        """How many of the first `pairs` pairs choose the threshold.

        Args:
            pairs: Number of collected pairs.

        Returns:
            A number of pairs: none unless the rule splits them.
        """
        return int(pairs * self.rule.fraction) if isinstance(self.rule, Split) else 0

    def require_pairs(self) -> None:
        """Refuse a design in which no pair is left to choose a threshold on, or to test.

        Raises:
            UsageError: If there are too few pairs.
        """
        chosen = self.threshold_pairs(self.pairs)
        if isinstance(self.rule, Split) and not 1 <= chosen < self.pairs:
            raise UsageError(
                f"{self.pairs} pairs leave none to choose a threshold on, or none to test "
                f"({self.rule}); use at least {max(2, int(1 / self.rule.fraction))} pairs, or give "
                "--threshold."
            )
        if self.pilot >= self.pairs:
            raise UsageError(
                f"pairs is {self.pairs}, and reference_direction learns on the first one; use at "
                "least 2 pairs."
            )


@dataclass(frozen=True, slots=True)
class PairedScores:
    """Scores of both contexts of some pairs.

    Args:
        member: (pairs,) or (pairs, draws) scores of the canary-in context.
        nonmember: The same of the canary-out context. Several draws of one pair are not independent
            trials.
    """

    member: Floats
    nonmember: Floats

    def __len__(self) -> int:
        return len(self.member)

    def part(self, pairs: slice) -> PairedScores:
        """The scores of some of the pairs.

        Args:
            pairs: Which pairs.

        Returns:
            Their scores.
        """
        return PairedScores(self.member[pairs], self.nonmember[pairs])


@dataclass(frozen=True, slots=True, repr=False)
class Observations:
    """What one batch of pairs shows; each part is computed once, and only if an estimator reads it.

    Args:
        first: Index of the first pair.
        pairs: Number of pairs.
        trial_scores: (pairs,) scores of one output a context: what one trial sees.
        simulated_scores: (pairs, draws) scores of many outputs of the same aggregates.
        vote_margins: (pairs,) votes for the canary-in answer less those for the canary-out answer.
        distribution_pairs: Output distributions of both contexts of each pair, None where unknown.
        text_pairs: What the output of each trial says, of both contexts of each pair (PRIVATE).
        level_chances: (pairs, K) exact chances of the score at the thresholds of the e-process;
            rows of NaN where they are not known.
        corrected_scores: (pairs,) scores of the outputs of a trial, less the noise of the output
            that was released before the pair; NaN where that is not known.
        reply_pairs: For each pair, the replies of both contexts, None where nothing is shown, and
            the text of the canary (PRIVATE).
        channels: What each channel of a system shows by itself, by its name.
    """

    first: int
    pairs: int
    trial_scores: PairedScores | None = None
    simulated_scores: PairedScores | None = None
    vote_margins: PairedScores | None = None
    distribution_pairs: tuple[DistributionPair, ...] | None = None
    text_pairs: tuple[tuple[str, str], ...] | None = None
    level_chances: PairedScores | None = None
    corrected_scores: PairedScores | None = None
    reply_pairs: tuple[tuple[ReplyPair, str], ...] | None = None
    channels: dict[str, Observations] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Observations(first={self.first}, pairs={self.pairs}, <private>)"

    @property
    def trials(self) -> PairedScores:
        """(pairs,) scores of one output a context; for `reads` with "trials"."""
        return _read(self.trial_scores, "trials")

    @property
    def simulated(self) -> PairedScores:
        """(pairs, draws) scores of simulated outputs; for `reads` with "trials"."""
        return _read(self.simulated_scores, "trials")

    @property
    def votes(self) -> PairedScores:
        """(pairs,) vote margins before noise; for `reads` with "votes"."""
        return _read(self.vote_margins, "votes")

    @property
    def distributions(self) -> tuple[DistributionPair, ...]:
        """Output distributions of both contexts; for `reads` with "distribution"."""
        return _read(self.distribution_pairs, "distribution")

    @property
    def texts(self) -> tuple[tuple[str, str], ...]:
        """Texts of both contexts' outputs; for `reads` with "text"."""
        return _read(self.text_pairs, "text")

    def after(self, pilot: int) -> slice:
        """Which of these pairs come after the pilot.

        Args:
            pilot: Number of pilot pairs.

        Returns:
            A slice of the batch.
        """
        return slice(max(0, pilot - self.first), None)


def _read(values: T | None, what: Reads) -> T:
    if values is None:
        raise UsageError(f"an estimator reads {what} without saying so; add {what!r} to its reads.")
    return values


class Observer(Protocol):
    """What an estimator has seen of one audit."""

    def observe(self, observations: Observations) -> None:
        """Take in the next batch of pairs.

        Args:
            observations: Pairs in their order, each given once.
        """

    @property
    def rejected(self) -> bool:
        """Cheap: may the bounds now exceed what is tested? An audit that may stop early computes
        them only then. Estimators for a fixed number of pairs say False."""

    def bounds(self) -> tuple[Estimate, ...]:
        """What the pairs so far show.

        Returns:
            The estimate of epsilon that decides, then the one of mu if there is one, then others;
            empty where there were too few pairs to say anything.
        """


class Estimator(Protocol):
    """A way to turn paired trials into bounds: a frozen value of public options.

    A class that inherits from this protocol gets the defaults below; one that does not must have
    every member.

    Attributes:
        name: Its name in catalogue, spec and result.
        kind: What its first estimate is; only a "lower_bound" may decide.
        anytime: Whether its bounds hold however the number of pairs was chosen.
        simultaneous: Whether its bounds on epsilon and on mu hold together at the stated
            confidence; else only one of them decides.
        reads: What it needs of an observation. One that reads no outputs (trials, text or replies)
            takes the noise as declared, and finds no violation only where the noise fits.
    """

    __slots__ = ()
    name: ClassVar[str]
    kind: ClassVar[Kind]
    anytime: ClassVar[bool]
    simultaneous: ClassVar[bool]
    reads: ClassVar[frozenset[Reads]]

    def check(self, design: TrialDesign) -> None:
        """Refuse, before any model call, a design that this estimator cannot read.

        By default, that is early stopping unless it is anytime-valid.

        Args:
            design: What is known beforehand.

        Raises:
            UsageError: With a sentence that says what to use instead.
        """
        require_fixed_size(self, design)

    @abstractmethod
    def begin(self, design: TrialDesign) -> Observer:
        """An observer that has seen no pair.

        Args:
            design: What is known beforehand; `check` accepts it.

        Returns:
            An observer of one audit.
        """

    def tested_pairs(self, design: TrialDesign, pairs: int) -> int:
        """How many of so many pairs enter the bounds.

        Args:
            design: What is known beforehand.
            pairs: Collected pairs.

        Returns:
            By default, all pairs after those that teach the score.
        """
        return max(0, pairs - design.pilot)

    @abstractmethod
    def largest_certifiable(self, design: TrialDesign, pairs: int) -> Bounds:
        """The bounds that a perfect attack on a system without any protection would reach.

        Args:
            design: What is known beforehand.
            pairs: Collected pairs.

        Returns:
            Bounds; no_violation is said only where they exceed the claim or the guarantee.
        """

    def power(self, design: TrialDesign, pairs: int, leak: float) -> Power | None:
        """Probability of a rejection where the system leaks more than it should.

        Args:
            design: What is known beforehand, with how often the model notices canaries.
            pairs: Collected pairs.
            leak: True leakage in units of what is tested (mu of a Gaussian guarantee, else epsilon
                of the claim).

        Returns:
            A probability, exact or simulated; by default None, which says that no formula is known.
        """
        return None

    def pairs_needed(self, design: TrialDesign) -> int | None:
        """Fewest tested pairs with which a perfect attack rejects what is tested.

        Args:
            design: What is known beforehand.

        Returns:
            By default, the fewest pairs at which the largest certifiable bounds exceed the claim or
            the guarantee; None beyond a few thousand.
        """
        start = replace(design, pilot=0, rule=Fixed())

        def enough(pairs: int) -> bool:
            return exceeds(self.largest_certifiable(start, pairs), design)

        low, high = 0, 1
        while not enough(high):
            low, high = high, 2 * high
            if low >= MOST_PAIRS:
                return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high


def exceeds(bounds: Bounds, design: TrialDesign) -> bool:
    """Do bounds exceed what is tested first?

    Args:
        bounds: Of one estimator.
        design: Claim and guarantee.

    Returns:
        Whether mu exceeds the guarantee, or epsilon the claim, whichever is tested first; an
        estimator without a bound on mu tests the claim alone.
    """
    if design.hypotheses[0] == "guarantee" and bounds.mu is not None:
        return bounds.mu > (design.guarantee_mu or 0.0)
    return bounds.epsilon > design.claim.epsilon


def require_deciding(estimator: Estimator, design: TrialDesign) -> None:
    """Refuse an estimator that cannot decide this design.

    Args:
        estimator: What is to decide.
        design: What is known beforehand.

    Raises:
        UsageError: If its first estimate is no lower bound, or `check` refuses the design.
    """
    if estimator.kind != "lower_bound":
        what = "point estimate" if estimator.kind == "point_estimate" else "credible bound"
        raise UsageError(
            f"{estimator.name} gives a {what}, and only a lower bound decides a verdict; use "
            "--estimator e_process."
        )
    require_fixed_size(estimator, design)
    estimator.check(design)


def require_fixed_size(estimator: Estimator, design: TrialDesign) -> None:
    """Refuse early stopping for an estimator whose bounds need a number of pairs fixed beforehand.

    Args:
        estimator: The estimator.
        design: What is known beforehand.

    Raises:
        UsageError: If the audit may stop early and the estimator is not anytime-valid.
    """
    if design.early_stop and not estimator.anytime:
        raise UsageError(
            "stop_when_rejected needs an anytime-valid estimator; add --estimator e_process."
        )


def threshold_rule(text: str | float | None, default: ThresholdRule) -> ThresholdRule:
    """The rule that a setting names.

    Args:
        text: A number, "split", "split:0.3", "bonferroni" or "best"; None: the default.
        default: The score's own rule.

    Returns:
        How the threshold of single outputs is chosen.

    Raises:
        UsageError: If the setting names no rule.

    Examples:
        >>> print(threshold_rule("split:0.3", Fixed()))
        split: chosen on the first 30% of the pairs, which enter no bound
    """
    name, _, fraction = str(text).partition(":")
    if text is None:
        return default
    try:
        if name == "split":
            return Split(float(fraction)) if fraction else Split()
        if fraction == "" and name in ("bonferroni", "best"):
            return Bonferroni() if name == "bonferroni" else BestOnSameData()
        return Fixed(float(text))
    except UsageError:
        raise
    except ValueError:
        raise UsageError(f"the threshold is {text!r}; it must be {RULES}.") from None
