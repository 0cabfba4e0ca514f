"""Renyi differential privacy (RDP) of one order: divergences, conversions and composition."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from leakbound._check import at_least, delta_value, of_one_shape, positive, within
from leakbound._members import Final
from leakbound.errors import UsageError
from leakbound.privacy.compose import Relation
from leakbound.privacy.rounding import ROUNDING, bisect, sum_up

HALVINGS = 80  # enough for the last bit of a float, from a bracket about epsilon wide
SECTIONS = 80  # golden sections: enough for 1e-13 in a range of logarithms less than 1000 wide
GOLDEN = (math.sqrt(5) - 1) / 2
# how far rounding can lift a logarithm of a probability above 0; order with a square and products
CLOSE, LARGEST = 1e-6, 1e150
# Relative margin that is added to each epsilon: a thousand times the rounding error.
MARGIN = 1e-9


@dataclass(frozen=True, slots=True)
class RDP(Final):
    """Renyi differential privacy of one order: a bound on D_a between outputs of neighbours.

    Attributes:
        order: a, above 1.
        value: Largest divergence in nats, in both directions, at least 0.

    Reference:
        Mironov, "Renyi differential privacy" (CSF 2017).

    Examples:
        >>> round(RDP(12.0, 0.6).epsilon(1e-5), 4)
        1.3336
    """

    order: float
    value: float
    relation: Relation = "replace_one"

    def __post_init__(self) -> None:
        _require_order(self.order)
        at_least("value", self.value, 0.0)

    def epsilon(self, delta: float) -> float:
        """See `renyi_epsilon`."""
        return renyi_epsilon(self.order, self.value, delta)

    def describe(self) -> str:
        return f"({self.order:.4g}, {self.value:.4g})-RDP ({self.relation})"


def compose_rdp(parts: Iterable[RDP]) -> RDP:
    """Guarantee of several adaptively chosen outputs over one context, as RDP of one order.

    The sum of the values, at the smallest order. A Renyi divergence never decreases with its order,
    so each value also holds at the smallest one.

    Args:
        parts: At least one guarantee, all under one relation.

    Raises:
        UsageError: If there is no part, or the parts state different relations.

    Guarantee:
        Holds under the relation of the parts.

    Reference:
        Mironov (CSF 2017), Proposition 1.

    Examples:
        >>> compose_rdp([RDP(8.0, 0.5), RDP(4.0, 0.25)])
        RDP(order=4.0, value=0.75, relation='replace_one')
    """
    found = tuple(parts)
    if len({part.relation for part in found}) != 1:
        raise UsageError(
            "compose_rdp needs at least one guarantee, and all under one neighbouring relation."
        )
    value = sum_up(part.value for part in found)
    return RDP(min(part.order for part in found), value, found[0].relation)


def renyi_divergence(p: npt.ArrayLike, q: npt.ArrayLike, order: float) -> float:
    """D_a(p||q) = ln(sum p^a q^(1 - a))/(a - 1) of two distributions, given as logarithms; in nats.

    Nothing is clamped: the divergence is infinite if p can produce an outcome that q cannot.

    Args:
        p: (outcomes,) natural logarithms of probabilities; minus infinity is allowed.
        q: (outcomes,) the same for the other distribution.
        order: a, above 1.

    Reference:
        Renyi (1961); Mironov, "Renyi differential privacy" (CSF 2017).

    Examples:
        >>> import numpy as np
        >>> renyi_divergence(np.log([0.5, 0.5]), [0.0, -np.inf], 2.0)
        inf
        >>> round(renyi_divergence([0.0, -np.inf], np.log([0.5, 0.5]), 2.0), 6)  # ln 2
        0.693147
    """
    _require_order(order)
    one, other = of_one_shape(p=p, q=q)
    for name, logs in (("p", one), ("q", other)):
        within(f"a logarithm in {name}", logs[~np.isneginf(logs)], -LARGEST, CLOSE)
    there = one > -np.inf
    if not there.any():
        raise UsageError(f"p is {one.tolist()}; it must have an outcome above minus infinity.")
    if bool((other[there] == -np.inf).any()):
        return math.inf
    terms = order * one[there] + (1 - order) * other[there]
    top = float(terms.max())
    total = top + math.log(float(np.exp(terms - top).sum()))
    return max(0.0, total / (order - 1))


def renyi_epsilon(order: float, value: float, delta: float) -> float:
    """The smallest epsilon(delta) that Renyi differential privacy of one order implies.

    It is rounded up; infinity if delta = 0 < value.

    Args:
        order: a, above 1.
        value: Largest divergence of this order, in nats, at least 0; infinity is allowed.

    Guarantee:
        A mechanism whose outputs for neighbours satisfy D_a <= value in both directions is
        (epsilon, delta)-DP under the same relation.

    Reference:
        Asoodeh, Liao, Calmon, Kosut and Sankar, "Three variants of differential privacy: lossless
        conversion and applications" (IEEE JSAIT 2021), Theorem 3. By data processing, two
        outcomes are the worst case.

    Examples:
        >>> round(renyi_epsilon(12.0, 0.6, 1e-5), 4)  # 1.3337 by Canonne et al. (2020)
        1.3336
    """
    _require_order(order)
    at_least("value", value, 0.0)
    delta_value(delta)
    if value == 0:
        return 0.0
    if delta == 0 or math.isinf(value):
        return math.inf

    def enough(epsilon: float) -> bool:
        return _largest_value(order, epsilon, delta) >= value

    if enough(0.0):
        return 0.0
    most = value - math.log(delta) / (order - 1)  # Mironov's conversion: valid but loose
    return bisect(enough, 0.0, most, HALVINGS)[1] * (1 + MARGIN)


def renyi_value(order: float, epsilon: float, delta: float) -> float:
    """The largest divergence of one order that implies a claim: the inverse of `renyi_epsilon`.

    In nats, rounded down; 0 if delta = 0.

    Args:
        order: a, above 1.
        epsilon: epsilon of the claim, above 0.
        delta: delta of the claim in [0, 1).

    Guarantee:
        `renyi_epsilon(order, value, delta)` is at most epsilon.

    Reference:
        Asoodeh et al. (2021), Theorem 3.

    Examples:
        >>> renyi_epsilon(12.0, renyi_value(12.0, 2.0, 1e-5), 1e-5) <= 2.0
        True
    """
    _require_order(order)
    positive("epsilon", epsilon)
    delta_value(delta)
    if delta == 0:
        return 0.0
    found = _largest_value(order, epsilon / (1 + 3 * MARGIN), delta)
    return max(0.0, found - 2 * _slip(order, epsilon, delta))


@lru_cache(maxsize=4096)  # a bisection and a search over orders repeat the same few settings
def _largest_value(order: float, epsilon: float, delta: float) -> float:
    """Smallest D_a over pairs of two-outcome distributions with this delta at epsilon."""
    above = order - 1

    def power(x: float) -> float:
        """ln(p^a q^(1 - a) + (1 - p)^a (1 - q)^(1 - a)) at p - delta = e^x, q = (p - delta)/e^eps,
        minus (a - 1) epsilon.
        """
        excess = math.exp(x)
        p = delta + excess
        first = order * math.log(p) - above * x
        if p >= 1:
            return first
        log_gap = epsilon + math.log1p(-excess * math.exp(-epsilon))  # ln(e^epsilon - excess)
        other = order * math.log1p(-p) - above * log_gap
        top = max(first, other)
        return top + math.log1p(math.exp(min(first, other) - top))

    lowest = math.log(delta) + min(0.0, math.log(above)) - 30
    found = epsilon + _least(power, lowest, math.log1p(-delta)) / above
    return found - _slip(order, epsilon, delta)


def _slip(order: float, epsilon: float, delta: float) -> float:
    """Bound on the rounding error of a divergence: its terms cancel if it is small."""
    return ROUNDING * (1 + epsilon - order * math.log(delta) / (order - 1))


def _least(f: Callable[[float], float], low: float, high: float) -> float:
    """Smallest value of a function that decreases and then increases."""
    one, other = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    left, right = f(one), f(other)
    for _ in range(SECTIONS):
        if left < right:
            high, other, right = other, one, left
            one = high - GOLDEN * (high - low)
            left = f(one)
        else:
            low, one, left = one, other, right
            other = low + GOLDEN * (high - low)
            right = f(other)
    return min(left, right)


def renyi_of_two_steps(order: float, value: float) -> tuple[float, float]:
    """Order and bound of the divergence between P and Q that are both close to a third, M.

    The order is b = a^2/(2a - 1), and the bound on D_b(P||Q) and D_b(Q||P) (2a - 1)/(a - 1) value.

    For 1/s + 1/t = 1, Hoelder's inequality bounds sum P^b Q^(1 - b) by
    (sum P^(sb) M^(1 - sb))^(1/s) (sum M^c Q^(1 - c))^(1/t) with c = t (b - 1/s). This is the weak
    triangle inequality D_b(P||Q) <= (b - 1/s)/(b - 1) D_sb(P||M) + D_c(M||Q). With
    b = a^2/(2a - 1) and s = a/b, both orders sb and c equal a, the largest order with a bound.

    Args:
        order: a, above 1.
        value: Bound on D_a(P||M), D_a(M||P), D_a(Q||M) and D_a(M||Q), in nats.

    Guarantee:
        D_b(P||Q) <= bound. Distributions over two outcomes, one of them rare, come arbitrarily
        close to the bound. Two Gaussians on either side of M reach 1 - 1/(2a - 1)^2 of it.

    Reference:
        Mironov (CSF 2017), Proposition 11 (weak triangle inequality).

    Examples:
        >>> order, value = renyi_of_two_steps(8.0, 0.1)
        >>> round(order, 4), round(value, 4)
        (4.2667, 0.2143)
    """
    _require_order(order)
    at_least("value", value, 0.0)
    return order**2 / (2 * order - 1), (2 * order - 1) / (order - 1) * value


def _require_order(order: float) -> None:
    if not 1 < order <= LARGEST:
        raise UsageError(
            f"order is {order}; it must be a finite number above 1, and at most {LARGEST:g}."
        )
