"""Influence of units by ablation of sets of them: leave-one-out, Shapley values, lasso.

A set is a row of booleans, which units are kept; its value is ln p of each response token with the
other units ablated. Everything here runs on such arrays, and asks no model.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import Protocol

import numpy as np
import numpy.typing as npt

from leakbound.errors import UsageError, unknown_name

__all__ = [
    "METHODS", "ExactShapley", "Lasso", "LeaveOneOut", "SampledShapley", "SetPlan", "Solved",
    "jackknife", "plan_sets",
]  # fmt: skip

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
EXACT_UNITS = 10  # all 1,024 sets: as many as the default of --sets
FOLDS = 5  # of the cross-validation that chooses the lasso's penalty
GROUPS = 10  # of sets that the jackknife of the lasso leaves out, one at a time
PENALTIES = np.geomspace(1.0, 1e-3, 16)  # shares of the least penalty at which all is 0
SWEEPS = 200  # most passes over the coefficients: correlated columns need a few dozen
CLOSE = 1e-7  # nats that a coefficient may still move


@dataclass(frozen=True, slots=True)
class Solved:
    """Influence of units on a response.

    Attributes:
        signed: (units, tokens) signed influence in nats.
        errors: (units,) standard error of the influence on the response, the sum of |signed|; None
            where nothing was drawn at random.
        share_errors: (units,) standard error of each unit's share of all influence; None likewise.
        parts: How many parts of what was drawn the errors compare; 0 likewise.
    """

    signed: Floats
    errors: Floats | None = None
    share_errors: Floats | None = None
    parts: int = 0


class SetPlan(Protocol):
    """Which sets are measured, and what follows from their values."""

    @property
    def kept(self) -> Bools:
        """(sets, units) the units that each set keeps."""

    def solve(self, values: Floats) -> Solved:
        """Influence from (sets, tokens) ln p of each set."""


@dataclass(frozen=True, slots=True)
class LeaveOneOut:
    """Each unit is ablated alone.

    Attributes:
        units: Number of units.

    Reference:
        CI, Definition 3.1.
    """

    units: int

    @property
    def kept(self) -> Bools:
        """All units, then all but each."""
        return np.vstack([np.ones((1, self.units), bool), ~np.eye(self.units, dtype=bool)])

    def solve(self, values: Floats) -> Solved:
        """What each ablation takes away.

        Args:
            values: (units + 1, tokens) ln p.

        Returns:
            Influence without errors.
        """
        return Solved(values[0] - values[1:])


@dataclass(frozen=True, slots=True)
class ExactShapley:
    """Every set is measured: the mean gain of a unit over all orders in which units can join.

    The values of all units sum to what all of them together change.

    Attributes:
        units: Number of units.

    Reference:
        Shapley, A value for n-person games, 1953.
    """

    units: int

    @property
    def kept(self) -> Bools:
        """All subsets; row i keeps the units whose bits are set in i."""
        numbers = np.arange(1 << self.units)
        return (numbers[:, None] >> np.arange(self.units) & 1).astype(bool)

    def solve(self, values: Floats) -> Solved:
        """Shapley values.

        Args:
            values: (2^units, tokens) ln p.

        Returns:
            Influence without errors: nothing is drawn.
        """
        kept = self.kept
        size = kept.sum(1)
        weights = np.array([1 / (self.units * comb(self.units - 1, s)) for s in range(self.units)])
        signed = []
        for unit in range(self.units):
            without = np.flatnonzero(~kept[:, unit])
            gains = values[without | 1 << unit] - values[without]
            signed.append((weights[size[without], None] * gains).sum(0))
        return Solved(np.array(signed))


@dataclass(frozen=True, slots=True, eq=False)
class SampledShapley:
    """Shapley values from random orders, each beside its reverse.

    Attributes:
        orders: (pairs, units) orders in which units join; the reverse of each is used as well.

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
        """For each order, in turn, the sets that grow from no unit to all."""
        orders = self._every.reshape(-1, self.orders.shape[1])
        rank = orders.argsort(1)
        grown: Bools = rank[:, None, :] < np.arange(orders.shape[1] + 1)[None, :, None]
        return grown.reshape(-1, orders.shape[1])

    def solve(self, values: Floats) -> Solved:
        """Mean gains, with jackknife errors over the pairs of orders.

        Args:
            values: (sets, tokens) ln p, in the order of `kept`.

        Returns:
            Influence with standard errors.
        """
        pairs, units = self.orders.shape
        grown = values.reshape(pairs, 2, units + 1, values.shape[-1])
        gains = np.empty((pairs, 2, units, values.shape[-1]))
        np.put_along_axis(gains, self._every[..., None], np.diff(grown, axis=2), 2)
        each = gains.mean(1)
        signed = each.mean(0)
        return Solved(signed, *jackknife((pairs * signed - each) / (pairs - 1)), pairs)


@dataclass(frozen=True, slots=True, eq=False)
class Lasso:
    """A sparse linear model of ln p over random sets.

    Attributes:
        kept: (sets, units) the units that each random set keeps.

    Reference:
        Cohen-Wang et al., ContextCite, 2024, who fit the log-odds of the response; here it is ln p
        of each token, so that its values are in nats beside the others.
    """

    kept: Bools

    def solve(self, values: Floats) -> Solved:
        """Coefficients under the penalty with the least error in cross-validation.

        Args:
            values: (sets, tokens) ln p.

        Returns:
            Influence with the jackknife errors of groups of sets, at the chosen penalty.
        """
        x = self.kept.astype(float)
        penalty = _best_penalty(x, values)
        rows = np.arange(len(x)) % GROUPS
        fewer = [_fit(x[rows != g], values[rows != g], [penalty])[0] for g in range(GROUPS)]
        return Solved(_fit(x, values, [penalty])[0], *jackknife(np.array(fewer)), GROUPS)


METHODS = ("leave-one-out", "shapley", "lasso")


def plan_sets(method: str, units: int, sets: int, rng: np.random.Generator) -> SetPlan:
    """The sets that a method measures.

    Args:
        method: A name of `METHODS`.
        units: Number of units, at least 1.
        sets: Most sets that Shapley values and the lasso may measure.
        rng: Source of the orders or sets.

    Returns:
        The plan. Shapley values are exact where all sets are at most `sets`.

    Raises:
        UsageError: If the method is not known, or the sets are too few for a standard error.

    Examples:
        >>> plan_sets("shapley", 3, 1024, np.random.default_rng(0)).kept.shape
        (8, 3)
    """
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
    """Standard errors of influence and of shares from estimates that leave out a part each.

    Args:
        fewer: (parts, units, tokens) signed influence without each part of what was drawn.

    Returns:
        (units,) of the influence on the response, and (units,) of the share of all influence.

    Reference:
        Efron and Stein, The jackknife estimate of variance, 1981.
    """
    totals = np.abs(fewer).sum(2)
    every = totals.sum(1, keepdims=True)
    shares = np.divide(totals, every, out=np.zeros_like(totals), where=every > 0)
    return _spread(totals), _spread(shares)


def _spread(fewer: Floats) -> Floats:
    parts = len(fewer)
    return np.asarray(np.sqrt((parts - 1) / parts * ((fewer - fewer.mean(0)) ** 2).sum(0)))


def _best_penalty(x: Floats, y: Floats) -> float:
    """The penalty with the least squared error on rows that the fit did not see."""
    top = _least_penalty(x, y)
    penalties = [float(top * share) for share in PENALTIES]
    fold, loss = np.arange(len(x)) % FOLDS, np.zeros(len(penalties))
    for at in range(FOLDS):
        seen, other = fold != at, fold == at
        middle, level = x[seen].mean(0), y[seen].mean(0)
        for number, coefficients in enumerate(_fit(x[seen], y[seen], penalties)):
            missed = y[other] - level - (x[other] - middle) @ coefficients
            loss[number] += float((missed**2).sum())
    return penalties[int(loss.argmin())]


def _least_penalty(x: Floats, y: Floats) -> float:
    """The least penalty at which every coefficient is 0."""
    return float(np.abs((x - x.mean(0)).T @ (y - y.mean(0))).max(initial=0) / len(x))


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
