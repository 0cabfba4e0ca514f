"""The e-process: anytime-valid bets against a privacy claim, pair by pair.

Per pair t and threshold tau, x and y in [0, 1] are the member's and the non-member's chance of
"member": the 0/1 outcome of
one release, the mean over releases, or the exact probability from the law. A claim says E[x] <=
e^eps E[y] + delta, and the same
of 1 - y and 1 - x: one line each. So the wealth prod(1 + lambda_t z_t), with z_t = x_t - e^eps y_t
- delta of a line and a
threshold that are chosen, like lambda_t, before pair t, and lambda_t so small that no factor is
negative, is a non-negative
supermartingale under the claim. By Ville's inequality it ever reaches 1/alpha with probability at
most alpha. Choosing one line
and threshold from the past costs no factor, as averaging over all of them would; nothing is ever
chosen in hindsight.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from leakbound._check import confidence_level, count, delta_value
from leakbound.errors import UsageError
from leakbound.privacy import Gaussian, Guarantee, gdp_delta, gdp_epsilon
from leakbound.stats.estimate import Estimate
from leakbound.stats.stakes import Lines, Moments, StakeRule, rounds

__all__ = ["EProcess"]

Floats = npt.NDArray[np.float64]
TANGENTS = np.array(
    [0.0, 0.2, 0.5, 1.0, 2.0]
)  # epsilon of the tangent lines of a mu-GDP claim, in units of mu
GRID = np.concatenate(
    [[0.0], 0.01 * 1.01 ** np.arange(765)]
)  # the claims that a bound scans, up to 20
CHUNK = 64  # claims played at once
ASSUMES = ("pairs are independent, or drawn so that the claim holds for each given the past",)


class EProcess:
    """StakeRule against `claim`, one pair at a time; may be stopped and read at any time.

    support: (xs, ys), each (states, thresholds): all values that a pair can take, if known (such as
    vote counts that differ
    by at most one within a pair); it allows larger bets. Without it every (x, y) in [0, 1]^2 is
    allowed for.
    weights: prior weights of the thresholds. expected: the (x, y) of a typical pair, believed
    before the data; it guides the
    first bets. horizon: planned number of pairs; bets then aim at the tightest bound there. None of
    the last three can
    make a result invalid. Raises UsageError for scores that are NaN, outside [0, 1], or outside the
    support.
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
    ) -> None:
        self.claim, self.confidence = claim, confidence_level(confidence)
        self.horizon = None if horizon is None else count("horizon", horizon)
        self.support, self.weights, self.expected = _pair(support), weights, _pair(expected)
        self.lines = _lines(claim, deltas)
        self._x: list[Floats] = []
        self._y: list[Floats] = []
        self._live: _Live | None = None

    def update(self, x: npt.ArrayLike, y: npt.ArrayLike) -> None:
        """One pair: scores in [0, 1], one per threshold (or a single number)."""
        self.extend(
            np.atleast_1d(np.asarray(x, float))[None], np.atleast_1d(np.asarray(y, float))[None]
        )

    def extend(self, x: npt.ArrayLike, y: npt.ArrayLike) -> None:
        """Many pairs in their order: (n, thresholds); the same as n updates."""
        xs, ys = (_scores(name, v) for name, v in (("x", x), ("y", y)))
        if xs.ndim != 2 or xs.shape != ys.shape or (self._x and xs.shape[1] != self._x[0].shape[1]):
            raise UsageError(
                f"x has shape {xs.shape} and y {ys.shape}; they must be (pairs, thresholds), with "
                "the same thresholds every time."
            )
        if self._live is None:
            self._live = _Live(self._bets(self.lines, xs.shape[1]), self._prior(xs.shape[1]))
        self._live.bets.check(xs, ys)
        self._live.extend(xs, ys)
        self._x.append(xs)
        self._y.append(ys)

    @property
    def pairs(self) -> int:
        """Pairs seen so far."""
        return sum(map(len, self._x))

    @property
    def e_value(self) -> float:
        """Evidence against the claim now: under the claim its expectation is at most 1."""
        return math.exp(min(self._live.now, 700.0)) if self._live else 1.0

    @property
    def log_e_values(self) -> Floats:
        """(pairs,) ln of the wealth after each pair."""
        return np.concatenate(self._live.path) if self._live and self._live.path else np.zeros(0)

    @property
    def rejected(self) -> bool:
        """Has the wealth ever reached 1/alpha?"""
        return self._live is not None and self._live.best >= self.log_threshold

    @property
    def rejected_at(self) -> int | None:
        """The pair at which the wealth first reached 1/alpha."""
        over = np.flatnonzero(self.log_e_values >= self.log_threshold)
        return int(over[0]) + 1 if over.size else None

    def epsilon_lower_bound(self, delta: float) -> Estimate:
        """Largest epsilon such that it and all smaller ones are refuted at `delta`.

        Kind: lower_bound, for any mechanism.
        """
        delta_value(delta)
        value = self._scan(lambda eps: Lines.of(eps[:, None], np.full((eps.size, 1), delta)))
        return self._estimate("e_process", value, delta, None)

    def mu_lower_bound(self, delta: float = 1e-5) -> Estimate:
        """Largest mu such that it and all smaller mu-GDP claims are refuted; epsilon is implied if
        the mechanism is Gaussian.

        Raises UsageError at delta = 0, where every mu > 0 implies an infinite epsilon.
        """
        if delta_value(delta) == 0:
            raise UsageError(
                "delta is 0; a bound on mu implies no finite epsilon there. Use a delta such as "
                "1e-5."
            )
        mu = self._scan(_tangents)
        return self._estimate("e_process_mu", gdp_epsilon(mu, delta), delta, mu)

    @property
    def log_threshold(self) -> float:
        """ln(1/alpha): the ln of the wealth that refutes."""
        return -math.log(1 - self.confidence)

    def _estimate(self, method: str, epsilon: float, delta: float, mu: float | None) -> Estimate:
        given = (
            () if mu is None else ("epsilon is implied by mu only if the mechanism is Gaussian",)
        )
        return Estimate(
            method, "lower_bound", epsilon, delta, self.confidence, {"pairs": self.pairs}, ASSUMES + given, mu=mu,
            threshold="chosen before each pair from earlier pairs",
        )  # fmt: skip

    def _scan(self, lines: Callable[[Floats], Lines]) -> float:
        """The last refuted claim of a fixed grid before the first that stands: errs only if a true
        claim is refuted.

        The claims are nested, so the truth's upper neighbour on the grid is a true claim, and to
        report more than the
        truth the scan would have to pass it.
        """
        low = 0.0
        for claims, rejected in self._plays(lines):
            stands = np.flatnonzero(~rejected)
            if stands.size:
                return float(claims[stands[0] - 1]) if stands[0] else low
            low = float(claims[-1])
        return low

    def _plays(
        self, lines: Callable[[Floats], Lines]
    ) -> Iterator[tuple[Floats, npt.NDArray[np.bool_]]]:
        """Chunks of the grid of claims, and which of each were refuted by the pairs so far."""
        if not self._x:
            return
        x, y = np.concatenate(self._x), np.concatenate(self._y)
        size = max(1, min(CHUNK, 4_000_000 // len(x)))
        for start in range(0, GRID.size, size):
            claims = GRID[start : start + size]
            bets = self._bets(lines(claims), x.shape[1])
            yield claims, bets.play(x, y, self._prior(x.shape[1])) >= self.log_threshold

    def _bets(self, lines: Lines, thresholds: int) -> StakeRule:
        prior = np.ones(thresholds) if self.weights is None else np.asarray(self.weights, float)
        return StakeRule(
            lines, self._states(thresholds), np.log(prior / prior.max()), self.log_threshold, self.horizon
        )

    def _states(self, thresholds: int) -> tuple[Floats, Floats]:
        if self.support is not None:
            return self.support
        corners = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
        return np.repeat(corners[:, :1], thresholds, 1), np.repeat(corners[:, 1:], thresholds, 1)

    def _prior(self, thresholds: int) -> Moments:
        if self.expected is None:
            return Moments.of(np.ones((1, thresholds)), np.zeros((1, thresholds)))
        return Moments.of(*self.expected).times(2.0)


class _Live:
    """The running wealth of one claim; bets change when `rounds` says, as in a replay."""

    def __init__(self, bets: StakeRule, prior: Moments) -> None:
        self.bets, self.past, self.seen = bets, prior, 0
        self.now, self.best = 0.0, -math.inf
        self.path: list[Floats] = []
        self._next = rounds()
        self._change = next(self._next)

    def extend(self, x: Floats, y: Floats) -> None:
        """Stakes what the past suggests, then look; as many pairs at once as the same bet is for."""
        while len(x):
            if self.seen == self._change:
                self.bet = self.bets.choose(self.past, np.array([self.seen]))
                self._change = next(self._next)
            n = min(len(x), self._change - self.seen)
            path = self.now + np.log1p(self.bet.gains(x[:n], y[:n], np.zeros(n, int)))[0].cumsum()
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


def _pair(values: tuple[npt.ArrayLike, npt.ArrayLike] | None) -> tuple[Floats, Floats] | None:
    if values is None:
        return None
    one, other = (np.atleast_2d(np.asarray(v, float)) for v in values)
    return one, other


def _lines(claim: Guarantee, deltas: tuple[float, ...]) -> Lines:
    """The lines that a claim implies."""
    if isinstance(claim, Gaussian):
        return _tangents(np.array([claim.mu]))
    levels = sorted({*deltas, *([claim.delta] if hasattr(claim, "delta") else [])})
    known = [(claim.epsilon(d), d) for d in levels if claim.epsilon(d) < 700]
    if not known:
        raise UsageError(
            f"the claim ({claim.describe()}) promises nothing that a trial could refute."
        )
    eps, delta = np.array(known).T
    return Lines.of(eps[None], delta[None])


def _tangents(mu: Floats) -> Lines:
    eps = mu[:, None] * TANGENTS
    return Lines.of(eps, np.asarray(gdp_delta(eps, mu[:, None])))
