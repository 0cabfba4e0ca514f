"""Renyi differential privacy of one order: divergences, its conversion, and two steps at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from leakbound._check import at_least, delta_value, positive
from leakbound.errors import UsageError
from leakbound.privacy.relation import Relation
from leakbound.privacy.rounding import ROUNDING, sum_up

__all__ = [
    "RDP",
    "compose_rdp",
    "renyi_divergence",
    "renyi_epsilon",
    "renyi_of_two_steps",
    "renyi_value",
]

HALVINGS = 80  # of a bracket whose width is about epsilon: to the last bit of a float
SECTIONS = 80  # golden sections of a range of logarithms below 1000 wide: to 1e-13
GOLDEN = (math.sqrt(5) - 1) / 2
# Added to each epsilon, relative to it: a thousand times what rounding takes off.
MARGIN = 1e-9


@dataclass(frozen=True, slots=True)
class RDP:
    """Renyi differential privacy of one order: D_a of the outputs of neighbours is bounded.

    Attributes:
        order: a, above 1.
        value: Largest divergence in nats, in both directions, at least 0.
        relation: Neighbouring relation.

    Raises:
        UsageError: If order or value lies outside its range.

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
        """epsilon by `renyi_epsilon`.

        Args:
            delta: Failure probability in [0, 1).

        Returns:
            epsilon, rounded up; infinity at delta = 0.
        """
        return renyi_epsilon(self.order, self.value, delta)

    def describe(self) -> str:
        """One line for reports."""
        return f"({self.order:.4g}, {self.value:.4g})-RDP ({self.relation})"


def compose_rdp(parts: Iterable[RDP]) -> RDP:
    """Several adaptively chosen releases over one context.

    Args:
        parts: At least one guarantee, all under one relation.

    Returns:
        The sum of their values at the smallest of their orders, since a divergence never falls with
        its order.

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
    """D_a(p||q) = ln(sum p^a q^(1 - a))/(a - 1) of two distributions, given by logarithms.

    Nothing is clamped: an outcome that p has and q lacks makes it infinite.

    Args:
        p: (outcomes,) natural logarithms of probabilities; minus infinity is allowed.
        q: (outcomes,) the same of the other distribution.
        order: a, above 1.

    Returns:
        The divergence in nats, at least 0.

    Raises:
        UsageError: If the order is not above 1.

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
    one, other = np.asarray(p, float), np.asarray(q, float)
    there = one > -np.inf
    if bool((other[there] == -np.inf).any()):
        return math.inf
    terms = order * one[there] + (1 - order) * other[there]
    top = float(terms.max())
    total = top + math.log(float(np.exp(terms - top).sum()))
    return max(0.0, total / (order - 1))


def renyi_epsilon(order: float, value: float, delta: float) -> float:
    """epsilon(delta) of one order of Renyi differential privacy; no smaller one holds for all.

    Args:
        order: a, above 1.
        value: Largest divergence of this order, in nats, at least 0; infinity is allowed.
        delta: Failure probability in [0, 1).

    Returns:
        epsilon, rounded up; infinity where delta = 0 < value.

    Raises:
        UsageError: If an argument lies outside its range.

    Guarantee:
        A mechanism whose outputs of neighbours have D_a <= value, in both directions, is
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
    low, high = 0.0, value - math.log(delta) / (order - 1)  # Mironov's conversion: valid and loose
    if _largest_value(order, low, delta) >= value:
        return 0.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        enough = _largest_value(order, middle, delta) >= value
        low, high = (low, middle) if enough else (middle, high)
    return high * (1 + MARGIN)


def renyi_value(order: float, epsilon: float, delta: float) -> float:
    """The largest divergence of one order that implies a claim: the inverse of `renyi_epsilon`.

    Args:
        order: a, above 1.
        epsilon: epsilon of the claim, above 0.
        delta: delta of the claim in [0, 1).

    Returns:
        A divergence in nats, rounded down; 0 where delta = 0.

    Raises:
        UsageError: If an argument lies outside its range.

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


@lru_cache(maxsize=4096)  # a bisection and a search over orders ask for the same few settings
def _largest_value(order: float, epsilon: float, delta: float) -> float:
    """Smallest D_a over pairs of two outcomes that have this delta at epsilon."""
    above = order - 1

    def power(x: float) -> float:
        """ln(p^a q^(1 - a) + (1 - p)^a (1 - q)^(1 - a)) at p - delta = e^x, q = (p - delta)/e^eps,
        less (a - 1) epsilon.
        """
        excess = math.exp(x)
        p = delta + excess
        first = order * math.log(p) - above * x
        if p >= 1:
            return first
        return _log_sum(first, order * math.log1p(-p) - above * _log_gap(epsilon, excess))

    lowest = math.log(delta) + min(0.0, math.log(above)) - 30
    found = epsilon + _least(power, lowest, math.log1p(-delta)) / above
    return found - _slip(order, epsilon, delta)


def _slip(order: float, epsilon: float, delta: float) -> float:
    """Bound on what rounding does to a divergence: the terms cancel where it is small."""
    return ROUNDING * (1 + epsilon - order * math.log(delta) / (order - 1))


def _log_gap(epsilon: float, excess: float) -> float:
    """ln(e^epsilon - excess)."""
    return epsilon + math.log1p(-excess * math.exp(-epsilon))


def _log_sum(a: float, b: float) -> float:
    top = max(a, b)
    return top + math.log1p(math.exp(min(a, b) - top))


def _least(f: Callable[[float], float], low: float, high: float) -> float:
    """Smallest value of a function that falls and then rises."""
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
    """What holds between P and Q that both lie near a third distribution M.

    For 1/s + 1/t = 1, Hoelder's inequality splits sum P^b Q^(1 - b) into
    (sum P^(sb) M^(1 - sb))^(1/s) (sum M^c Q^(1 - c))^(1/t) with c = t (b - 1/s), the weak triangle
    inequality D_b(P||Q) <= (b - 1/s)/(b - 1) D_sb(P||M) + D_c(M||Q). With b = a^2/(2a - 1) and
    s = a/b, both orders sb and c are a, the largest order that is bounded.

    Args:
        order: a, above 1.
        value: Bound on D_a(P||M), D_a(M||P), D_a(Q||M) and D_a(M||Q), in nats.

    Returns:
        Order b = a^2/(2a - 1) and the bound (2a - 1)/(a - 1) value on D_b(P||Q) and D_b(Q||P).

    Raises:
        UsageError: If the order is not above 1, or the value is negative.

    Guarantee:
        D_b(P||Q) <= bound. Distributions over two outcomes, one of them rare, come as near to it
        as one likes; two Gaussians on either side of M reach 1 - 1/(2a - 1)^2 of it.

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
    if not (math.isfinite(order) and order > 1):
        raise UsageError(f"order is {order}; it must be a finite number above 1.")
