"""Which units are ablated, and what their values say: one at a time, sets of them, or some of many.

A set is a row of booleans that says which units are kept. Its value is ln p of each response token
with the other units ablated. This module works on arrays only and calls no model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
import numpy.typing as npt

from leakbound.attribution.record import CONFIDENCE, UnopenedUnits
from leakbound.errors import UsageError, unknown_name
from leakbound.stats import most_in_population

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Opened = tuple[Ints, Ints]  # units that were chosen, and drawn from the others
ALL = 32  # units up to which all are measured
# of a search: units that the screen opens at first; those for each of the K after which it opens no
# more; looks at windows next to the top ones; nats below which changes are not told apart
LEAST, MOST, ROUNDS, TINY = 6, 6, 2, 1e-3
EXACT_UNITS = 10  # all sets of 10 units are 1,024: the default of --sets
FOLDS = 5  # of the cross-validation that chooses the penalty of the lasso
GROUPS = 10  # of sets; the jackknife of the lasso leaves out one group at a time
PENALTIES = np.geomspace(1.0, 1e-3, 16)  # as shares of the least penalty that makes everything 0
STEPS = 20_000  # the most steps of a fit; with fewer sets than units it needs a few thousand
CLOSE = 1e-7  # nats: the fit has converged if no coefficient moves by more in a step
EVERY = 10  # steps between two looks at how far coefficients move


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
    """Each unit is ablated alone (CI, Definition 3.1)."""

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
    """Shapley values (1953): the mean gain of a unit over all orders of adding units."""

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

    Reference: Castro, Gomez and Tejada, Polynomial calculation of the Shapley value based on
    sampling, 2009; reversed orders as antithetic draws: Mitchell et al., Sampling permutations for
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

    Reference: Cohen-Wang et al., ContextCite, 2024, who fit the log-odds of the response. Here it
    is ln p of each token, so the values are in nats like those of the other methods.
    """

    kept: Bools

    def solve(self, values: Floats) -> _Solved:
        """Fit with the penalty that has the smallest error in cross-validation."""
        x = self.kept.astype(float)
        penalty = _best_penalty(x, values)
        group = np.arange(len(x)) % GROUPS
        every, *fewer = _fit(x, values, [group != g for g in (-1, *range(GROUPS))], [penalty])
        return _Solved(every[0], *jackknife(np.array(fewer)[:, 0]), GROUPS)


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
    """Standard errors of influence and shares, from all parts but one (Efron and Stein 1981)."""
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
    fits = _fit(x, y, [fold != at for at in range(FOLDS)], penalties)
    for at, of_fold in enumerate(fits):
        seen, other = fold != at, fold == at
        missed = y[other] - y[seen].mean(0) - (x[other] - x[seen].mean(0)) @ of_fold
        loss += (missed**2).sum((1, 2))
    return penalties[int(loss.argmin())]


def _fit(x: Floats, y: Floats, parts: Sequence[Bools], penalties: Sequence[float]) -> Floats:
    """(parts of rows, penalties, units, tokens) of the lasso: FISTA (Beck and Teboulle 2009)."""
    centred = [(x[rows] - x[rows].mean(0), y[rows] - y[rows].mean(0)) for rows in parts]
    gram = np.array([one.T @ one / len(one) for one, _ in centred])
    cross = np.array([one.T @ values / len(one) for one, values in centred])
    size = 1 / np.maximum(np.linalg.eigvalsh(gram)[:, -1], 1e-12)[:, None, None]
    shrink = size * np.repeat(penalties, y.shape[1])
    cross, gram = size * np.tile(cross, len(penalties)), size * gram
    b = ahead = np.zeros_like(cross)
    pace = 1.0
    for step in range(STEPS):
        moved = ahead - gram @ ahead + cross
        new = np.sign(moved) * np.maximum(np.abs(moved) - shrink, 0)
        change = new - b
        if step % EVERY == 0 and np.abs(change).max(initial=0) < CLOSE:
            break
        if float(((ahead - new) * change).sum()) > 0:
            pace = 1.0
        faster = (1 + np.sqrt(1 + 4 * pace * pace)) / 2
        ahead, b, pace = new + (pace - 1) / faster * change, new, faster
    found = new.reshape(len(parts), x.shape[1], len(penalties), y.shape[1])
    return np.moveaxis(found, 2, 1)


def open_units(
    units: int,
    top: int,
    draw: int,
    step: int,
    screen: Callable[[Sequence[int]], Floats],
    exact: Callable[[Sequence[int]], Floats],
    rng: np.random.Generator,
) -> Opened | None:
    """The units to measure that may be the top ones, and those drawn from the others; None for all.

    `screen` and `exact` give a value for each of some units. Of every `step`-th unit, those are
    measured that the screen puts first, and all others that may exceed the K-th by the ratios of
    those measured. Then the neighbours of the top ones, ever nearer. Nothing is drawn before.
    """
    opened = max(LEAST, top)
    if units <= max(ALL, opened + draw):
        return None
    step = 1 << min(step, units // opened).bit_length() - 1
    coarse = np.arange(0, units, step)
    guessed = np.maximum(screen(coarse.tolist()), TINY)
    found: dict[int, float] = {}

    def measured(wanted: Iterable[int]) -> bool:
        new = sorted({at for at in wanted if 0 <= at < units} - found.keys())
        found.update(zip(new, exact(new).tolist() if new else (), strict=True))
        return bool(new)

    order = guessed.argsort()[::-1]
    more = measured(coarse[order[:opened]].tolist())
    while more and len(found) < MOST * top:
        ratios = np.log([max(found[at], TINY) / guessed[at // step] for at in found])
        highest = guessed * np.exp(ratios.mean() + ratios.std())
        likely = coarse[order][highest[order] > sorted(found.values())[-top]]
        more = measured([at for at in likely.tolist() if at not in found][:top])
    nearer = [step >> by for by in range(1, step.bit_length())]
    for apart in nearer + nearer[-1:] * ROUNDS:
        best = sorted(found, key=lambda at: -found[at])[:top]
        measured(at + side for at in best for side in (-apart, apart))
    first = np.array(sorted(found))
    rest = np.setdiff1d(np.arange(units), first)
    if len(rest) <= draw:
        return None
    return first, rng.choice(rest, draw, replace=False)


def limit_unopened(opened: Opened, units: int, top: int, totals: Floats) -> UnopenedUnits:
    """What `totals` of the measured units, in their order, say about those that were left out."""
    first, drawn = opened
    chosen = np.isin(np.sort(np.concatenate(opened)), first)
    kth = float(np.sort(totals[chosen])[-top])
    exceeded, rest = int((totals[~chosen] > kth).sum()), units - len(first)
    most = most_in_population(exceeded, len(drawn), rest, 1 - CONFIDENCE)
    return UnopenedUnits(
        top=top, units=rest, drawn=len(drawn), kth=kth, exceeded=exceeded, most=most
    )
