"""The e-process: an anytime-valid test of a privacy claim, pair by pair.

For each pair t and threshold tau, x and y in [0, 1] are the probabilities of "member" in the
canary-in and the canary-out context. Each is the 0/1 outcome of one output, the mean over outputs,
or the exact probability from the output distribution. A claim says E[x] <= e^eps E[y] + delta, and
the same for 1 - y and 1 - x. Each of the two inequalities is a line. The e-value is
prod(1 + lambda_t z_t) with z_t = x_t - e^eps y_t - delta. The line, the threshold and lambda_t are
chosen before pair t, and lambda_t is small enough that no factor is negative. The product is a test
martingale: it is non-negative, and its expectation under the claim is at most 1. By Ville's
inequality it ever reaches 1/alpha with probability at most alpha.

Choosing one line and one threshold from past pairs loses no factor, unlike averaging over all of
them. Nothing is chosen in hindsight.

References: Ville (1939); Ramdas, Grünwald, Vovk and Shafer, "Game-theoretic statistics and safe
anytime-valid inference" (Statistical Science 2023).
"""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np
import numpy.typing as npt

from leakbound._check import confidence_level, count, floats, numbers, of_one_shape
from leakbound.errors import UsageError
from leakbound.privacy import ApproxDP, Gaussian, Guarantee, gdp_delta
from leakbound.stats.arrays import Bools, Floats
from leakbound.stats.e_values.anytime import AnytimeTest, Replay
from leakbound.stats.e_values.stakes import Lines, Moments, StakeRule, restake_points

# epsilon of the tangent lines of a mu-GDP claim, in units of mu, from total variation to the tail
LARGEST = 300.0  # epsilon of a line; its slope is squared, and e^700 is the largest float
TANGENTS = np.array([0.0, 0.2, 0.5, 1.0, 2.0])
# A smaller draw would reject all claims at once without evidence: at an e-value of 1, in 5 % of
# audits. Raising a draw only raises the threshold, so results stay valid.
LEAST_DRAW = 0.25
PRIOR_PAIRS = 2.0  # weight of the expected pair; two observations outweigh it


class EProcess(AnytimeTest):
    """Anytime-valid test of `claim`. It can be read and stopped after any pair.

    Args:
        claim: Guarantee to be tested.
        support: (xs, ys), each (states, thresholds): every value that a pair can take, if known,
            such as vote counts that differ by at most one within a pair. It allows larger stakes.
            Without it, every (x, y) in [0, 1]^2 is allowed for.
        deltas: Values of delta at which a claim that is not Gaussian is read, in addition to its
            own.
        expected: The (x, y) of a typical pair, each (thresholds,), assumed before any data. It
            guides the first stakes and cannot make a result invalid.
        horizon: Planned number of pairs. Stakes then aim at the tightest bound at that number. It
            cannot make a result invalid.
        uniform: A draw from (0, 1], independent of all pairs and fixed before the first one. At the
            horizon, and only there, the e-value then has to reach only uniform/alpha instead of
            1/alpha. Draws below 0.25 count as 0.25. One draw serves all claims of a scan, because
            only one of them could err. The error is alpha on average over draws, so every audit
            needs its own draw.

    Raises:
        UsageError: If an argument lies outside its range, the claim guarantees nothing, or
            `uniform` is given without a horizon.

    Guarantee:
        If the claim holds for every pair given the past, it is rejected with probability at most
        1 - confidence, at any stopping time.

    Reference:
        Waudby-Smith and Ramdas (JRSS B 2024); Ramdas et al. (2023); Ramdas and Manole, "Randomized
        and exchangeable improvements of Markov's, Chebyshev's and Chernoff's inequalities" (2023)
        for `uniform`.

    Examples:
        >>> from leakbound.privacy import PureDP
        >>> process = EProcess(PureDP(0.5))
        >>> process.extend([[1.0]] * 40, [[0.0]] * 40)
        >>> process.rejected, process.rejected_at
        (True, 8)
        >>> process.epsilon_lower_bound(delta=0.0).epsilon > 0.5
        True
    """

    def __init__(
        self,
        claim: Guarantee,
        confidence: float = 0.95,
        support: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
        deltas: tuple[float, ...] = (1e-5,),
        expected: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
        horizon: int | None = None,
        uniform: float | None = None,
    ) -> None:
        self.claim, self.confidence = claim, confidence_level(confidence)
        self.horizon = None if horizon is None else count("horizon", horizon)
        self._credit = _credit(uniform, self.horizon)
        self.support, self.expected = _pair("support", support), _pair("expected", expected)
        epsilons, implied = read_levels(claim, deltas)
        self.lines = Lines.of(epsilons[None], implied[None])  # that the claim implies
        self._x: list[Floats] = []
        self._y: list[Floats] = []
        self._running: _Running | None = None

    def update(self, x: npt.ArrayLike, y: npt.ArrayLike) -> None:
        """Observe one pair: (thresholds,) scores of both contexts, or one number each."""
        self.extend(
            np.atleast_1d(np.asarray(x, float))[None], np.atleast_1d(np.asarray(y, float))[None]
        )

    def extend(self, x: npt.ArrayLike, y: npt.ArrayLike) -> None:
        """Observe many pairs in order. Equivalent to one `update` for each pair.

        Args:
            x: (pairs, thresholds) scores of the canary-in context in [0, 1].
            y: (pairs, thresholds) scores of the canary-out context in [0, 1].

        Raises:
            UsageError: If a score is NaN, outside [0, 1] or outside the support, or the number of
                thresholds changes.
        """
        xs, ys = (_scores(name, v) for name, v in (("x", x), ("y", y)))
        if xs.ndim != 2 or xs.shape != ys.shape or (self._x and xs.shape[1] != self._x[0].shape[1]):
            raise UsageError(
                f"x has shape {xs.shape} and y {ys.shape}; they must be (pairs, thresholds), with "
                "the same thresholds every time."
            )
        for known in (self.support, self.expected):
            if known and known[0].shape[1] != xs.shape[1]:
                raise UsageError(
                    f"pairs have {xs.shape[1]} thresholds, and support or expected has "
                    f"{known[0].shape[1]}; they must have the same."
                )
        if self._credit and self.horizon is not None and self.pairs + len(xs) > self.horizon:
            raise UsageError(
                f"there are {self.pairs + len(xs)} pairs, and the horizon is {self.horizon}; a "
                "randomised test ends there. Plan more pairs, or leave `uniform` out."
            )
        if self._running is None:
            rule = self.stake_rule(self.lines, xs.shape[1])
            self._running = _Running(rule, self.prior(xs.shape[1]))
        self._running.rule.check(xs, ys)
        self._running.extend(xs, ys)
        self._x.append(xs)
        self._y.append(ys)

    @property
    def pairs(self) -> int:
        return sum(map(len, self._x))

    def pointed(self) -> tuple[int, int]:
        """(right, all) pairs: right if the mean over the thresholds is higher in the canary-in
        context; of the pairs with equal means, half."""
        signs = [s for x, y in zip(self._x, self._y, strict=True) for s in np.sign((x - y).mean(1))]
        return signs.count(1.0) + signs.count(0.0) // 2, len(signs)

    @property
    def log_e_values(self) -> Floats:
        return self._running.joined() if self._running else np.zeros(0)

    @property
    def _last(self) -> float:
        """What a randomised test adds to the logarithm now: 0 before the horizon."""
        return self._credit if self.pairs == self.horizon else 0.0

    def epsilon_paths(self, epsilons: Floats, delta: float) -> Floats:
        return self._paths(Lines.of(epsilons[:, None], np.full((epsilons.size, 1), delta)))

    def mu_paths(self, mus: Floats) -> Floats:
        return self._paths(Lines.of(*tangents(mus)))

    def _rejects(self, paths: Replay, claims: Floats) -> Bools:
        return self._reaches(paths(self, claims))

    def _paths(self, lines: Lines) -> Floats:
        if not self._x:
            return np.zeros((len(lines.coefficients), 0))
        self._x, self._y = [np.concatenate(self._x)], [np.concatenate(self._y)]
        thresholds = self._x[0].shape[1]
        rule = self.stake_rule(lines, thresholds)
        return rule.log_e_values(self._x[0], self._y[0], self.prior(thresholds))

    def stake_rule(self, lines: Lines, thresholds: int) -> StakeRule:
        """The rule that chooses stakes against the claims of some lines."""
        corners = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
        states = self.support or (
            np.repeat(corners[:, :1], thresholds, 1), np.repeat(corners[:, 1:], thresholds, 1)
        )  # fmt: skip
        return StakeRule(lines, states, self.log_threshold, self.horizon)

    def prior(self, thresholds: int) -> Moments:
        """Moments of the pairs that are assumed before any data."""
        if self.expected is None:
            return Moments.of(np.ones((1, thresholds)), np.zeros((1, thresholds)))
        return Moments.of(*self.expected).times(PRIOR_PAIRS)


class _Running:
    """The running e-value of one claim; stakes change at `restake_points`, as in a replay."""

    def __init__(self, rule: StakeRule, prior: Moments) -> None:
        self.rule, self.past, self.seen = rule, prior, 0
        self.now, self.path = 0.0, list[Floats]()
        self._points = restake_points()
        self._change = next(self._points)

    def extend(self, x: Floats, y: Floats) -> None:
        """Fix the stakes, then read the pairs that share them."""
        while len(x):
            if self.seen == self._change:
                self.stakes = self.rule.choose(self.past, np.array([self.seen]))
                self._change = next(self._points)
            n = min(len(x), self._change - self.seen)
            growth = self.stakes.growth(x[:n], y[:n], np.zeros(n, np.int64))[0]
            self.path.append(self.now + growth.cumsum())
            self.now = float(self.path[-1][-1])
            self.past, self.seen = self.past + Moments.of(x[:n], y[:n]).total(), self.seen + n
            x, y = x[n:], y[n:]

    def joined(self) -> Floats:
        self.path = [np.concatenate(self.path)] if self.path else []
        return self.path[0] if self.path else np.zeros(0)


def _scores(name: str, values: npt.ArrayLike) -> Floats:
    array = floats(name, values, kinds="biuf")
    bad = ~((array >= 0) & (array <= 1))
    if bad.any():
        raise UsageError(
            f"{name} is {array[bad].flat[0]:g} in {int(bad.sum())} places; it must be between 0 "
            "and 1."
        )
    return array


def _credit(uniform: float | None, horizon: int | None) -> float:
    """-ln(uniform): what the log e-value gains at the horizon."""
    if uniform is None:
        return 0.0
    if not 0 < uniform <= 1:
        raise UsageError(
            f"uniform is {uniform!r}; it must be above 0 and at most 1. Draw it before the first "
            "pair."
        )
    if horizon is None:
        raise UsageError(
            "uniform is given without a horizon; a randomised test needs a planned number of "
            "pairs. Set horizon."
        )
    return -math.log(max(uniform, LEAST_DRAW))


def _pair(
    name: str, values: tuple[npt.ArrayLike, npt.ArrayLike] | None
) -> tuple[Floats, Floats] | None:
    if values is None:
        return None
    if len(values) != 2:
        raise UsageError(f"{name} has {len(values)} parts; it must have two, xs and ys.")
    one, other = of_one_shape(xs=_scores(name, values[0]), ys=_scores(name, values[1]))
    if not one.size or one.ndim > 2:
        raise UsageError(f"{name} has the shape {one.shape}; it must be (states, thresholds).")
    return np.atleast_2d(one), np.atleast_2d(other)


class LevelTest(AnytimeTest):
    """A test that replays its pairs against claims of several (epsilon, delta) levels each."""

    _levels: tuple[Floats, Floats]  # of the tested claim

    @property
    def log_e_values(self) -> Floats:
        epsilons, deltas = self._levels
        return np.asarray(self._paths(epsilons[None], deltas[None])[0])

    def epsilon_paths(self, epsilons: Floats, delta: float) -> Floats:
        return self._paths(epsilons[:, None], np.full((epsilons.size, 1), delta))

    def mu_paths(self, mus: Floats) -> Floats:
        return self._paths(*tangents(mus))

    def _rejects(self, paths: Replay, claims: Floats) -> Bools:
        return self._reaches(paths(self, claims))

    @abstractmethod
    def _paths(self, epsilons: Floats, deltas: Floats) -> Floats:
        """(C, pairs) log e-values against claims of (C, L) levels."""


def read_levels(claim: Guarantee, deltas: tuple[float, ...]) -> tuple[Floats, Floats]:
    """The (epsilon, delta) at which a claim is read."""
    if isinstance(claim, Gaussian):
        mu = np.array([claim.mu])
        eps, delta = tangents(mu)
        return eps[0], delta[0]
    own = [claim.delta] if isinstance(claim, ApproxDP) else []
    levels = sorted({*numbers("deltas", deltas).tolist(), *own})
    known = [(claim.epsilon(d), d) for d in levels if claim.epsilon(d) < LARGEST]
    if not known:
        raise UsageError(
            f"the claim ({claim.describe()}) states nothing that a trial could reject; state an "
            f"epsilon below {LARGEST:g}."
        )
    eps, delta = np.array(known).T
    return eps, delta


def tangents(mu: Floats) -> tuple[Floats, Floats]:
    """(C, L) epsilon and delta of each tangent line of (C,) mu-GDP claims."""
    epsilons = np.minimum(mu[:, None] * TANGENTS, LARGEST)
    return epsilons, np.asarray(gdp_delta(epsilons, mu[:, None]))
