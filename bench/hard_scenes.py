"""Settings in which a bound fails first: few pairs, systems on the boundary of their claim, systems
that adapt, ties, and scores with heavy tails.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import product

import numpy as np
from coverage_cells import Cell, Found, Rng, Setting, Truth, above
from scipy import stats as distributions
from scipy.special import ndtri
from vote_scenes import shown, unconditional_bound

from leakbound.estimators import (
    Claim,
    ClopperPearson,
    EProcess,
    Estimator,
    Observations,
    PairedScores,
    TrialDesign,
    Unconditional,
)
from leakbound.estimators.error_counts import AccuracyBound
from leakbound.stats import Bonferroni, Split, accuracy_bound, clopper_pearson, gdp, one_run
from leakbound.stats.counts.unconditional import unconditional_mu

EPSILONS, DELTAS, SIZES = (0.0, 0.25, 1.0, 4.0), (0.0, 1e-5, 0.1), (5, 20, 50)
BOUNDARY = "randomised response on the boundary"
ONE_SIDED = 0.3  # of the wrong answers of randomised response
LEAST = 1e-12  # mu has no meaning at delta 0, and does not depend on delta


@dataclass(frozen=True)
class Answers:
    """Yes or no, on the boundary of (epsilon, delta)-DP; `part` 1 is randomised response."""

    epsilon: float
    delta: float
    part: float

    @property
    def rates(self) -> tuple[float, float]:
        """P(yes) with and without the canary."""
        wrong = self.part * (1 - self.delta) / (1 + math.exp(self.epsilon))
        return math.exp(self.epsilon) * wrong + self.delta, wrong

    @property
    def truth(self) -> Truth:
        p, q = self.rates
        return Truth(self.epsilon, float(ndtri(p) - ndtri(q)))

    @property
    def name(self) -> str:
        shape = "both ways" if self.part == 1 else "one way"
        return f"ε = {self.epsilon:g}, {shape}"

    def draw(self, pairs: int, rng: Rng) -> np.ndarray:
        """(2, pairs) answers."""
        return rng.random((2, pairs)) < np.array(self.rates)[:, None]

    def right_guesses(self, canaries: int) -> np.ndarray:
        """Chances of so many right guesses where each canary is in or out by a fair coin."""
        right = (math.exp(self.epsilon) + self.delta) / (1 + math.exp(self.epsilon))
        return np.asarray(distributions.binom.pmf(range(canaries + 1), canaries, right))

    def pair_by_pair(self, rng: Rng, index: int, pairs: int) -> Found:
        seen = self.draw(pairs, rng).astype(float)
        return _anytime(seen, Claim(self.epsilon, self.delta), bool(index % 2), (0.5,))

    def adaptive(self, rng: Rng, index: int, pairs: int) -> Found:
        """Always in the direction that looks worse so far: luck is never given back."""
        (p, q), lead, seen = self.rates, 0, np.zeros((2, pairs))
        for at in range(pairs):
            chances = (p, q) if lead >= 0 else (q, p)
            seen[:, at] = rng.random(2) < chances
            lead += int(seen[0, at] - seen[1, at])
        return _anytime(seen, Claim(self.epsilon, self.delta), bool(index % 2), (0.5,))


Bound = Callable[[int, int, int, float], float | None]  # of TP and FP of so many pairs, at delta
COUNTED: dict[str, Bound] = {
    "clopper_pearson eps": lambda x, y, n, d: clopper_pearson(x, n - x, y, n - y, d).epsilon,
    "unconditional eps": lambda x, y, n, d: unconditional_bound(x, n - x, y, n - y, d),
    "accuracy_bound eps": lambda x, y, n, d: accuracy_bound(x + n - y, 2 * n, d).epsilon,
    "gdp mu": lambda x, y, n, d: gdp(x, n - x, y, n - y, max(d, LEAST)).mu,
    "unconditional mu": lambda x, y, n, d: _unconditional_mu(x, y, n),
}


@lru_cache(maxsize=10_000)
def _unconditional_mu(tp: int, fp: int, pairs: int) -> float | None:
    """Of each pair of counts once: it does not depend on delta."""
    return unconditional_mu(tp, pairs - tp, fp, pairs - fp).mu


def exact_cells(pairs: int, delta: float) -> Iterator[Cell]:
    """Counted bounds at every pair of counts, and their exact chance to exceed the truth."""
    systems = [Answers(e, delta, part) for e, part in product(EPSILONS, (1.0, ONE_SIDED))]
    counts = range(pairs + 1)
    for name, bound in COUNTED.items():
        found = np.array([[bound(x, y, pairs, delta) or 0.0 for y in counts] for x in counts])
        for system in systems:
            p, q = (distributions.binom.pmf(counts, pairs, rate) for rate in system.rates)
            yield _exact(system, name, pairs, found, np.outer(p, q))
    found = np.array([one_run(pairs, pairs, v, delta).epsilon or 0.0 for v in counts])
    for system in systems[::2]:
        yield _exact(system, "one_run eps", pairs, found, system.right_guesses(pairs))


def _exact(system: Answers, name: str, pairs: int, found: np.ndarray, chance: np.ndarray) -> Cell:
    truth = system.truth.mu if name.endswith(" mu") else system.truth.epsilon
    missed, positive = (float(chance[which].sum()) for which in (above(found, truth), found > 0))
    return Cell(
        BOUNDARY, system.name, name, pairs, system.delta, truth, 0, missed, positive,
        float((chance * found).sum()), 0.0,
    )  # fmt: skip


def _bounds(estimator: Estimator, design: TrialDesign, seen: np.ndarray) -> tuple[float, float]:
    """Epsilon and mu of (2, pairs) scores."""
    observer = estimator.begin(design)
    single, wide = PairedScores(*seen), PairedScores(*seen[..., None])
    observer.observe(Observations(0, design.pairs, single, wide))
    found = observer.bounds()
    epsilon = next((one.epsilon for one in found if one.epsilon is not None), 0.0)
    return epsilon, next((one.mu for one in found if one.mu is not None), 0.0)


def _anytime(seen: np.ndarray, claim: Claim, early: bool, levels: tuple[float, ...]) -> Found:
    design = TrialDesign(claim, pairs=seen.shape[1], early_stop=early, levels=levels)
    epsilon, mu = _bounds(EProcess(), design, seen)
    return {"e_process, answers eps": epsilon, "e_process, answers mu": mu}


Draw = Callable[[Rng, int], np.ndarray]


@dataclass(frozen=True)
class Scores:
    """Scores of two known distributions; draws give (2, pairs) of them."""

    name: str
    draw: Draw
    chances: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]  # P(score >= tau), in and out
    levels: tuple[float, ...]

    def truth(self, delta: float) -> Truth:
        steps = np.concatenate([np.linspace(-40, 40, 160_001), np.logspace(1.6, 9, 2_000)])
        tau = np.unique(np.concatenate([steps, -steps]))
        return shown(*self.chances(tau), delta)

    def audit(self, rng: Rng, index: int, pairs: int, delta: float) -> Found:
        seen = self.draw(rng, pairs)
        plain = TrialDesign(Claim(1.0, delta), pairs=pairs, levels=self.levels)
        found = dict(_anytime(seen, plain.claim, bool(index % 2), self.levels))
        for rule in (Split(), Bonferroni()):
            design, name = replace(plain, rule=rule), type(rule).__name__.lower()
            epsilon, mu = _bounds(ClopperPearson(), design, seen)
            found |= {f"clopper_pearson, {name} eps": epsilon, f"gdp, {name} mu": mu}
        epsilon, mu = _bounds(Unconditional(), replace(plain, rule=Split()), seen)
        found |= {"unconditional, split eps": epsilon, "unconditional, split mu": mu}
        right, _ = _bounds(AccuracyBound(), replace(plain, rule=Split()), seen)
        return {**found, "accuracy_bound, split eps": right}


def _shifted(name: str, law: distributions.rv_continuous, shift: float) -> Scores:
    return Scores(
        name,
        lambda rng, pairs: law.rvs(size=(2, pairs), random_state=rng) + np.array([[shift], [0.0]]),
        lambda tau: (law.sf(tau - shift), law.sf(tau)),
        (-4.0, -1.0, 0.0, 0.5, 1.0, 2.0, 5.0),
    )


def _atoms(name: str, member: tuple[float, ...], nonmember: tuple[float, ...]) -> Scores:
    """Scores 0, 1, 2, ... with these probabilities."""
    values = np.arange(len(member))
    both = np.array([member, nonmember])

    def chances(tau: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = both @ (values[:, None] >= tau)
        return found[0], found[1]

    return Scores(
        name, lambda rng, pairs: np.stack([rng.choice(values, pairs, p=p) for p in both]) * 1.0,
        chances, tuple(values + 0.0),
    )  # fmt: skip


SCORES = (
    _shifted("Gaussian, shift 1", distributions.norm, 1.0),
    _shifted("Laplace, shift 1", distributions.laplace, 1.0),
    _shifted("Cauchy, shift 1", distributions.cauchy, 1.0),
    _shifted("Cauchy, no leak", distributions.cauchy, 0.0),
    _shifted("t with 2 degrees, shift 2", distributions.t(2), 2.0),
    _atoms("three values", (0.2, 0.3, 0.5), (0.5, 0.3, 0.2)),
    _atoms("three values, no leak", (0.6, 0.3, 0.1), (0.6, 0.3, 0.1)),
    _atoms("one value", (1.0,), (1.0,)),
)  # fmt: skip
TIED = ("three values", "three values, no leak", "one value")


def boundary(audits: int) -> Iterator[Setting]:
    """Fixed probabilities of an answer, on the boundary of the claim, seen pair by pair."""
    for epsilon, delta, pairs, part in product(EPSILONS, DELTAS, SIZES, (1.0, ONE_SIDED)):
        system = Answers(epsilon, delta, part)
        yield Setting(
            BOUNDARY, system.name, pairs, delta, system.truth, audits,
            partial(system.pair_by_pair, pairs=pairs),
        )  # fmt: skip


def adaptive(audits: int) -> Iterator[Setting]:
    """A system that reads its own past; only bounds for any stopping time claim to hold here."""
    for epsilon, delta, pairs, part in product(EPSILONS, DELTAS, (20, 100), (1.0, ONE_SIDED)):
        system = Answers(epsilon, delta, part)
        yield Setting(
            "adaptive system", system.name, pairs, delta, system.truth, audits,
            partial(system.adaptive, pairs=pairs),
        )  # fmt: skip


def scores(audits: int) -> Iterator[Setting]:
    """Ties, continuous scores, heavy tails."""
    for scene, delta, pairs in product(SCORES, (0.0, 1e-5, 0.1), (10, 50)):
        family = "ties" if scene.name in TIED else "continuous and heavy-tailed scores"
        yield Setting(
            family, scene.name, pairs, delta, scene.truth(delta), audits,
            partial(scene.audit, pairs=pairs, delta=delta),
        )  # fmt: skip
