"""The e-process: an anytime-valid test of a privacy claim, pair by pair.

Per pair t and threshold tau, x and y in [0, 1] are the probabilities of "member" in the canary-in
and the canary-out context: the 0/1 outcome of one output, the mean over outputs, or the exact
probability from the output distribution. A claim says E[x] <= e^eps E[y] + delta, and the same of
1 - y and 1 - x: one line each. So prod(1 + lambda_t z_t), with z_t = x_t - e^eps y_t - delta of a
line and a threshold that are chosen, like lambda_t, before pair t, and lambda_t so small that no
factor is negative, is a test martingale: non-negative, with an expectation of at most 1 under the
claim. By Ville's inequality this e-value ever reaches 1/alpha with probability at most alpha.
Choosing one line and threshold from the past costs no factor, as averaging over all of them would;
nothing is ever chosen in hindsight.

References: Ville (1939); Ramdas, Grünwald, Vovk and Shafer, "Game-theoretic statistics and safe
anytime-valid inference" (Statistical Science 2023).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from leakbound._check import confidence_level, count, delta_value
from leakbound.errors import UsageError
from leakbound.privacy import ApproxDP, Gaussian, Guarantee, gdp_delta, gdp_epsilon
from leakbound.stats.estimate import Estimate
from leakbound.stats.stakes import Lines, Moments, StakeRule, restake_points

__all__ = ["EProcess"]

Floats = npt.NDArray[np.float64]
# epsilon of the tangent lines of a mu-GDP claim, in units of mu: from total variation to the tail
TANGENTS = np.array([0.0, 0.2, 0.5, 1.0, 2.0])
# the claims that a bound scans: 1 % apart, up to 20; no number of pairs in use certifies more
GRID = np.concatenate([[0.0], 0.01 * 1.01 ** np.arange(765)])
CHUNK = 64  # claims played at once: most scans end within the first chunks
CELLS = 4_000_000  # claims times pairs held at once: some 100 MB of gains and paths
# A smaller draw would reject without evidence, and all claims at once: at an e-value of 1 in 5 % of
# audits. Raising a draw only raises the threshold, so results stay valid.
LEAST_DRAW = 0.25
PRIOR_PAIRS = 2.0  # weight of the expected pair: two observations outweigh it
ASSUMES = ("pairs are independent, or drawn so that the claim holds for each given the past",)
IMPLIED = "the implied epsilon holds only if the mechanism is Gaussian"


class EProcess:
    """Anytime-valid test of `claim`; may be read and stopped after any pair.

    Args:
        claim: Guarantee to be tested.
        confidence: 1 - alpha, in (0, 1).
        support: (xs, ys), each (states, thresholds): every value that a pair can take, if known,
            such as vote counts that differ by at most one within a pair. It allows larger stakes.
            Without it every (x, y) in [0, 1]^2 is allowed for.
        weights: (thresholds,) prior weights of the thresholds; all equal by default. They cannot
            make a result invalid.
        deltas: Values of delta at which a claim that is not Gaussian is read, beside its own.
        expected: The (x, y) of a typical pair, each (thresholds,), believed before the data. It
            guides the first stakes and cannot make a result invalid.
        horizon: Planned number of pairs. Stakes then aim at the tightest bound there; it cannot
            make a result invalid.
        uniform: A draw from (0, 1], independent of all pairs and fixed before the first one. At the
            horizon, and only there, the e-value then needs to reach uniform/alpha instead of
            1/alpha; draws below 0.25 count as 0.25. One draw serves all claims of a scan, of which
            only one could err. The error is alpha on average over draws, so no draw may serve two
            audits.

    Raises:
        UsageError: If an argument lies outside its range, the claim guarantees nothing, or there is
            a `uniform` without a horizon.

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
        weights: npt.ArrayLike | None = None,
        deltas: tuple[float, ...] = (1e-5,),
        expected: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
        horizon: int | None = None,
        uniform: float | None = None,
    ) -> None:
        self.claim, self.confidence = claim, confidence_level(confidence)
        self.horizon = None if horizon is None else count("horizon", horizon)
        self._credit = _credit(uniform, self.horizon)
        self.support, self.weights, self.expected = _pair(support), weights, _pair(expected)
        self.lines = _lines(claim, deltas)
        self._x: list[Floats] = []
        self._y: list[Floats] = []
        self._running: _Running | None = None

    def update(self, x: npt.ArrayLike, y: npt.ArrayLike) -> None:
        """Observe one pair.

        Args:
            x: (thresholds,) scores of the canary-in context in [0, 1], or one number.
            y: (thresholds,) scores of the canary-out context in [0, 1], or one number.

        Raises:
            UsageError: If a score is NaN, outside [0, 1] or outside the support.
        """
        self.extend(
            np.atleast_1d(np.asarray(x, float))[None], np.atleast_1d(np.asarray(y, float))[None]
        )

    def extend(self, x: npt.ArrayLike, y: npt.ArrayLike) -> None:
        """Observe many pairs in their order; the same as one `update` each.

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
        if self._credit and self.horizon is not None and self.pairs + len(xs) > self.horizon:
            raise UsageError(
                f"there are {self.pairs + len(xs)} pairs, and the horizon is {self.horizon}; a "
                "randomised test ends there. Plan more pairs, or leave `uniform` out."
            )
        if self._running is None:
            rule = self._rule(self.lines, xs.shape[1])
            self._running = _Running(rule, self._prior(xs.shape[1]))
        self._running.rule.check(xs, ys)
        self._running.extend(xs, ys)
        self._x.append(xs)
        self._y.append(ys)

    @property
    def pairs(self) -> int:
        """Pairs seen so far."""
        return sum(map(len, self._x))

    @property
    def e_value(self) -> float:
        """Evidence against the claim now; under the claim its expectation is at most 1."""
        # e^700 is about the largest float
        return math.exp(min(self._running.now, 700.0)) if self._running else 1.0

    @property
    def log_e_values(self) -> Floats:
        """(pairs,) logarithm of the e-value after each pair."""
        path = self._running.path if self._running else []
        return np.concatenate(path) if path else np.zeros(0)

    @property
    def rejected(self) -> bool:
        """Has the e-value ever reached 1/alpha, or at the horizon uniform/alpha?"""
        if self._running is None:
            return False
        best = max(self._running.best, self._running.now + self._last)
        return best >= self.log_threshold

    @property
    def _last(self) -> float:
        """What a randomised test adds to the logarithm now: nothing before the horizon."""
        return self._credit if self.pairs == self.horizon else 0.0

    @property
    def rejected_at(self) -> int | None:
        """Number of pairs after which the claim was first rejected; None if it never was."""
        over = np.flatnonzero(self.log_e_values >= self.log_threshold)
        if over.size:
            return int(over[0]) + 1
        return self.pairs if self.rejected else None

    @property
    def log_threshold(self) -> float:
        """ln(1/alpha): the logarithm of the e-value that rejects."""
        return -math.log(1 - self.confidence)

    def epsilon_lower_bound(self, delta: float) -> Estimate:
        """Largest epsilon such that it and all smaller ones are rejected at `delta`.

        Args:
            delta: Failure probability in [0, 1).

        Returns:
            An estimate of kind `lower_bound`, for any mechanism.

        Raises:
            UsageError: If delta lies outside [0, 1).

        Guarantee:
            Exceeds the true epsilon(delta) with probability at most 1 - confidence, at any
            stopping time.
        """
        delta_value(delta)
        value = self._scan(lambda eps: Lines.of(eps[:, None], np.full((eps.size, 1), delta)))
        return self._estimate("e_process", value, delta, None, {}, ASSUMES)

    def mu_lower_bound(self, delta: float = 1e-5) -> Estimate:
        """Largest mu such that it and all smaller mu-GDP claims are rejected.

        Args:
            delta: Failure probability in (0, 1) at which `details["implied_epsilon"]` is stated.

        Returns:
            An estimate of kind `lower_bound` on mu. Its `epsilon` is None: what mu implies is a
            bound only if the mechanism is Gaussian.

        Raises:
            UsageError: If delta is 0, where every mu > 0 implies an infinite epsilon, or lies
                outside [0, 1).

        Guarantee:
            Exceeds the true mu of a mu-GDP mechanism with probability at most 1 - confidence, at
            any stopping time.
        """
        if delta_value(delta) == 0:
            raise UsageError(
                "delta is 0; a bound on mu implies no finite epsilon there. Use a delta such as "
                "1e-5."
            )
        mu = self._scan(_tangents)
        implied = {"implied_epsilon": gdp_epsilon(mu, delta)}
        return self._estimate("e_process_mu", None, delta, mu, implied, (*ASSUMES, IMPLIED))

    def _estimate(
        self,
        method: str,
        epsilon: float | None,
        delta: float,
        mu: float | None,
        details: dict[str, float],
        assumptions: tuple[str, ...],
    ) -> Estimate:
        return Estimate(
            method=method,
            kind="lower_bound",
            epsilon=epsilon,
            delta=delta,
            confidence=self.confidence,
            counts={"pairs": self.pairs},
            assumptions=assumptions,
            mu=mu,
            threshold="chosen before each pair from earlier pairs",
            details=details,
        )

    def _scan(self, lines: Callable[[Floats], Lines]) -> float:
        """The last rejected claim of a fixed grid before the first that stands.

        It errs only if a true claim is rejected: the claims are nested, so the truth's upper
        neighbour on the grid is a true claim, and to report more than the truth the scan would
        have to pass it.
        """
        low = 0.0
        for claims, rejected in self._chunks(lines):
            stands = np.flatnonzero(~rejected)
            if stands.size:
                return float(claims[stands[0] - 1]) if stands[0] else low
            low = float(claims[-1])
        return low

    def _chunks(
        self, lines: Callable[[Floats], Lines]
    ) -> Iterator[tuple[Floats, npt.NDArray[np.bool_]]]:
        """Chunks of the grid of claims, and which of each the pairs so far reject."""
        if not self._x:
            return
        x, y = np.concatenate(self._x), np.concatenate(self._y)
        size = max(1, min(CHUNK, CELLS // len(x)))
        for start in range(0, GRID.size, size):
            claims = GRID[start : start + size]
            rule = self._rule(lines(claims), x.shape[1])
            reached = rule.max_log_e_values(x, y, self._prior(x.shape[1]), self._last)
            yield claims, reached >= self.log_threshold

    def _rule(self, lines: Lines, thresholds: int) -> StakeRule:
        prior = np.ones(thresholds) if self.weights is None else np.asarray(self.weights, float)
        states, log_prior = self._states(thresholds), np.log(prior / prior.max())
        return StakeRule(lines, states, log_prior, self.log_threshold, self.horizon)

    def _states(self, thresholds: int) -> tuple[Floats, Floats]:
        if self.support is not None:
            return self.support
        corners = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
        return np.repeat(corners[:, :1], thresholds, 1), np.repeat(corners[:, 1:], thresholds, 1)

    def _prior(self, thresholds: int) -> Moments:
        if self.expected is None:
            return Moments.of(np.ones((1, thresholds)), np.zeros((1, thresholds)))
        return Moments.of(*self.expected).times(PRIOR_PAIRS)


class _Running:
    """The running e-value of one claim; stakes change at `restake_points`, as in a replay."""

    def __init__(self, rule: StakeRule, prior: Moments) -> None:
        self.rule, self.past, self.seen = rule, prior, 0
        self.now, self.best = 0.0, -math.inf
        self.path: list[Floats] = []
        self._points = restake_points()
        self._change = next(self._points)

    def extend(self, x: Floats, y: Floats) -> None:
        """Stake first, then look; as many pairs at once as share the same stakes."""
        while len(x):
            if self.seen == self._change:
                self.stakes = self.rule.choose(self.past, np.array([self.seen]))
                self._change = next(self._points)
            n = min(len(x), self._change - self.seen)
            gains = self.stakes.gains(x[:n], y[:n], np.zeros(n, int))[0]
            path = self.now + np.log1p(gains).cumsum()
            self.now, self.best = float(path[-1]), max(self.best, float(path.max()))
            self.path.append(path)
            self.past, self.seen = self.past + Moments.of(x[:n], y[:n]).total(), self.seen + n
            x, y = x[n:], y[n:]


def _scores(name: str, values: npt.ArrayLike) -> Floats:
    array = np.asarray(values, float)
    bad = ~((array >= 0) & (array <= 1))
    if bad.any():
        raise UsageError(
            f"{name} is {array[bad].flat[0]:g} in {int(bad.sum())} places; it must be between 0 "
            "and 1."
        )
    return array


def _credit(uniform: float | None, horizon: int | None) -> float:
    """-ln(uniform): what the e-value at the horizon gains."""
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


def _pair(values: tuple[npt.ArrayLike, npt.ArrayLike] | None) -> tuple[Floats, Floats] | None:
    if values is None:
        return None
    one, other = (np.atleast_2d(np.asarray(v, float)) for v in values)
    return one, other


def _lines(claim: Guarantee, deltas: tuple[float, ...]) -> Lines:
    """The lines that a claim implies."""
    if isinstance(claim, Gaussian):
        return _tangents(np.array([claim.mu]))
    levels = sorted({*deltas, *([claim.delta] if isinstance(claim, ApproxDP) else [])})
    known = [(claim.epsilon(d), d) for d in levels if claim.epsilon(d) < 700]  # e^700: the largest
    if not known:
        raise UsageError(
            f"the claim ({claim.describe()}) states nothing that a trial could reject; state an "
            "epsilon below 700."
        )
    eps, delta = np.array(known).T
    return Lines.of(eps[None], delta[None])


def _tangents(mu: Floats) -> Lines:
    eps = mu[:, None] * TANGENTS
    return Lines.of(eps, np.asarray(gdp_delta(eps, mu[:, None])))
