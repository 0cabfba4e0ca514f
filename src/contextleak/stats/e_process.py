"""The e-process: anytime-valid bets against a privacy claim, pair by pair.

Per pair t and threshold tau, x and y in [0, 1] are the member's and the non-member's chance of "member": the 0/1 outcome of
one release, the mean over releases, or the exact probability from the law. A claim says E[x] <= e^eps E[y] + delta, and the same
of 1 - y and 1 - x. So the wealth prod(1 + lambda_t (x_t - e^eps y_t - delta)), with lambda_t chosen before pair t and small enough
that no factor is negative, is a non-negative supermartingale under the claim. Wealths of several lines, thresholds and both
directions are averaged, never maximised; by Ville's inequality the average reaches 1/alpha with probability at most alpha.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from contextleak._check import confidence_level, delta_value, within
from contextleak.errors import UsageError
from contextleak.privacy import Gaussian, Guarantee, gdp_delta, gdp_epsilon
from contextleak.stats.estimate import Estimate

__all__ = ["EProcess"]

Floats = npt.NDArray[np.float64]
Line = tuple[float, float]  # (e^epsilon, delta): TPR <= e^epsilon FPR + delta
TANGENTS = (0.0, 0.75, 1.5, 2.5)  # epsilon of the tangent lines of a mu-GDP claim, in units of mu
CAP, START = 0.98, 0.5  # shares of the largest admissible bet: never more, and the first one
ASSUMES = ("pairs are independent, or drawn so that the claim holds for each given the past",)


class EProcess:
    """Bets against `claim`; `support` = (xs, ys), each (states, thresholds), lists all values a pair can take, if known.

    A known support (such as vote counts that differ by at most one within a pair) allows larger bets; without it every
    (x, y) in [0, 1]^2 is allowed for. `weights` are prior weights of the thresholds, chosen before the data.
    Raises UsageError for scores that are NaN, outside [0, 1], or outside the support.
    """

    def __init__(
        self,
        claim: Guarantee,
        confidence: float = 0.95,
        support: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
        weights: npt.ArrayLike | None = None,
        deltas: tuple[float, ...] = (1e-5,),
    ) -> None:
        self.claim, self.confidence = claim, confidence_level(confidence)
        self.lines = _lines(claim, deltas)
        self.support = None if support is None else tuple(np.atleast_2d(np.asarray(s, float)) for s in support)
        self.weights = weights
        self._pairs: list[tuple[Floats, Floats]] = []
        self._bets: _Bets | None = None
        self._best = -math.inf

    def update(self, x: npt.ArrayLike, y: npt.ArrayLike) -> None:
        """One pair: scores in [0, 1], one per threshold (or a single number)."""
        xs, ys = (np.atleast_1d(np.asarray(within(name, v, 0.0, 1.0), float)) for name, v in (("x", x), ("y", y)))
        if xs.shape != ys.shape or (self._pairs and xs.shape != self._pairs[0][0].shape):
            raise UsageError(
                f"x has shape {xs.shape} and y {ys.shape}; they must have one entry per threshold, the same every time."
            )
        if self._bets is None:
            self._bets = self._bettor(self.lines, xs.size)
        self._pairs.append((xs, ys))
        self._bets.step(xs, ys)
        self._best = max(self._best, self._bets.log_wealth)

    @property
    def pairs(self) -> int:
        """Pairs seen so far."""
        return len(self._pairs)

    @property
    def wealth(self) -> float:
        """Evidence against the claim now: under the claim its expectation is at most 1."""
        return math.exp(min(self._bets.log_wealth, 700.0)) if self._bets else 1.0

    @property
    def refuted(self) -> bool:
        """Has the wealth ever reached 1/alpha?"""
        return self._best >= -math.log(1 - self.confidence)

    def epsilon_lower_bound(self, delta: float) -> Estimate:
        """Largest epsilon such that it and all smaller ones are refuted at `delta`. Kind: lower_bound, for any mechanism."""
        delta_value(delta)
        value = self._scan(lambda eps: [(math.exp(eps), delta)], 20.0)
        return self._estimate("e_process", value, delta, None)

    def mu_lower_bound(self, delta: float = 1e-5) -> Estimate:
        """Largest mu such that it and all smaller mu-GDP claims are refuted; epsilon is implied if the mechanism is Gaussian."""
        mu = self._scan(_tangents, 20.0)
        return self._estimate("e_process_mu", gdp_epsilon(mu, delta), delta, mu)

    def _estimate(self, method: str, epsilon: float, delta: float, mu: float | None) -> Estimate:
        given = () if mu is None else ("epsilon is implied by mu only if the mechanism is Gaussian",)
        return Estimate(
            method, "lower_bound", epsilon, delta, self.confidence, {"pairs": self.pairs}, ASSUMES + given, mu=mu,
            threshold="mixture over thresholds fixed beforehand",
        )  # fmt: skip

    def _scan(self, lines: Callable[[float], list[Line]], top: float) -> float:
        """Scan upwards to the first claim that stands, then close in on it from below."""
        if not self._pairs or not self._refutes(lines(0.0)):
            return 0.0
        low, step = 0.0, 0.05
        while low + step < top and self._refutes(lines(low + step)):
            low += step
        high = low + step
        for _ in range(12):
            middle = (low + high) / 2
            low, high = (middle, high) if self._refutes(lines(middle)) else (low, middle)
        return low

    def _refutes(self, lines: list[Line]) -> bool:
        bets = self._bettor(lines, self._pairs[0][0].size)
        level = -math.log(1 - self.confidence)
        for x, y in self._pairs:
            bets.step(x, y)
            if bets.log_wealth >= level:
                return True
        return False

    def _bettor(self, lines: list[Line], thresholds: int) -> _Bets:
        return _Bets(lines, thresholds, self.support, self.weights)


class _Bets:
    """Wealth of every line, direction and threshold: arrays of shape (lines, 2, thresholds)."""

    def __init__(
        self, lines: list[Line], thresholds: int, support: tuple[Floats, ...] | None, weights: npt.ArrayLike | None
    ) -> None:
        self.slope, self.offset = (np.array(v, float)[:, None, None] for v in zip(*lines, strict=True))
        prior = np.ones(thresholds) if weights is None else np.asarray(weights, float)
        shape = (len(lines), 2, thresholds)
        self.log_prior = np.broadcast_to(np.log(prior / prior.sum() / (2 * len(lines))), shape)
        self.largest = 1 / np.maximum(self._deepest(support, shape), 1e-12)
        self.log_each = np.zeros(shape)
        self.sum, self.square, self.count = np.zeros(shape), np.zeros(shape), 0
        self.log_wealth = 0.0

    def payoff(self, x: Floats, y: Floats) -> Floats:
        """x - e^eps y - delta, and the same of (1 - y, 1 - x)."""
        one, other = (
            x - self.slope[:, 0] * y - self.offset[:, 0],
            (1 - y) - self.slope[:, 0] * (1 - x) - self.offset[:, 0],
        )
        return np.stack([one, other], 1)

    def _deepest(self, support: tuple[Floats, ...] | None, shape: tuple[int, ...]) -> Floats:
        """The largest possible loss of a bet of 1."""
        if support is None:
            return np.broadcast_to(self.slope + self.offset, shape)
        losses = [-self.payoff(x, y) for x, y in zip(*support, strict=True)]
        return np.asarray(np.max(losses, axis=0))

    def step(self, x: Floats, y: Floats) -> None:
        """Bet what the past suggests, then look."""
        gain = self._bet() * self.payoff(x, y)
        if np.any(gain <= -1):
            raise UsageError("a pair of scores lies outside the stated support; give the right support, or none.")
        self.log_each = self.log_each + np.log1p(gain)
        pay = self.payoff(x, y)
        self.sum, self.square, self.count = self.sum + pay, self.square + pay**2, self.count + 1
        top = (self.log_each + self.log_prior).max()
        self.log_wealth = float(top + np.log(np.exp(self.log_each + self.log_prior - top).sum()))

    def _bet(self) -> Floats:
        """Kelly's share to second order, from the past alone; never above CAP of what keeps the wealth positive."""
        if self.count == 0:
            return START * self.largest
        mean, square = self.sum / self.count, self.square / self.count
        share = np.maximum(mean, 0) / np.maximum(square + 1 / (self.count + 1) ** 2 * mean**2, 1e-12)
        return np.clip(share, 0.0, CAP * self.largest)


def _lines(claim: Guarantee, deltas: tuple[float, ...]) -> list[Line]:
    """The lines that a claim implies."""
    if isinstance(claim, Gaussian):
        return _tangents(claim.mu)
    levels = sorted({*deltas, *([claim.delta] if hasattr(claim, "delta") else [])})
    lines = [(math.exp(claim.epsilon(d)), d) for d in levels if claim.epsilon(d) < 700]
    if not lines:
        raise UsageError(f"the claim ({claim.describe()}) promises nothing that a trial could refute.")
    return lines


def _tangents(mu: float) -> list[Line]:
    return [(math.exp(s * mu), float(gdp_delta(s * mu, mu))) for s in TANGENTS]
