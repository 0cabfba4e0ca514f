"""Base of estimators: frozen values that turn paired trials into bounds, in one pass.

A paired trial sends the same query to two contexts that differ by the canary. `member` refers to
the canary-in context of a pair, `nonmember` to the canary-out context.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Protocol, TypeVar

import numpy as np

from leakbound._check import delta_value, epsilon_value
from leakbound._members import members_of, require_stated
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
from leakbound.stats.arrays import Floats
from leakbound.stats.e_values.anytime import MixedEProcess
from leakbound.stats.noise.votes import KnownScores
from leakbound.stats.power import PERFECT, least_number
from leakbound.witness import StoredReply

ROUNDING = 1e-6  # a calibrated guarantee equals the claim up to this relative error
MOST_PAIRS = 4096  # most pairs for which a plan looks for a rejection; enough for claims up to 7
BOTH = "two-sided: that members score higher, and that they score lower, each with half the error"
# accuracies of attacks for which the power is shown, from hardly better than a coin to strong
ACCURACIES = (0.55, 0.6, 0.7, 0.8, 0.9)
RULES = "a number, 'split', 'split:0.3', 'bonferroni' or 'best'"
T = TypeVar("T")
Reads = Literal["trials", "chances", "votes", "distribution", "text", "replies", "channels"]
Independence = Literal["no", "assumed", "declared"]
Distribution = OutputDistribution | None
ReplyPair = tuple[StoredReply | None, StoredReply | None]
DistributionPair = tuple[Distribution, Distribution]
AccuracyPower = tuple[tuple[float, Power], ...]  # of attacks, by their accuracy


@dataclass(frozen=True, slots=True)
class Claim:
    """Claim of the operator: (epsilon, delta)-DP under a neighbouring relation.

    Args:
        epsilon: Claimed epsilon, for all outputs that a trial sees.
        delta: Claimed delta.
        relation: How neighbouring contexts differ.
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
        return ApproxDP(self.epsilon, self.delta, self.relation)


@dataclass(frozen=True, slots=True)
class Bounds:
    """A pair of bounds.

    Args:
        epsilon: Bound on epsilon at the claim's delta.
        mu: Bound on mu of Gaussian differential privacy; None if the estimator gives none.
    """

    epsilon: float
    mu: float | None = None


@dataclass(frozen=True, slots=True)
class TrialDesign:
    """Design of the trials: everything that an estimator knows before the first model call.

    Args:
        claim: The claim of the operator.
        guarantee: Guarantee that the mechanism is proven to satisfy, for all outputs of a trial.
        confidence: Confidence of every bound.
        pairs: Planned number of paired trials.
        pilot: Number of first pairs that only train the score. No bound uses them.
        levels: Thresholds of the score, fixed beforehand.
        rule: How the threshold of a decision is chosen.
        early_stop: Whether the audit ends once the claim or the guarantee is rejected.
        answers: Number of outputs of each context in a trial.
        sigma: Standard deviation of the Gaussian noise on each vote count; None if the output
            contains no noisy votes.
        voters: Number of answers that an aggregate counts; None if it counts none or the number is
            unknown.
        known: Scores whose probabilities are known exactly given the votes, with the pairs of
            probabilities that the design allows; None if a score depends on more than votes.
        noise_levels: Thresholds of the e-process, which extend as far as the noise; if empty,
            `levels` are used.
        served: Whether outputs come from the mechanism's own `release`. They are then also audited
            one by one, as they are served.
        replies: Whether answers are free texts or have metadata. A learned witness then reads whole
            replies in addition to the score.
        channels: Channels of a system that are tested separately. Empty if whole replies are read,
            and before the control replies have shown which channels exist.
        draws: Number of simulated outputs of each aggregate; 1 if none are simulated.
        copies: Number of other partitions that contain the canary in both contexts.
        assumption: How often the model notices canaries and raises false alarms, for the power.
        independence: Whether the two answers of a pair are independent of each other, given what
            came before and the two contexts: declared, assumed, or neither ("no").
        code_chance: Largest probability that a reply which does not depend on the canary holds what
            the score looks for in it; None if that is not known beforehand.
        first_look: Number of pairs of the first earlier result that was computed from the same
            pairs, if that number differs; 0 if that audit ended early. Stakes then have the same
            target as in that result. None if there is no such result.
        isolation: Whether a claim of 0 is that of a staged design, and not of random guessing.
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
    known: KnownScores | None = None
    noise_levels: tuple[float, ...] = ()
    served: bool = False
    replies: bool = False
    channels: tuple[str, ...] = ()
    draws: int = 2000
    copies: int = 0
    assumption: Assumption = PERFECT
    independence: Independence = "no"
    code_chance: float | None = None
    first_look: int | None = None
    isolation: bool = False

    @property
    def horizon(self) -> int | None:
        """Number of pairs that the stakes of an e-process aim at; None if the audit may end early.

        After a look at a result, the number of pairs may have been chosen in view of it, and stakes
        must not depend on pairs that they are placed on: the first result's process is continued.
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
        """Whether an output is a single answer of a system, and not one that a private mechanism
        combines from several."""
        return not self.served and (self.voters or 1) == 1

    @property
    def hypotheses(self) -> tuple[Literal["claim", "guarantee"], ...]:
        """The tested hypotheses in order. Each is tested only if the one before it was rejected.

        If the guarantee implies the claim, it comes first, so one test covers both. Testing in a
        fixed order keeps the total error of all tests at that of one.
        """
        if not isinstance(self.guarantee, Gaussian):
            return ("claim",)
        most, delta = self.claim.epsilon * (1 + ROUNDING), self.claim.delta
        implied = delta > 0 and self.guarantee.epsilon(delta) <= most
        return ("guarantee", "claim") if implied else ("claim", "guarantee")

    @property
    def tested(self) -> Guarantee:
        """The first hypothesis: the guarantee if it is Gaussian and implies the claim, else the
        claim."""
        return self.guarantee if self.hypotheses[0] == "guarantee" else self.claim.guarantee()

    @property
    def one_side(self) -> TrialDesign:
        """The design of one of two sides, each of which has half of the error."""
        return replace(self, confidence=1 - (1 - self.confidence) / 2)

    @property
    def guarantee_mu(self) -> float | None:
        """mu of the guarantee if it is Gaussian, else None."""
        return self.guarantee.mu if isinstance(self.guarantee, Gaussian) else None

    def threshold_pairs(self, pairs: int) -> int:
        """Number of pairs, out of the first `pairs`, that choose the threshold; 0 unless the rule
        splits them."""
        return int(pairs * self.rule.fraction) if isinstance(self.rule, Split) else 0

    def untested_pairs(self, pairs: int) -> int:
        """Number of pairs, out of the first `pairs`, that train the score or choose its threshold,
        and so enter no error count."""
        return max(self.pilot, self.threshold_pairs(pairs))

    def require_pairs(self) -> None:
        """Refuse a design that leaves no pair to choose a threshold on, or no pair to test."""
        chosen = self.threshold_pairs(self.pairs)
        if isinstance(self.rule, Split) and chosen < 1:  # a share is at most 0.9
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
    """Scores of both contexts of some pairs. Several draws of a pair are not independent trials.

    Args:
        member: (pairs,) or (pairs, draws) scores of the canary-in context.
        nonmember: The same for the canary-out context.
    """

    member: Floats
    nonmember: Floats

    def __len__(self) -> int:
        return len(self.member)

    def part(self, pairs: slice) -> PairedScores:
        return self.map(lambda scores: scores[pairs])

    def map(self, function: Callable[[Floats], Floats]) -> PairedScores:
        """A function of the scores of each context."""
        return PairedScores(function(self.member), function(self.nonmember))

    def exchange(self) -> PairedScores:
        return PairedScores(self.nonmember, self.member)


@dataclass(frozen=True, slots=True, repr=False)
class Observations:
    """Observations of one batch of pairs. Each part is computed once, and only if it is read.

    Args:
        first: Index of the first pair.
        pairs: Number of pairs.
        trial_scores: (pairs,) scores of one output per context, as seen in one trial.
        simulated_scores: (pairs, draws) scores of many outputs of the same aggregates.
        vote_margins: (pairs,) votes for the canary-in answer minus those for the canary-out answer.
        distribution_pairs: Output distributions of both contexts of each pair; None if unknown.
        text_pairs: Texts of the outputs of each trial, for both contexts of each pair (PRIVATE).
        level_chances: (pairs, K) exact probabilities of the score at the thresholds of the
            e-process; rows of NaN if they are not known.
        corrected_scores: (pairs,) scores of the outputs of a trial, minus the noise of the output
            that was served before the pair; NaN if that noise is not known.
        reply_pairs: For each pair, the replies of both contexts (None if nothing is shown) and the
            text of the canary (PRIVATE).
        channels: Observations of each channel of a system, by name.
        stateful: Whether the state check has found that answers depend on what was asked before.
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
    stateful: bool = False

    def __repr__(self) -> str:
        return f"Observations(first={self.first}, pairs={self.pairs}, <private>)"

    @property
    def trials(self) -> PairedScores:
        """(pairs,) scores of one output per context; for `reads` with "trials"."""
        return _require_read(self.trial_scores, "trials")

    @property
    def simulated(self) -> PairedScores:
        """(pairs, draws) scores of simulated outputs; for `reads` with "trials"."""
        return _require_read(self.simulated_scores, "trials")

    @property
    def votes(self) -> PairedScores:
        """(pairs,) vote margins before noise; for `reads` with "votes"."""
        return _require_read(self.vote_margins, "votes")

    @property
    def distributions(self) -> tuple[DistributionPair, ...]:
        """Output distributions of both contexts; for `reads` with "distribution"."""
        return _require_read(self.distribution_pairs, "distribution")

    @property
    def texts(self) -> tuple[tuple[str, str], ...]:
        """Texts of both contexts' outputs; for `reads` with "text"."""
        return _require_read(self.text_pairs, "text")

    def after(self, pilot: int) -> slice:
        """Which of these pairs come after so many pilot pairs."""
        return slice(max(0, pilot - self.first), None)

    def exchange(self) -> Observations:
        replies, distributions, texts = self.reply_pairs, self.distribution_pairs, self.text_pairs
        return replace(
            self,
            trial_scores=self.trial_scores and self.trial_scores.exchange(),
            simulated_scores=self.simulated_scores and self.simulated_scores.exchange(),
            vote_margins=self.vote_margins and self.vote_margins.exchange(),
            distribution_pairs=distributions and tuple((b, a) for a, b in distributions),
            text_pairs=texts and tuple((b, a) for a, b in texts),
            level_chances=self.level_chances and self.level_chances.exchange(),
            corrected_scores=self.corrected_scores and self.corrected_scores.exchange(),
            reply_pairs=replies and tuple(((b, a), canary) for (a, b), canary in replies),
        )


def _require_read(values: T | None, what: Reads) -> T:
    if values is None:
        raise UsageError(f"an estimator reads {what} undeclared; add {what!r} to its reads.")
    return values


class Observer(Protocol):
    """State of an estimator over the pairs of one audit."""

    @property
    def process(self) -> MixedEProcess | None:
        """The e-values, whose path the result shows; None where there are none."""

    def observe(self, observations: Observations) -> None:
        """Add the next batch of pairs, in order, each given once."""

    @property
    def rejected(self) -> bool:
        """Whether the bounds may now exceed what is tested. This check is cheap: an audit that may
        stop early computes the bounds only if it is True. It is False for estimators that need a
        fixed number of pairs."""

    def bounds(self) -> tuple[Estimate, ...]:
        """Estimates from the pairs so far; none if there were too few.

        The estimate of epsilon that decides, then that of mu if there is one, then others.
        """


class FixedSize:
    """An observer without e-values, for a number of pairs that is fixed beforehand."""

    process = None
    rejected = False


class Estimator(Protocol):
    """A method that turns paired trials into bounds: a frozen value of public options.

    Classes that inherit from this protocol get the defaults below. Other classes must define every
    member.

    Attributes:
        name: Name in catalogue, spec and result.
        kind: Kind of its first estimate. Only a "lower_bound" may decide.
        anytime: Whether its bounds hold however the number of pairs was chosen.
        simultaneous: Whether its bounds on epsilon and on mu hold together at the stated
            confidence. Otherwise only one of them decides.
        reads: Parts of an observation that it needs. An estimator that reads no outputs (trials,
            text or replies) assumes the noise is as declared, and reports no violation only if the
            noise fits.
    """

    __slots__ = ()
    name: ClassVar[str]
    kind: ClassVar[Kind]
    anytime: ClassVar[bool]
    simultaneous: ClassVar[bool]
    reads: ClassVar[frozenset[Reads]]

    def check(self, design: TrialDesign) -> None:
        """Refuse, before any model call, a design that this estimator cannot read.

        By default, this refuses early stopping unless the estimator is anytime-valid.

        Raises:
            UsageError: If the design is refused. The message says what to use instead.
        """
        require_fixed_size(self, design)

    def by_channel(self) -> Estimator | None:
        """The estimator that tests each channel of a system apart; None if there is none."""
        return None

    def two_sided(self) -> Estimator | None:
        """The test of random guessing on both sides; None if this estimator reads one side only."""
        return None

    @abstractmethod
    def begin(self, design: TrialDesign) -> Observer:
        """An observer that has seen no pair, for a design that `check` accepts."""

    def tested_pairs(self, design: TrialDesign, pairs: int) -> int:
        """How many of the collected pairs enter the bounds.

        By default, all after those that train the score.
        """
        return max(0, pairs - design.pilot)

    @abstractmethod
    def largest_certifiable(self, design: TrialDesign, pairs: int) -> Bounds:
        """The bounds that a perfect attack on an unprotected system would reach.

        The verdict is no_violation only if they exceed the claim or the guarantee.
        """

    def power(self, design: TrialDesign, pairs: int, leak: float) -> Power | None:
        """Probability of a rejection if the system leaks more than it should, exact or simulated.

        By default None: no formula is known.

        Args:
            design: Design of the trials, including how often the model notices canaries.
            pairs: Number of collected pairs.
            leak: True leakage in units of the tested parameter (mu of a Gaussian guarantee, else
                epsilon of the claim).
        """
        return None

    def accuracy_power(self, design: TrialDesign, pairs: int) -> AccuracyPower:
        """Probability that attacks with given accuracies reject random guessing; none if the
        estimator does not test it."""
        return ()

    def pairs_needed(self, design: TrialDesign) -> int | None:
        """Smallest number of tested pairs with which a perfect attack leads to a rejection.

        By default, the smallest at which the largest certifiable bounds exceed the claim or the
        guarantee. None above a few thousand.
        """
        start = replace(design, pilot=0, rule=Fixed())

        def enough(pairs: int) -> bool:
            return exceeds(self.largest_certifiable(start, pairs), design)

        return least_number(enough, MOST_PAIRS)


def exceeds(bounds: Bounds, design: TrialDesign) -> bool:
    """Whether bounds exceed the hypothesis that is tested first."""
    if design.hypotheses[0] == "guarantee" and bounds.mu is not None:
        return bounds.mu > (design.guarantee_mu or 0.0)
    return bounds.epsilon > design.claim.epsilon


def require_deciding(estimator: Estimator, design: TrialDesign) -> None:
    """Refuse an estimator that cannot decide this design.

    Raises:
        UsageError: If its first estimate is not a lower bound, or `check` refuses the design.
    """
    if estimator.kind != "lower_bound":
        what = "point estimate" if estimator.kind == "point_estimate" else "credible bound"
        raise UsageError(
            f"{estimator.name} gives a {what}, and only a lower bound decides a verdict; use "
            "--estimator e_process."
        )
    # records know bounds by the name of what made them
    stated = {"name": "", "anytime": False, "simultaneous": False}
    require_stated("estimator", estimator, stated, {*members_of(Estimator)} - {"begin"})
    require_fixed_size(estimator, design)
    estimator.check(design)


def require_fixed_size(estimator: Estimator, design: TrialDesign) -> None:
    """Refuse early stopping for bounds that need a number of pairs fixed beforehand."""
    if design.early_stop and not estimator.anytime:
        raise UsageError(
            "stop_when_rejected needs an anytime-valid estimator; add --estimator e_process."
        )


def say_two_sided(bound: Estimate) -> Estimate:
    return replace(bound, assumptions=(*bound.assumptions, BOTH))


def threshold_rule(text: str | float | None, default: ThresholdRule) -> ThresholdRule:
    """The threshold rule that a setting names.

    Args:
        text: A number, "split", "split:0.3", "bonferroni" or "best"; None for the default.
        default: The default rule of the score.

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
            return Split(float(fraction)) if name != text else Split()
        if fraction == "" and name in ("bonferroni", "best"):
            return Bonferroni() if name == "bonferroni" else BestOnSameData()
        return Fixed(float(text))
    except UsageError as error:
        raise UsageError(f"the threshold is {text!r}, and its {error}") from None
    except ValueError:
        raise UsageError(f"the threshold is {text!r}; it must be {RULES}.") from None
