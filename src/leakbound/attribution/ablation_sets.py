"""Influence of units by ablating sets of them: leave-one-out, Shapley values, lasso.

A set is a row of booleans that says which units are kept. Its value is ln p of each response token
with the other units ablated. This module works on such arrays only and calls no model.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np
import numpy.typing as npt

from leakbound.errors import UsageError, unknown_name

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
EXACT_UNITS = 10  # all sets of 10 units are 1,024: the default of --sets
FOLDS = 5  # of the cross-validation that chooses the penalty of the lasso
GROUPS = 10  # of sets; the jackknife of the lasso leaves out one group at a time
PENALTIES = np.geomspace(1.0, 1e-3, 16)  # as shares of the least penalty that makes everything 0
SWEEPS = 200  # the most passes over the coefficients; correlated columns need a few dozen
CLOSE = 1e-7  # nats: the fit has converged if no coefficient moves by more


@dataclass(frozen=True, slots=True)
class _Solved:
    """Influence of units on a response."""

    signed: Floats
    errors: Floats | None = None
    share_errors: Floats | None = None
    parts: int = 0


# A plan has `kept`, the (sets, units) that each set keeps, and `solve`: it computes influence from
# (sets, tokens) ln p of each set.


@dataclass(frozen=True, slots=True)
class LeaveOneOut:
    """Each unit is ablated alone.

    Reference: CI, Definition 3.1.
    """

    units: int

    @property
    def kept(self) -> Bools:
        """All units, then all but one, for each unit."""
        return np.vstack([np.ones((1, self.units), bool), ~np.eye(self.units, dtype=bool)])

    def solve(self, values: Floats) -> _Solved:
        """The change of ln p by each ablation."""
        return _Solved(values[0] - values[1:])


@dataclass(frozen=True, slots=True)
class ExactShapley:
    """Shapley values over all sets: the mean gain of a unit over all orders of adding units.

    Reference: Shapley, A value for n-person games, 1953.
    """

    units: int

    @property
    def kept(self) -> Bools:
        """All subsets; row i keeps the units whose bits are set in i."""
        numbers = np.arange(1 << self.units)
        return (numbers[:, None] >> np.arange(self.units) & 1).astype(bool)

    def solve(self, values: Floats) -> _Solved:
        """Shapley values."""
        kept = self.kept
        size = kept.sum(1)
        weights = np.array([1 / (self.units * comb(self.units - 1, s)) for s in range(self.units)])
        signed = []
        for unit in range(self.units):
            without = np.flatnonzero(~kept[:, unit])
            gains = values[without | 1 << unit] - values[without]
            signed.append((weights[size[without], None] * gains).sum(0))
        return _Solved(np.array(signed))


@dataclass(frozen=True, slots=True, eq=False)
class SampledShapley:
    """Shapley values from random orders, each paired with its reverse.

    Reference:
        Castro, Gomez and Tejada, Polynomial calculation of the Shapley value based on sampling,
        2009; reversed orders as antithetic draws: Mitchell et al., Sampling permutations for
        Shapley value estimation, 2022.
    """

    orders: Ints

    @property
    def _every(self) -> Ints:
        """(pairs, 2, units) each order and its reverse."""
        return np.stack([self.orders, self.orders[:, ::-1]], 1)

    @property
    def kept(self) -> Bools:
        """For each order in turn, the sets that grow from no unit to all units."""
        orders = self._every.reshape(-1, self.orders.shape[1])
        rank = orders.argsort(1)
        grown: Bools = rank[:, None, :] < np.arange(orders.shape[1] + 1)[None, :, None]
        return grown.reshape(-1, orders.shape[1])

    def solve(self, values: Floats) -> _Solved:
        """Mean gains, with jackknife errors over pairs of orders."""
        pairs, units = self.orders.shape
        grown = values.reshape(pairs, 2, units + 1, values.shape[-1])
        gains = np.empty((pairs, 2, units, values.shape[-1]))
        np.put_along_axis(gains, self._every[..., None], np.diff(grown, axis=2), 2)
        each = gains.mean(1)
        signed = each.mean(0)
        return _Solved(signed, *jackknife((pairs * signed - each) / (pairs - 1)), pairs)


@dataclass(frozen=True, slots=True, eq=False)
class Lasso:
    """A sparse linear model of ln p over random sets.

    Reference:
        Cohen-Wang et al., ContextCite, 2024, who fit the log-odds of the response. Here it is ln p
        of each token, so the values are in nats like those of the other methods.
    """

    kept: Bools

    def solve(self, values: Floats) -> _Solved:
        """Fit with the penalty that has the smallest error in cross-validation."""
        x = self.kept.astype(float)
        penalty = _best_penalty(x, values)
        rows = np.arange(len(x)) % GROUPS
        fewer = [_fit(x[rows != g], values[rows != g], [penalty])[0] for g in range(GROUPS)]
        return _Solved(_fit(x, values, [penalty])[0], *jackknife(np.array(fewer)), GROUPS)


METHODS = ("leave-one-out", "shapley", "lasso")


def plan_sets(
    method: str, units: int, sets: int, rng: np.random.Generator
) -> LeaveOneOut | ExactShapley | SampledShapley | Lasso:
    if method not in METHODS:
        raise unknown_name("the method", method, METHODS)
    if method == "leave-one-out":
        return LeaveOneOut(units)
    if method == "shapley" and units <= EXACT_UNITS and 1 << units <= sets:
        return ExactShapley(units)
    least = 4 * (units - 1) + 2 if method == "shapley" else 2 * GROUPS
    if sets < least:
        raise UsageError(
            f"--sets is {sets}; it must be at least {least} for {units} units, so that a standard "
            "error can be stated. Raise it, or take larger units."
        )
    if method == "lasso":
        return Lasso(rng.random((sets, units)) < 0.5)
    pairs = (sets - 2) // (2 * (units - 1))
    return SampledShapley(np.array([rng.permutation(units) for _ in range(pairs)]))


def jackknife(fewer: Floats) -> tuple[Floats, Floats]:
    """Standard errors of influence and of shares, from estimates that each leave out one part.

    Reference: Efron and Stein, The jackknife estimate of variance, 1981.
    """
    totals = np.abs(fewer).sum(2)
    every = totals.sum(1, keepdims=True)
    shares = np.divide(totals, every, out=np.zeros_like(totals), where=every > 0)
    return _spread(totals), _spread(shares)


def _spread(fewer: Floats) -> Floats:
    parts = len(fewer)
    return np.asarray(np.sqrt((parts - 1) / parts * ((fewer - fewer.mean(0)) ** 2).sum(0)))


def _best_penalty(x: Floats, y: Floats) -> float:
    """The penalty with the smallest squared error on rows that the fit did not see."""
    top = float(np.abs((x - x.mean(0)).T @ (y - y.mean(0))).max(initial=0) / len(x))
    penalties = [float(top * share) for share in PENALTIES]
    fold, loss = np.arange(len(x)) % FOLDS, np.zeros(len(penalties))
    for at in range(FOLDS):
        seen, other = fold != at, fold == at
        middle, level = x[seen].mean(0), y[seen].mean(0)
        for number, coefficients in enumerate(_fit(x[seen], y[seen], penalties)):
            missed = y[other] - level - (x[other] - middle) @ coefficients
            loss[number] += float((missed**2).sum())
    return penalties[int(loss.argmin())]


def _fit(x: Floats, y: Floats, penalties: list[float]) -> list[Floats]:
    """(units, tokens) for each penalty: argmin |y - x b|^2 / (2 rows) + penalty |b|_1."""
    x, y = x - x.mean(0), y - y.mean(0)
    gram, cross = x.T @ x / len(x), x.T @ y / len(x)
    b, found = np.zeros_like(cross), []
    for penalty in penalties:
        for _ in range(SWEEPS):
            before = b.copy()
            for unit in np.flatnonzero(gram.diagonal()):
                rest = cross[unit] - gram[unit] @ b + gram[unit, unit] * b[unit]
                shrunk = np.maximum(np.abs(rest) - penalty, 0)
                b[unit] = np.sign(rest) * shrunk / gram[unit, unit]
            if np.abs(b - before).max(initial=0) < CLOSE:
                break
        found.append(b.copy())
    return found
