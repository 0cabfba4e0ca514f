"""Families of claims about two rates: (epsilon, delta)-DP and mu-GDP, for unconditional bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import expit, log_expit, log_ndtr, logit, ndtri, xlogy

Floats = npt.NDArray[np.float64]
OUTWARDS = 1e-9  # margin of likelihood ratios and probabilities: 1,000 times their rounding error
LARGEST = 40.0  # epsilon, mu or logit of a rate; no practical number of trials resolves larger ones
HALVINGS = 30  # find a maximum to 1e-9 of an interval's length, which is enough for its value


@dataclass(frozen=True, slots=True)
class Trials:
    """Numbers of trials: n canary-in with rate p of "member", and m canary-out with rate q."""

    n: int
    m: int


class Claims(Protocol):
    """A family of claims, ordered from strong to weak; all curves are non-decreasing."""

    def smallest(self, p: Floats, q: Floats) -> Floats:
        """The strongest claim that allows two rates."""

    def log_likelihood(self, x: Floats, y: Floats, trials: Trials, claim: Floats) -> Floats:
        """Largest log likelihood on the edge of a claim."""


@dataclass(frozen=True, slots=True)
class ApproxClaims:
    """(epsilon, delta)-DP for all epsilon."""

    delta: float

    def smallest(self, p: Floats, q: Floats) -> Floats:
        """The larger epsilon of both directions."""
        return np.maximum(self._direction(p, q), self._direction(-q, -p))

    def _direction(self, p: Floats, q: Floats) -> Floats:
        above = expit(p) - self.delta
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(above > 0, np.log(above) - log_expit(q), -np.inf)

    def log_likelihood(self, x: Floats, y: Floats, trials: Trials, claim: Floats) -> Floats:
        """Largest log likelihood on the edge of (epsilon, delta)-DP.

        The edge consists of two line segments. Exchanging the two errors maps one to the other.
        """
        n, m = trials.n, trials.m
        return np.maximum(
            self._part(x, n - x, y, m - y, claim), self._part(m - y, y, n - x, x, claim)
        )

    def corner(self, epsilon: float) -> float:
        """Where the two parts of the edge meet."""
        return epsilon + math.log1p(self.delta * math.exp(-epsilon)) - math.log1p(-self.delta)

    def edge(self, p: Floats, epsilon: float) -> Floats:
        """The smallest q that a claim allows for a given p."""
        first = math.exp(-epsilon) * (expit(p) - self.delta)
        second_not = math.exp(epsilon) * expit(-p) + self.delta
        q = np.where(second_not <= 1 - first, 1 - second_not, first)
        q_not = np.where(second_not <= 1 - first, second_not, 1 - first)
        tiny = expit(-LARGEST)
        return np.asarray(np.log(np.maximum(q, tiny)) - np.log(np.maximum(q_not, tiny)))

    def _part(self, x: Floats, x_not: Floats, y: Floats, y_not: Floats, claim: Floats) -> Floats:
        """On p = e^epsilon q + delta, up to the corner where p = 1 - q."""
        slope = np.exp(claim)

        def rise(q: Floats) -> Floats:
            p = slope * q + self.delta
            return slope * (x / p - x_not / (1 - p)) + y / q - y_not / (1 - q)

        corner = (1 - self.delta) / (1 + slope)
        q = _peak(rise, np.zeros(np.broadcast(x, y, claim).shape), corner)
        p = slope * q + self.delta
        return np.asarray(xlogy(x, p) + xlogy(x_not, 1 - p) + xlogy(y, q) + xlogy(y_not, 1 - q))


@dataclass(frozen=True, slots=True)
class GaussianClaims:
    """mu-GDP for all mu."""

    def smallest(self, p: Floats, q: Floats) -> Floats:
        """Phi^-1(p) - Phi^-1(q)."""
        return _normal_quantile(p) - _normal_quantile(q)

    def log_likelihood(self, x: Floats, y: Floats, trials: Trials, claim: Floats) -> Floats:
        """Largest log likelihood on p = Phi(a + mu), q = Phi(a)."""
        x_not, y_not = trials.n - x, trials.m - y

        def rise(a: Floats) -> Floats:
            b = a + claim
            return x * _mills(b) - x_not * _mills(-b) + y * _mills(a) - y_not * _mills(-a)

        shape = np.broadcast(x, y, claim).shape
        a = _peak(rise, np.full(shape, -LARGEST), LARGEST)
        b = a + claim
        return np.asarray(
            x * log_ndtr(b) + x_not * log_ndtr(-b) + y * log_ndtr(a) + y_not * log_ndtr(-a)
        )


def _normal_quantile(rate: Floats) -> Floats:
    """Normal quantile of a rate that is given as a logit, computed from its smaller tail."""
    return np.asarray(np.copysign(ndtri(expit(-np.abs(rate))), rate))


def _mills(a: Floats) -> Floats:
    """Derivative of ln Phi."""
    return np.asarray(np.exp(-a * a / 2 - log_ndtr(a)) / math.sqrt(2 * math.pi))


def _peak(rise: Callable[[Floats], Floats], low: Floats, high: npt.ArrayLike) -> Floats:
    """Where a decreasing derivative changes sign; the nearer end if it does not."""
    high = np.broadcast_to(np.asarray(high, float), low.shape)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        up = rise(middle) > 0
        low, high = np.where(up, middle, low), np.where(up, high, middle)
    return np.asarray((low + high) / 2)


def log_likelihood_ratio(
    x: Floats, y: Floats, trials: Trials, claims: Claims, claim: Floats
) -> Floats:
    """Twice the log likelihood ratio of unrestricted rates to the rates that a claim allows."""
    n, m = trials.n, trials.m
    free = _log_binomial(x, n) + _log_binomial(y, m)
    with np.errstate(invalid="ignore"):
        observed = claims.smallest(logit(x / n), logit(y / m))
    inside = (x * m <= y * n) | (observed <= claim)
    return np.where(inside, 0.0, 2 * (free - claims.log_likelihood(x, y, trials, claim)))


def _log_binomial(x: Floats, n: int) -> Floats:
    """Largest log likelihood of x successes in n trials, without the binomial coefficient."""
    return np.asarray(xlogy(x, x / n) + xlogy(n - x, 1 - x / n))


def critical(confidence: float) -> float:
    """The ratio at which a claim is rejected. Its value cannot make a bound invalid."""
    return float(ndtri(max(confidence, 0.75))) ** 2


def approximate_limit(x: int, y: int, trials: Trials, claims: Claims, confidence: float) -> float:
    """The largest claim that the likelihood ratio rejects. It orders the outcomes."""
    low, high = 0.0, LARGEST
    for _ in range(5):  # a resolution of 64^-5, below 1e-7 of the range
        grid = np.linspace(low, high, 65)
        ratio = log_likelihood_ratio(
            np.asarray(float(x)), np.asarray(float(y)), trials, claims, grid
        )
        rejected = int((ratio >= critical(confidence)).sum())
        if rejected == 0:
            return low if low > 0 else 0.0
        low, high = grid[rejected - 1], grid[min(rejected, 64)]
    return low * (1 - OUTWARDS)
