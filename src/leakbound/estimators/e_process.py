"""The e-process, the default estimator: anytime-valid bounds from e-values, pair by pair.

It is a mixture of e-processes over the same pairs:

- "exact": the probability, under the declared output distribution, that the score is at or above
  each threshold. Only the votes are sampled. The noise is assumed to be as declared.
- "simulated": the share of many outputs of the mechanism's own `release` at or above each
  threshold.
- "served": single outputs, each from a separate call, as in production.
- "product": the single answers of a system once more, each bet on apart. It is valid only if the
  two answers of a pair are independent of each other. Where that is declared or assumed, it has
  half of the weight of the score. It is 0 if the state check rejects.
- "codes": whether a reply quotes the random code of the canary. How often that happens by chance
  is known, so nothing has to be learned from the other context. It has a tenth of all weight where
  the attack looks for such a code.
- "order": which reply of a pair has the larger measurement, where the claim is that of a staged
  design and a coin drew the order. It has a tenth of all weight.
- "witness": whole replies, i.e. free texts with their metadata, on which a witness is learned from
  earlier pairs. Its weight is one half wherever there are such replies.

The second and third part detect a `release` that does not match a correct declaration. Where no
distribution is known, shares of simulated outputs replace it, or the one answer of a system.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, TypeVar, cast

import numpy as np

from leakbound import stats
from leakbound.estimators.base import (
    MOST_PAIRS,
    AccuracyPower,
    Bounds,
    Estimator,
    Observations,
    PairedScores,
    Reads,
    TrialDesign,
    say_two_sided,
)
from leakbound.estimators.served_columns import ServedColumns
from leakbound.estimators.simulated_power import (
    Crowd,
    PairSimulator,
    PlainTest,
    YesNo,
    process_accuracy_power,
    simulate_power,
    thin,
)
from leakbound.estimators.witness import WitnessEvidence, larger_in
from leakbound.stats import BoundReading, Estimate, Kind, Power
from leakbound.stats.arrays import Floats
from leakbound.stats.e_values.anytime import Evidence, MixedEProcess
from leakbound.stats.e_values.bets import CodeBet, OrderBet, ProductBet
from leakbound.stats.noise.votes import KnownScores
from leakbound.tasks import ANSWER

AT_ONCE = 512  # pairs of a plan; few enough that a rejection ends the calculation early


Bet = TypeVar("Bet")
Played = tuple[Floats, Floats]
Replayed = Callable[[Evidence], Floats]
# Weight of the parts that read outputs: the exact part gives up ln(1/0.88) = 0.13 of the 3.0 that a
# rejection at 95 % takes. Missing noise at claim 8 is detected after 24 pairs (25 with 0.1).
RELEASED = 0.12
PRODUCT = 0.5  # share of the weight of a score that its product bet has
INDEPENDENT = (
    "the two answers of a pair are independent of each other, given what came before and the two "
    "contexts ({}, not tested)"
)
WITHOUT = "epsilon_without_independence"  # the bound by everything but the product bet
LOWER = "The attack scores lower where the canary is."
ORDER = 0.1  # weight of comparisons within pairs, of staged designs
CODES = 0.1  # weight of quoted codes, where a code is looked for: the rest gives up 0.105 of 3.0
LONGEST = "no reply has more than a million characters"
WITNESS = 0.5  # weight of the learned witness next to a score; it is unknown which will see more


class SequentialTest(Estimator):
    """Tests the claim or the guarantee by e-processes, all of which are as that of `single`."""

    __slots__ = ()
    kind: ClassVar[Kind] = "lower_bound"
    anytime: ClassVar[bool] = True
    simultaneous: ClassVar[bool] = False
    reads: ClassVar[frozenset[Reads]] = frozenset({"trials", "chances", "replies"})

    def single(self, design: TrialDesign) -> TrialDesign:
        """Design of one of its e-processes, with the share of the error that it may spend alone."""
        return design

    def largest_certifiable(self, design: TrialDesign, pairs: int) -> Bounds:
        """The bounds of one e-process if every canary-in score is 1, and every other one 0."""
        return _largest(self.single(design), self.tested_pairs(design, pairs))

    def power(self, design: TrialDesign, pairs: int, leak: float) -> Power | None:
        """Share of simulated audits that reject: noise less by `leak`, or randomised response."""
        one = self.single(design)
        scene, weight = _imagine(one, leak)
        if scene is None:
            return None
        apart = bets_apart(one) and not isinstance(scene, Crowd)
        test = PlainTest(
            one.tested, one.confidence, one.claim.delta, one.horizon,
            weight, PRODUCT if apart else 0.0, one.independence != "declared",
        )  # fmt: skip
        return simulate_power(test, self.tested_pairs(design, pairs), scene)

    def pairs_needed(self, design: TrialDesign) -> int | None:
        """Tested pairs with which a perfect attack leads to a rejection; None above thousands."""
        early = replace(self.single(design), early_stop=True)
        return EValues(early).rejected_at(MOST_PAIRS, *_perfect(early))


@dataclass(frozen=True, slots=True)
class EProcess(SequentialTest):
    """Tests a Gaussian guarantee that implies the claim, else the claim, by e-values over levels.

    The score of a pair at a threshold is the probability that an output is at or above it.

    Guarantee: each bound holds with the stated confidence at any stopping time.
    Reference: Waudby-Smith and Ramdas 2023; Ville's inequality.
    """

    name: ClassVar[str] = "e_process"
    anytime = SequentialTest.anytime

    def check(self, design: TrialDesign) -> None:
        """Refuse a claim that no trial could reject."""
        self.begin(design)

    def begin(self, design: TrialDesign) -> EValues:
        return EValues(design)

    def by_channel(self) -> ByChannel:
        return ByChannel()

    def two_sided(self) -> TwoSidedEProcess:
        return TwoSidedEProcess()


def _imagine(design: TrialDesign, leak: float) -> tuple[PairSimulator | None, float]:
    """Scores of pairs of a leaking system, and the weight of the part that sees the leak."""
    if design.hypotheses[0] == "guarantee" and design.served:
        return Crowd.of(design, leak), RELEASED / (2 if design.draws > 1 else 1)
    scored = 1 - WITNESS if design.replies else 1.0
    if not design.one_answer:
        return None, scored
    if design.hypotheses[0] == "guarantee":
        return YesNo.noisy(leak * (design.guarantee_mu or 0.0), design.assumption), scored
    return YesNo(*design.assumption.rates(leak * design.claim.epsilon)), scored


@lru_cache(maxsize=64)
def _largest(design: TrialDesign, pairs: int) -> Bounds:
    perfect = EValues(design)
    perfect.play(pairs, *_perfect(design))
    epsilon, mu = perfect.bounds()
    return Bounds(epsilon.epsilon or 0.0, mu.mu or 0.0)


def _perfect(design: TrialDesign) -> tuple[Played, Played]:
    """Scores of a perfect attack: of outputs, and of the declared distribution as far as it can."""
    released = np.ones(1), np.zeros(1)
    return released, released if design.known is None else design.known.expected()


class _PairedEValues(ABC):
    """E-values of one audit: the bounds of a mixture, and what carries them."""

    design: TrialDesign

    @property
    @abstractmethod
    def process(self) -> MixedEProcess:
        """The mixture of all e-values."""

    def bounds(self) -> tuple[Estimate, ...]:
        """Lower bounds on epsilon(delta) and mu, with what carries that of the hypothesis."""
        least = 1e-12  # mu implies no finite epsilon at delta 0; mu itself does not depend on delta
        process, delta = self.process, self.design.claim.delta
        epsilon = process.epsilon_lower_bound(delta)
        mu = process.mu_lower_bound(max(delta, least))
        if not process.pairs:
            return epsilon, mu

        def replay(part: Evidence) -> Floats:
            if self.design.hypotheses[0] == "guarantee":
                return part.mu_paths(np.array([mu.mu]))
            return part.epsilon_paths(np.array([epsilon.epsilon]), delta)

        reading, assumes, details = self.reading(replay), epsilon.assumptions, epsilon.details
        assumes = (*assumes, LONGEST) if reading.of == "codes" else assumes
        if bets_apart(self.design):
            assumes = (*assumes, INDEPENDENT.format(self.design.independence))
            if (epsilon.epsilon or 0.0) > self.design.claim.epsilon:
                least = self.without_product().epsilon_lower_bound(delta).epsilon or 0.0
                details = {**details, WITHOUT: least}
        return (
            replace(epsilon, reading=reading, assumptions=assumes, details=details),
            replace(mu, reading=reading),
        )

    def without_product(self) -> MixedEProcess:
        """What needs no independence of answers: the mixture with a product bet of 0."""
        return self.process

    @property
    def rejected(self) -> bool:
        return self.process.rejected

    @abstractmethod
    def reading(self, replay: Replayed) -> BoundReading:
        """What carries the evidence against one claim."""


class EValues(_PairedEValues):
    """The e-process of one audit: a mixture whose parts follow from what the mechanism declares."""

    def __init__(self, design: TrialDesign) -> None:
        self.design, self._tested, self._draws = design, design.tested, 1
        self._mixed = self._mixture({"score": 1.0})
        self._few = thin(design.thresholds)
        self._columns = ServedColumns(self._few, np.asarray(design.levels, float))

    @property
    def process(self) -> MixedEProcess:
        return self._mixed

    def without_product(self) -> MixedEProcess:
        parts = {name: part for name, part in self._mixed.parts.items() if name != "product"}
        return MixedEProcess(self._tested, parts, self.design.confidence)

    def _mixture(self, weights: Mapping[str, float]) -> MixedEProcess:
        parts = {name: (weight, self._part(name, weight)) for name, weight in weights.items()}
        return MixedEProcess(self._tested, parts, self.design.confidence)

    def _part(
        self, name: str, weight: float
    ) -> stats.EProcess | WitnessEvidence | ProductBet | CodeBet | OrderBet:
        design, tested, deltas = self.design, self._tested, (self.design.claim.delta,)
        if name == "codes":
            return CodeBet(tested, design.code_chance or 1.0, design.confidence, deltas)
        if name == "order":
            return OrderBet(tested, design.confidence, deltas)
        if name == "witness":
            return WitnessEvidence(design, tested, weight)
        if name == "product":
            wary = design.independence != "declared"
            return ProductBet(tested, design.confidence, deltas, wary=wary)
        known = design.known if name == "exact" else None
        support, expected = (None, None) if known is None else (known.support(), known.expected())
        return stats.EProcess(tested, design.confidence, support, deltas, expected, design.horizon)

    def observe(self, observations: Observations) -> None:
        """Update the e-value with the next pairs. Pilot pairs are ignored."""
        pairs = observations.after(self.design.pilot)
        simulated = observations.simulated.part(pairs)
        if not len(simulated):
            return
        chances, trial = observations.level_chances, observations.trial_scores
        chances = None if chances is None else chances.part(pairs)
        if not self.process.pairs:
            self._draws = simulated.member[0].size
            self._mixed = self._mixture(_weights(self.design, chances, trial, self._draws))
        shown = observations.reply_pairs
        if shown is not None and (witness := self._bet("witness", WitnessEvidence)):
            for replies, canary in shown[pairs]:
                witness.observe(replies, canary)
        if shown is not None and (order := self._bet("order", OrderBet)):
            order.extend([larger_in(replies) for replies, _ in shown[pairs]])
        if "simulated" in self.process.parts:
            self._feed("simulated", _shares(simulated, self._few))
        if codes := self._bet("codes", CodeBet):
            codes.extend(simulated.member[:, 0] >= 1.0)
        if product := self._bet("product", ProductBet):
            shares = _shares(simulated, self._few)
            product.extend(shares.member, shares.nonmember)
            if observations.stateful:
                product.void()
        if chances is None or np.isnan(chances.member).any() or "score" in self.process.parts:
            shares = _shares(simulated, self.design.thresholds)
            self._feed("score", shares)
            if chances is None:
                chances = shares
            else:  # simulated shares in the rows where exact probabilities are not known
                known, other = chances.member, chances.nonmember
                chances = PairedScores(
                    np.where(np.isnan(known), shares.member, known),
                    np.where(np.isnan(other), shares.nonmember, other),
                )
        self._feed("exact", chances)
        if "served" in self.process.parts and trial is not None:
            less = observations.corrected_scores
            corrected = None if less is None else less.part(pairs)
            self._feed("served", PairedScores(*self._columns.of(trial.part(pairs), corrected)))

    def _bet(self, name: str, kind: type[Bet]) -> Bet | None:
        return cast(Bet, self.process.parts[name][1]) if name in self.process.parts else None

    def _feed(self, name: str, scores: PairedScores) -> None:
        if name in self.process.parts:
            self._process(name).extend(scores.member, scores.nonmember)

    def _process(self, name: str) -> stats.EProcess:
        _, part = self.process.parts[name]
        if not isinstance(part, stats.EProcess):
            raise TypeError(f"{name} is {type(part).__name__}, which is fed elsewhere.")
        return part

    def play(self, pairs: int, released: Played, declared: Played) -> None:
        """Update the e-value with equal pairs of a hypothetical mechanism."""
        if not pairs:
            return
        if not self.process.pairs:
            self._mixed = self._mixture(_plan_weights(self.design))
        for name in self.process.parts:
            x, y = (np.tile(one, (pairs, 1)) for one in (declared if name == "exact" else released))
            if product := self._bet(name, ProductBet) if name == "product" else None:
                product.extend(x, y)
            else:
                self._feed(name, PairedScores(x, y))

    def reading(self, replay: Replayed) -> BoundReading:
        name = self.process.leading(replay)
        if name == "witness" and (witness := self._bet(name, WitnessEvidence)):
            return witness.reading()
        if name == "order" and (order := self._bet(name, OrderBet)):
            return BoundReading("replies", "", *order.counts())
        if name == "codes" and (codes := self._bet(name, CodeBet)):
            return BoundReading("codes", "", codes.hits, codes.pairs)
        if name == "product":
            right, guesses = self._process("score").pointed()
            return BoundReading("score", "", right, guesses, LOWER if 2 * right < guesses else "")
        drawn = name == "served" or (name == "score" and self._draws == 1)
        if drawn or self.design.one_answer:
            return BoundReading("score", "", *self._process(name).pointed())
        return BoundReading("distribution")

    def rejected_at(self, pairs: int, released: Played, declared: Played) -> int | None:
        """Number of equal pairs after which a hypothetical mechanism is rejected."""
        for _ in range(0, pairs, AT_ONCE):
            if self.rejected:
                break
            self.play(AT_ONCE, released, declared)
        return self.process.rejected_at


def _shares(scores: PairedScores, thresholds: Floats) -> PairedScores:
    """(pairs, thresholds) shares of (pairs, draws) scores at or above each threshold."""
    return scores.map(lambda drawn: np.stack([(drawn >= level).mean(1) for level in thresholds], 1))


def _weights(
    design: TrialDesign, chances: PairedScores | None, trial: PairedScores | None, draws: int
) -> dict[str, float]:
    """Weights of the parts that these pairs have; they sum to 1."""
    exact = chances is not None and not np.isnan(chances.member[0]).any()
    served = design.served and trial is not None
    if exact:
        released = {"simulated": draws > 1, "served": served}
        names = [name for name, there in released.items() if there and design.served]
        main = "exact"
    else:
        names, main = ["served"] if served and draws > 1 else [], "score"
    each = {name: RELEASED / len(names) for name in names}
    if design.replies:
        each["witness"] = WITNESS if main == "score" else RELEASED
        each |= {"order": ORDER} if design.isolation else {}
    if design.code_chance is not None:
        each["codes"] = CODES
    left = 1 - sum(each.values())
    return ({main: left} if main == "exact" or draws > 1 else _shared(design, left)) | each


def _shared(design: TrialDesign, weight: float) -> dict[str, float]:
    """The weight of single answers, with what is left to their product bet."""
    if not bets_apart(design):
        return {"score": weight}
    return {"score": weight * (1 - PRODUCT), "product": weight * PRODUCT}


def bets_apart(design: TrialDesign) -> bool:
    """Whether the two answers of a pair are single ones, and taken to be independent."""
    return design.independence != "no" and design.one_answer and design.answers == 1


def _plan_weights(design: TrialDesign) -> dict[str, float]:
    """Weights that a design will have, as far as they are known beforehand."""
    left = 1.0 if design.code_chance is None else 1 - CODES
    left -= ORDER * (design.isolation and design.replies)
    if design.replies:  # what the witness and quoted codes contribute is not included
        return _shared(design, left - WITNESS)
    if not design.served:
        return _shared(design, 1.0) if design.known is None else {"exact": 1.0}
    return {"exact": 1 - RELEASED, "simulated": RELEASED}  # served outputs show the same here


@dataclass(frozen=True, slots=True)
class ByChannel(SequentialTest):
    """Tests every channel with a separate e-process, and all channels together by their mean.

    With k channels, the e-value of a single channel rejects at k/alpha, so the statements about all
    single channels hold together. The mean of the e-values rejects at 1/alpha. It rejects no later
    than any channel, and earlier if several channels leak.

    Guarantee: the bound for all channels holds with the stated confidence at any stopping time, and
    so do the bounds for the single channels simultaneously, for any dependence between channels.
    Reference: Vovk and Wang, "E-values: calibration, combination and applications" (Annals of
    Statistics 2021); Bonferroni.
    """

    name: ClassVar[str] = "by_channel"
    anytime = SequentialTest.anytime
    reads: ClassVar[frozenset[Reads]] = SequentialTest.reads | {"channels"}

    def begin(self, design: TrialDesign) -> ChannelEValues:
        return ChannelEValues(design)

    def by_channel(self) -> ByChannel:
        return self

    def single(self, design: TrialDesign) -> TrialDesign:
        return channel_design(design)


def channel_design(design: TrialDesign, name: str = ANSWER) -> TrialDesign:
    shares = max(1, len(design.channels))
    confidence = 1 - (1 - design.confidence) / shares
    own = replace(design, channels=(), replies=True, confidence=confidence)
    if name == ANSWER:
        return own
    # the score of a text is whether it contains the canary
    return replace(own, levels=(0.5,), noise_levels=(), known=None)


class ChannelEValues(_PairedEValues):
    def __init__(self, design: TrialDesign) -> None:
        self.design = design
        names = design.channels or (ANSWER,)
        self.parts = {name: EValues(channel_design(design, name)) for name in names}

    @property
    def process(self) -> MixedEProcess:
        share = 1 / len(self.parts)
        parts = {name: (share, part.process) for name, part in self.parts.items()}
        return MixedEProcess(self.design.tested, parts, self.design.confidence)

    def observe(self, observations: Observations) -> None:
        for name, part in self.parts.items():
            found = observations.channels[name]
            part.observe(replace(found, stateful=observations.stateful))

    def reading(self, replay: Replayed) -> BoundReading:
        """What carries the evidence against one claim, in the channel that carries most of it."""
        name = self.process.leading(replay)
        return replace(self.parts[name].reading(replay), channel=name)


@dataclass(frozen=True, slots=True)
class TwoSidedEProcess(SequentialTest):
    """Tests each side with an e-process, and decides by the mean of their e-values.

    Guarantee: each bound holds with the stated confidence at any stopping time.
    Reference: Vovk and Wang, "E-values: calibration, combination and applications" (Annals of
        Statistics 2021).
    """

    name: ClassVar[str] = "two_sided"
    anytime = SequentialTest.anytime

    def begin(self, design: TrialDesign) -> TwoSidedEValues:
        return TwoSidedEValues(design)

    def single(self, design: TrialDesign) -> TrialDesign:
        return design.one_side

    def power(self, design: TrialDesign, pairs: int, leak: float) -> Power | None:
        """None: a claim of epsilon 0 has no multiples. See `accuracy_power`."""
        return None

    def accuracy_power(self, design: TrialDesign, pairs: int) -> AccuracyPower:
        if not design.one_answer:
            return ()
        weight, each = 1 - WITNESS if design.replies else 1.0, design.one_side.confidence
        return process_accuracy_power(
            self.tested_pairs(design, pairs), each, weight, design.early_stop
        )


class TwoSidedEValues(_PairedEValues):
    def __init__(self, design: TrialDesign) -> None:
        self.design, one = design, design.one_side
        known = None if design.known is None else _Exchanged(design.known)
        self._higher, self._lower = EValues(one), EValues(replace(one, known=known))

    @property
    def process(self) -> MixedEProcess:
        parts = {"higher": (0.5, self._higher.process), "lower": (0.5, self._lower.process)}
        return MixedEProcess(self.design.tested, parts, self.design.confidence)

    def observe(self, observations: Observations) -> None:
        self._higher.observe(observations)
        self._lower.observe(observations.exchange())

    def bounds(self) -> tuple[Estimate, ...]:
        return tuple(map(say_two_sided, super().bounds()))

    def reading(self, replay: Replayed) -> BoundReading:
        """What carries the evidence against one claim, on the side that carries most of it."""
        if self.process.leading(replay) == "higher":
            return self._higher.reading(replay)
        return replace(self._lower.reading(replay), leads="")  # which is of exchanged contexts


@dataclass(frozen=True, slots=True)
class _Exchanged:
    scores: KnownScores

    @property
    def thresholds(self) -> Floats:
        return self.scores.thresholds

    def support(self) -> tuple[Floats, Floats] | None:
        found = self.scores.support()
        return None if found is None else found[::-1]

    def expected(self) -> tuple[Floats, Floats]:
        return self.scores.expected()[::-1]
