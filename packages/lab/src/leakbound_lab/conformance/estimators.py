"""What every estimator must keep, a user's own too: `conform_estimator` checks each invariant.

Trials are drawn from systems whose leakage is known in closed form. A broken invariant is found;
none is proved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import get_args

import numpy as np
import scipy
from scipy.stats import binom

from leakbound.errors import UsageError
from leakbound.estimators import Bounds, Claim, Estimator, Observations, PairedScores, TrialDesign
from leakbound.estimators.base import DistributionPair, Reads, exceeds
from leakbound.privacy import Gaussian, gdp_epsilon
from leakbound.stats import CategoricalLaw, Estimate, Fixed, GaussianLaw
from leakbound.stats.arrays import Ints
from leakbound_lab.conformance.parts import Broken, Check, Skipped, broken_of, check

DELTA = 1e-5
DRAWS = 10  # simulated outputs of one aggregate
FAR = 1e6  # a score beyond any threshold


class RandomizedResponse:
    """A system that answers truthfully with probability e^epsilon / (1 + e^epsilon)."""

    name = "randomized_response"

    def __init__(self, epsilon: float) -> None:
        self.wrong = 1 / (1 + math.exp(epsilon))

    @property
    def truth(self) -> Bounds:
        """epsilon at `DELTA`, and the least mu for which the system is mu-GDP."""
        right = 1 - self.wrong
        return Bounds(math.log((right - DELTA) / self.wrong), float(2 * scipy.special.ndtri(right)))

    pair_truth = truth  # all pairs are alike

    def design(self, pairs: int, confidence: float) -> TrialDesign:
        claim = Claim(self.truth.epsilon, DELTA)
        return TrialDesign(claim, confidence=confidence, pairs=pairs)

    def draw(self, pairs: int, rng: np.random.Generator) -> Observations:
        trial, simulated = (
            PairedScores(
                (rng.random((pairs, 1)) >= self.wrong).astype(float),
                (rng.random((pairs, 1)) < self.wrong).astype(float),
            )
            for _ in range(2)
        )
        known = tuple(CategoricalLaw(np.array([p, 1 - p])) for p in (1 - self.wrong, self.wrong))
        return _observations(trial, simulated, None, (known[0], known[1]))


@dataclass(frozen=True)
class _GaussianVotes:
    """Votes under Gaussian noise; the canary moves one vote with a known probability."""

    voters: int = 3
    sigma: float = 1.0
    noticed: float = 0.7
    name = "gaussian_votes"

    @cached_property
    def truth(self) -> Bounds:
        """epsilon at `DELTA` and mu, from the noisy margin at every threshold."""
        spread, low = self.sigma * math.sqrt(2), -self.voters
        tau = np.linspace(low - 8 * spread, low + 2 + 8 * spread, 20_001)
        fpr, hit = (
            scipy.special.ndtr((low - tau) / spread),
            scipy.special.ndtr((low + 2 - tau) / spread),
        )
        tpr = self.noticed * hit + (1 - self.noticed) * fpr
        ratios = [
            np.log(np.maximum(high - DELTA, 1e-300) / less)
            for high, less in ((tpr, fpr), (1 - fpr, 1 - tpr))
        ]
        inside = (fpr > 1e-12) & (tpr < 1 - 1e-12)
        mu = (scipy.special.ndtri(tpr[inside]) - scipy.special.ndtri(fpr[inside])).max()
        return Bounds(max(float(ratio[inside].max()) for ratio in ratios), float(mu))

    @property
    def pair_truth(self) -> Bounds:
        """The same of one pair whose vote moves: what the noise guarantees."""
        mu = math.sqrt(2) / self.sigma
        return Bounds(gdp_epsilon(mu, DELTA), mu)

    def design(self, pairs: int, confidence: float) -> TrialDesign:
        """A design whose claim is what the noise guarantees, which the system satisfies."""
        guarantee = Gaussian(math.sqrt(2), self.sigma)
        return TrialDesign(
            Claim(self.pair_truth.epsilon, DELTA),
            guarantee,
            confidence,
            pairs,
            levels=tuple(np.arange(-self.voters - 2.0, self.voters + 3.0).tolist()),
            rule=Fixed(1.0 - self.voters),
            sigma=self.sigma,
            voters=self.voters,
        )

    def draw(self, pairs: int, rng: np.random.Generator) -> Observations:
        against = np.full(pairs, -float(self.voters))
        votes = PairedScores(against + 2 * (rng.random(pairs) < self.noticed), against)
        trial, simulated = (self._noisy(votes, draws, rng) for draws in (1, DRAWS))
        known = (
            GaussianLaw(np.array([1.0, self.voters - 1.0]), self.sigma),
            GaussianLaw(np.array([0.0, float(self.voters)]), self.sigma),
        )
        return _observations(trial, simulated, votes, known)

    def _noisy(self, votes: PairedScores, draws: int, rng: np.random.Generator) -> PairedScores:
        spread, shape = self.sigma * math.sqrt(2), (len(votes), draws)
        member, nonmember = (
            margin[:, None] + rng.normal(0.0, spread, shape)
            for margin in (votes.member, votes.nonmember)
        )
        return PairedScores(member, nonmember)


def _observations(
    trial: PairedScores,
    simulated: PairedScores,
    votes: PairedScores | None,
    known: DistributionPair,
) -> Observations:
    """All parts of some pairs; a text says whether its score is above the middle."""
    said = tuple(
        ("yes" if one > 0.5 else "no", "yes" if other > 0.5 else "no")
        for one, other in zip(trial.member[:, 0], trial.nonmember[:, 0], strict=True)
    )
    pairs = len(trial)
    flat = PairedScores(trial.member[:, 0], trial.nonmember[:, 0])
    return Observations(0, pairs, flat, simulated, votes, (known,) * pairs, said)


def perfect_observations(design: TrialDesign, pairs: int) -> Observations:
    """Pairs in which every output and every vote tells the contexts apart."""
    top = FAR if design.voters is None else float(design.voters)
    edge = FAR * np.ones((pairs, 1))
    votes = PairedScores(np.full(pairs, top), np.full(pairs, -top))
    known = CategoricalLaw(np.array([1.0, 0.0])), CategoricalLaw(np.array([0.0, 1.0]))
    scores = PairedScores(edge, -edge)
    return _observations(scores, scores, votes, known)


CONFIDENCE = 0.8  # bounds that miss twice as often as they may are found sooner than at 0.95
FALSE_ALARM = 1e-6  # probability that a valid estimator is called broken
PAIRS = 30
LOOKS = 3  # batches of an audit; anytime-valid bounds are read after each
MOST = 2**14  # pairs with which a claim up to 4 must be testable
SLACK = 1e-6  # of a truth that is known from a grid of thresholds


Scene = RandomizedResponse | _GaussianVotes
SCENES: tuple[Scene, ...] = (RandomizedResponse(1.0), _GaussianVotes())


def _design(scene: Scene) -> TrialDesign:
    return scene.design(PAIRS, CONFIDENCE)


def _part(seen: Observations, pairs: slice, reads: frozenset[Reads]) -> Observations:
    """Some of the pairs, and of them only what is read."""

    def cut(scores: PairedScores | None, read: Reads) -> PairedScores | None:
        return scores.part(pairs) if scores is not None and read in reads else None

    known, texts = seen.distribution_pairs or (), seen.text_pairs or ()
    first, stop, _ = pairs.indices(seen.pairs)
    return Observations(
        seen.first + first,
        stop - first,
        cut(seen.trial_scores, "trials"),
        cut(seen.simulated_scores, "trials"),
        cut(seen.vote_margins, "votes"),
        known[pairs] if "distribution" in reads else None,
        texts[pairs] if "text" in reads else None,
        cut(seen.level_chances, "chances"),
        cut(seen.corrected_scores, "chances"),
    )


def _looks(estimator: Estimator, design: TrialDesign, seen: Observations) -> list[Bounds]:
    """The first epsilon and mu after each look; a fixed number of pairs has one."""
    observer, size, found = estimator.begin(design), seen.pairs // LOOKS, []
    for look in range(LOOKS):
        stop = seen.pairs if look == LOOKS - 1 else (look + 1) * size
        observer.observe(_part(seen, slice(look * size, stop), estimator.reads))
        if estimator.anytime or stop == seen.pairs:
            found.append(_first_bounds(observer.bounds()))
    return found


def _first_bounds(bounds: Sequence[Estimate]) -> Bounds:
    mu = next((bound.mu for bound in bounds if bound.mu is not None), None)
    return Bounds((bounds[0].epsilon or 0.0) if bounds else 0.0, mu)


def _readable(estimator: Estimator) -> list[Scene]:
    """The scenes whose design the estimator accepts."""
    found = []
    for scene in SCENES:
        try:
            estimator.check(_design(scene))
        except UsageError:
            continue
        found.append(scene)
    if not found:
        raise Skipped("it accepts neither randomised response nor votes under Gaussian noise")
    return found


@dataclass(frozen=True, slots=True)
class _Bench:
    estimator: Estimator
    seed: int
    runs: int


def members(bench: _Bench) -> str:
    """A value: hashable, equal to itself, with a name, a kind and known reads."""
    estimator = bench.estimator
    if not estimator.name or hash(estimator) != hash(estimator):
        raise Broken("it has no name")
    strange = set(estimator.reads) - set(get_args(Reads))
    if strange:
        raise Broken(f"it reads {', '.join(sorted(strange))}, which no observation has")
    if estimator.kind not in ("lower_bound", "point_estimate", "credible"):
        raise Broken(f"its kind is {estimator.kind!r}")
    return f"{estimator.name}, {estimator.kind}"


def coverage(bench: _Bench) -> str:
    """Bounds exceed a known truth no more often than they may, anytime-valid ones at any look."""
    estimator = bench.estimator
    if estimator.kind != "lower_bound":
        raise Skipped(f"it gives a {estimator.kind.replace('_', ' ')}")
    found = []
    for at, scene in enumerate(_readable(estimator)):
        missed = np.zeros(3, int)  # epsilon, mu, either
        for run in range(bench.runs):
            rng = np.random.default_rng([bench.seed, at, run])
            missed += _miss(estimator, scene, scene.draw(PAIRS, rng))
        most = int(binom.isf(FALSE_ALARM, bench.runs, 1 - CONFIDENCE))
        worst = int(missed[2] if estimator.simultaneous else missed[:2].max())
        found.append(f"{worst} of {bench.runs} missed on {scene.name}")
        if worst > most:
            raise Broken(f"{found[-1]}, and {most} is the most that chance allows")
    return "; ".join(found)


def _miss(estimator: Estimator, scene: Scene, seen: Observations) -> Ints:
    """Did epsilon, mu, or either exceed the truth at some look?"""
    design = _design(scene)
    truth = scene.pair_truth if "distribution" in estimator.reads else scene.truth
    looks = _looks(estimator, replace(design, early_stop=estimator.anytime), seen)
    epsilon = max(look.epsilon for look in looks) > truth.epsilon + SLACK
    known = truth.mu if truth.mu is not None else math.inf
    mu = max(look.mu or 0.0 for look in looks) > known + SLACK
    return np.array([epsilon, mu, epsilon or mu], np.int64)


def early_stop(bench: _Bench) -> str:
    """An estimator for a fixed number of pairs refuses early stopping; others do not."""
    scene = _readable(bench.estimator)[0]
    refused = False
    try:
        bench.estimator.check(replace(_design(scene), early_stop=True))
    except UsageError:
        refused = True
    if refused == bench.estimator.anytime and bench.estimator.kind == "lower_bound":
        said = "refuses" if refused else "accepts"
        raise Broken(f"anytime is {bench.estimator.anytime}, and it {said} to end early")
    return "refuses to end early" if refused else "may end early"


def batches(bench: _Bench) -> str:
    """Pairs that come in several batches give the bounds of all at once, and only what is read."""
    estimator = bench.estimator
    for scene in _readable(estimator):
        seen = scene.draw(PAIRS, np.random.default_rng(bench.seed))
        whole = estimator.begin(_design(scene))
        whole.observe(_part(seen, slice(None), estimator.reads))
        parts = _looks(estimator, _design(scene), seen)[-1]
        once = _first_bounds(whole.bounds())
        bounds = ((once.epsilon, parts.epsilon), (once.mu or 0.0, parts.mu or 0.0))
        if not all(a == b or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12) for a, b in bounds):
            raise Broken(f"{parts} in {LOOKS} batches, {once} in one, on {scene.name}")
    return "equal in one batch and in three"


def certifiable(bench: _Bench) -> str:
    """What it says it could certify is no less than what a perfect attack certifies."""
    estimator = bench.estimator
    for scene in _readable(estimator):
        for pairs in (4, 12, PAIRS):
            design = replace(_design(scene), pairs=pairs)
            observer = estimator.begin(design)
            observer.observe(
                _part(perfect_observations(design, pairs), slice(None), estimator.reads)
            )
            found, said = (
                _first_bounds(observer.bounds()),
                estimator.largest_certifiable(design, pairs),
            )
            if found.epsilon > said.epsilon + SLACK:
                raise Broken(f"epsilon {found.epsilon:.4g} at {pairs} pairs, it says {said}")
            if said.mu is not None and (found.mu or 0.0) > said.mu + SLACK:
                raise Broken(f"mu {found.mu:.4g} at {pairs} pairs, it says {said}")
    return "never below a perfect attack"


def conclusive(bench: _Bench) -> str:
    """With enough pairs, a system that keeps its claim is not inconclusive for ever."""
    estimator, found = bench.estimator, []
    if estimator.kind != "lower_bound":
        raise Skipped("it decides nothing")
    for scene in _readable(estimator):
        design, pairs = _design(scene), 1
        while not exceeds(
            estimator.largest_certifiable(replace(design, pairs=pairs), pairs), design
        ):
            pairs *= 2
            if pairs > MOST:
                raise Broken(f"{MOST} pairs certify nothing above the claim, on {scene.name}")
        found.append(f"{pairs} pairs on {scene.name}")
    return "could reject from " + ", ".join(found)


def power(bench: _Bench) -> str:
    """The power is a probability that does not fall where the system leaks more."""
    estimator = bench.estimator
    scene = _readable(estimator)[0]
    found = [estimator.power(_design(scene), PAIRS, leak) for leak in (1.0, 2.0, 4.0)]
    known = [power.chance for power in found if power is not None]
    if not known:
        raise Skipped("it knows no formula")
    noise = 0.1  # of a simulation of 100 audits
    if any(not 0 <= one <= 1 for one in known) or any(
        later < earlier - noise for earlier, later in pairwise(known)
    ):
        raise Broken(f"at 1, 2 and 4 times what is tested it says {known}")
    if known[0] > 1 - CONFIDENCE + noise and estimator.kind == "lower_bound":
        raise Broken(f"it rejects a true claim with probability {known[0]:.2f}")
    return f"{known[0]:.2f} to {known[-1]:.2f}"


def pair_counts(bench: _Bench) -> str:
    """Pairs that enter the bounds are some of the collected ones."""
    estimator = bench.estimator
    design = replace(_design(_readable(estimator)[0]), pilot=5)
    sizes = (0, 3, 20, PAIRS)
    found = [estimator.tested_pairs(design, pairs) for pairs in sizes]
    if found[0] != 0 or any(not 0 <= n <= pairs for n, pairs in zip(found, sizes, strict=True)):
        raise Broken(f"{found} of 0, 3, 20 and {PAIRS} pairs")
    return f"{found[-1]} of {PAIRS}"


ESTIMATOR_INVARIANTS: dict[str, Callable[[_Bench], str]] = {
    "members": members,
    "tested_pairs": pair_counts,
    "early_stop": early_stop,
    "batches": batches,
    "coverage": coverage,
    "certifiable": certifiable,
    "conclusive": conclusive,
    "power": power,
}


def conform_estimator(estimator: Estimator, *, seed: int = 0, runs: int = 100) -> list[Check]:
    """Check every invariant for one estimator.

    Args:
        estimator: What is checked.
        seed: Root of all randomness.
        runs: Simulated audits of the coverage; a valid estimator fails with a probability of at
            most 1e-6, whatever their number.

    Examples:
        >>> from leakbound.estimators import ClopperPearson
        >>> all(check.passed for check in conform_estimator(ClopperPearson()))
        True
    """
    bench = _Bench(estimator, seed, runs)
    return [check(name, body, bench) for name, body in ESTIMATOR_INVARIANTS.items()]


def assert_estimator_conforms(estimator: Estimator, *, seed: int = 0, runs: int = 100) -> None:
    """As `conform_estimator`, in a test.

    Raises:
        AssertionError: With the name and finding of every broken invariant.
    """
    if broken := broken_of(conform_estimator(estimator, seed=seed, runs=runs)):
        raise AssertionError(f"{estimator.name} breaks {'; '.join(broken)}")
