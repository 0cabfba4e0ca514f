"""Guarantees as data: the neighbouring relation, epsilon(delta), and the trade-off curve."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from leakbound._check import at_least, delta_value, epsilon_value, floats, numbers, positive, within
from leakbound._check import count as whole_number
from leakbound._members import Final
from leakbound.errors import UsageError
from leakbound.privacy.compose import Relation, joint_epsilon
from leakbound.privacy.concentrated import zcdp_epsilon
from leakbound.privacy.discrete_gaussian import DiscreteGaussian
from leakbound.privacy.gaussian import Floats, gdp_epsilon, gdp_trade_off
from leakbound.privacy.renyi import RDP, compose_rdp
from leakbound.privacy.rounding import ROUNDING, sum_up, times_up

# Values of delta at which a trade-off curve is evaluated if the guarantee has no closed form: 0 for
# pure DP, and the orders of magnitude that matter for error rates that a few hundred to a million
# trials can resolve.
DELTAS = (0.0, 1e-9, 1e-5, 1e-3, 0.01, 0.1)
MOST_PARTS = 50_000  # of a composition with itself: they are listed, and read in a second
LARGEST_EXPONENT = 709.0  # e^700 is about the largest float
LEAST = math.ulp(0.0)  # in place of a square that is too small for a float


@runtime_checkable
class Guarantee(Protocol):
    """A guarantee that a mechanism is proven to satisfy, under a neighbouring relation."""

    @property
    def relation(self) -> Relation:
        """Which data sets are neighbours."""

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon that is guaranteed at a failure probability in [0, 1).

        At least 0; infinity if nothing is guaranteed.
        """

    def describe(self) -> str:
        """One line for reports."""


@dataclass(frozen=True, slots=True)
class Gaussian(Final):
    """Guarantee of Gaussian noise: mu-GDP with mu = sensitivity / sigma.

    Attributes:
        sensitivity: L2 sensitivity of the statistic under `relation`, above 0.
        sigma: Standard deviation of the noise, in the same units, above 0.

    Examples:
        >>> guarantee = Gaussian(sensitivity=1.0, sigma=2.0)
        >>> guarantee.mu, round(guarantee.epsilon(1e-5), 4)
        (0.5, 1.9931)
    """

    sensitivity: float
    sigma: float
    relation: Relation = "replace_one"

    def __post_init__(self) -> None:
        positive("sensitivity", self.sensitivity)
        positive("sigma", self.sigma)

    @property
    def mu(self) -> float:
        """The parameter of Gaussian differential privacy."""
        return self.sensitivity / self.sigma

    def epsilon(self, delta: float) -> float:
        """Exact epsilon, see `gdp_epsilon`."""
        return gdp_epsilon(self.mu, delta)

    def describe(self) -> str:
        return (
            f"{self.mu:.4g}-GDP (Gaussian noise {self.sigma:.4g} on sensitivity "
            f"{self.sensitivity:.4g}, {self.relation})"
        )


@dataclass(frozen=True, slots=True)
class PureDP(Final):
    """epsilon-DP.

    Attributes:
        value: epsilon, at least 0; infinity is allowed.
    """

    value: float
    relation: Relation = "replace_one"

    def __post_init__(self) -> None:
        epsilon_value(self.value)

    def epsilon(self, delta: float) -> float:
        """The stated epsilon, at any delta."""
        delta_value(delta)
        return self.value

    def describe(self) -> str:
        return f"{self.value:g}-DP ({self.relation})"


@dataclass(frozen=True, slots=True)
class BoundedRange(Final):
    """Guarantee of an exponential mechanism: value-DP and value^2/8-zCDP.

    Attributes:
        value: Largest range of the change in its log-probabilities, at least 0.

    Reference:
        Durfee and Rogers (NeurIPS 2019); Cesar and Rogers (ALT 2021).

    Examples:
        >>> BoundedRange(2.0).rho
        0.5
    """

    value: float
    relation: Relation = "replace_one"

    def __post_init__(self) -> None:
        epsilon_value(self.value)

    @property
    def rho(self) -> float:
        """The parameter of zero-concentrated DP."""
        return max(self.value**2 / 8, LEAST) if self.value else 0.0

    def epsilon(self, delta: float) -> float:
        """The smaller of the epsilons of pure DP and of zCDP."""
        delta_value(delta)
        return min(self.value, zcdp_epsilon(self.rho, delta))

    def describe(self) -> str:
        return (
            f"{self.value:g}-DP (exponential mechanism, {self.value:g}-bounded range, "
            f"{self.relation})"
        )


@dataclass(frozen=True, slots=True)
class ApproxDP(Final):
    """(epsilon, delta)-DP. Nothing is guaranteed below the stated delta.

    Attributes:
        value: epsilon, at least 0; infinity is allowed.

    Examples:
        >>> claim = ApproxDP(1.0, 1e-5)
        >>> claim.epsilon(1e-3), claim.epsilon(1e-6)
        (1.0, inf)
    """

    value: float
    delta: float
    relation: Relation = "replace_one"

    def __post_init__(self) -> None:
        epsilon_value(self.value)
        delta_value(self.delta)

    def epsilon(self, delta: float) -> float:
        """The stated epsilon if `delta` is at least the stated delta, else infinity."""
        delta_value(delta)
        return self.value if delta >= self.delta else math.inf

    def describe(self) -> str:
        return f"({self.value:g}, {self.delta:g})-DP ({self.relation})"


@dataclass(frozen=True, slots=True)
class ZCDP(Final):
    """rho-zero-concentrated DP.

    Attributes:
        rho: Parameter, at least 0.

    Reference:
        Bun and Steinke (TCC 2016).
    """

    rho: float
    relation: Relation = "replace_one"

    def __post_init__(self) -> None:
        at_least("rho", self.rho, 0.0)

    def epsilon(self, delta: float) -> float:
        """See `zcdp_epsilon`."""
        return zcdp_epsilon(self.rho, delta)

    def describe(self) -> str:
        return f"{self.rho:g}-zCDP ({self.relation})"


@dataclass(frozen=True, slots=True)
class NonPrivate(Final):
    """No guarantee.

    Attributes:
        relation: Neighbouring relation under which nothing is guaranteed.
    """

    relation: Relation = "replace_one"

    def epsilon(self, delta: float) -> float:
        """Infinity, at any delta."""
        delta_value(delta)
        return math.inf

    def describe(self) -> str:
        return "no guarantee"


Kinds = tuple[type, ...]
# Each entry: the parts that add in mu^2, and those that add in rho. All others add in epsilon.
SUMS: tuple[tuple[Kinds, Kinds], ...] = (
    ((Gaussian,), (ZCDP,)),
    ((Gaussian,), (ZCDP, DiscreteGaussian)),
    ((Gaussian,), (ZCDP, DiscreteGaussian, BoundedRange)),
    ((), (ZCDP, DiscreteGaussian, BoundedRange, Gaussian)),
    ((), (ZCDP, DiscreteGaussian, BoundedRange, Gaussian, PureDP)),
)


def _rho(part: Guarantee) -> float:
    if isinstance(part, Gaussian):
        return max(part.mu**2 / 2, LEAST) if part.mu else 0.0
    if isinstance(part, PureDP):  # Bun and Steinke (TCC 2016), Proposition 1.4
        return max(part.value**2 / 2, LEAST) if part.value else 0.0
    return part.rho if isinstance(part, ZCDP | DiscreteGaussian | BoundedRange) else 0.0


CountedPart = tuple[Guarantee, int]  # a guarantee, and how many outputs have it


def _merge(parts: list[CountedPart]) -> list[CountedPart]:
    """Merge RDP parts into one and discrete noise of equal sigma into one; keep the others."""
    renyi = [replace(p, value=times_up(p.value, n)) for p, n in parts if isinstance(p, RDP)]
    moves: dict[float, DiscreteGaussian] = {}
    for part, count in parts:
        if isinstance(part, DiscreteGaussian):
            known = moves[part.sigma].moves if part.sigma in moves else 0
            moves[part.sigma] = replace(part, moves=count * part.moves + known)
    rest = [one for one in parts if not isinstance(one[0], RDP | DiscreteGaussian)]
    once: list[Guarantee] = [*moves.values(), *([compose_rdp(renyi)] if renyi else [])]
    return [*rest, *((part, 1) for part in once)]


def epsilon_of_counts(parts: Sequence[CountedPart], delta: float, optimal: bool) -> float:
    """Unless `optimal`, guarantees may depend on earlier outputs, so that they add up."""
    there = {type(part) for part, _ in parts}
    sums = {tuple(tuple(filter(there.__contains__, kinds)) for kinds in both) for both in SUMS}
    return min(_epsilon(parts, delta, gdp, zcdp, optimal) for gdp, zcdp in sums)


def _epsilon(
    parts: Sequence[CountedPart], delta: float, gdp: Kinds, zcdp: Kinds, optimal: bool
) -> float:
    mu = math.sqrt(2 * sum_up(times_up(_rho(p), n) for p, n in parts if isinstance(p, gdp)))
    rho = sum_up(times_up(_rho(p), n) for p, n in parts if isinstance(p, zcdp))
    rest = _merge([one for one in parts if not isinstance(one[0], gdp + zcdp)])
    pure = [(p.value, n) for p, n in rest if isinstance(p, PureDP | BoundedRange)]
    approximate = [(p, n) for p, n in rest if isinstance(p, ApproxDP)]
    others = [(p, n) for p, n in rest if not isinstance(p, PureDP | BoundedRange | ApproxDP)]
    many = sum(n for _, n in others)
    share = delta / max(1, (mu > 0) + (rho > 0) + sum(n for _, n in approximate) + many)
    values = [times_up(p.epsilon(share), n) for p, n in (*approximate, *others)]
    sums = [times_up(*one) for one in pure]
    added = sum_up([gdp_epsilon(mu, share), zcdp_epsilon(rho, share), *sums, *values])
    if not optimal or not (pure or approximate):
        return added
    # these and Gaussian noise, whose worst cases are known, are one part
    share = delta / (1 + (rho > 0) + many)
    values = [zcdp_epsilon(rho, share), *(times_up(p.epsilon(share), n) for p, n in others)]
    # with the chance that every approximate part is pure
    logs = [n * math.log1p(-p.delta) for p, n in approximate]
    left = share if not logs else -math.expm1(math.log1p(-share) - sum(logs)) - ROUNDING * share
    if left < 0 or math.isinf(sum(values)):
        return added
    counts = Counter[float]()
    for value, count in (*pure, *((p.value, n) for p, n in approximate)):
        counts[value] += count
    return min(added, sum_up([joint_epsilon(counts, mu, left), *values]))


@dataclass(frozen=True, slots=True)
class Composed(Final):
    """Guarantee of several adaptively chosen outputs over one context.

    Gaussian parts add in mu^2, zCDP parts in rho, and RDP parts in their divergence. Discrete noise
    of equal sigma adds in moved counts. Pure and approximate DP compose optimally with Gaussian
    parts, by their worst case; the rest adds by basic composition.

    Attributes:
        parts: Guarantees of the outputs, at least one, all under one relation.

    Raises:
        UsageError: If the parts state different relations.

    Examples:
        >>> Composed((Gaussian(3.0, 1.0), Gaussian(4.0, 1.0))).epsilon(0.5) == gdp_epsilon(5.0, 0.5)
        True
    """

    parts: tuple[Guarantee, ...]

    def __post_init__(self) -> None:
        if len({part.relation for part in self.parts}) != 1:
            raise UsageError(
                "guarantees under different neighbouring relations cannot be composed; state all "
                "of them under one relation."
            )

    @property
    def relation(self) -> Relation:
        return self.parts[0].relation

    def epsilon(self, delta: float) -> float:
        """epsilon of all outputs together.

        Optimal if all parts are pure, approximate or Gaussian. Otherwise kinds of parts share delta
        evenly, and the result is the smallest of several sums, each of them valid for adaptively
        chosen parts. The sums count discrete noise by moved counts or as zCDP, exponential
        mechanisms as pure DP or as zCDP, and Gaussian mechanisms as GDP or as zCDP.
        """
        delta_value(delta)
        return epsilon_of_counts([(part, 1) for part in self.parts], delta, optimal=True)

    def describe(self) -> str:
        first = self.parts[0]
        alike = all(part == first for part in self.parts)
        each = f", each {first.describe()}" if alike else f" ({self.relation})"
        return f"composition of {len(self.parts)} releases{each}"


def compose(parts: Sequence[Guarantee]) -> Guarantee:
    """Guarantee of several adaptively chosen outputs over one context: a `Composed`.

    Args:
        parts: Guarantees of the outputs, at least one; a single one is returned as it is. Nested
            compositions are flattened, and delta is shared among all leaves.

    Raises:
        UsageError: If there is no part, or the parts state different relations.

    Guarantee:
        Holds under the relation of the parts.

    Reference:
        Dong, Roth and Su (JRSS B 2022), Corollary 3.3, for Gaussian parts; Bun and Steinke (TCC
        2016), Lemma 1.7, for zCDP.

    Examples:
        >>> compose([PureDP(1.0), PureDP(0.5)]).epsilon(0.0)
        1.5
    """
    if not parts:
        raise UsageError("compose got no guarantees; it needs at least one.")
    if len(parts) == 1:
        return parts[0]
    return Composed(tuple(leaf for part in parts for leaf in leaves(part)))


def self_compose(guarantee: Guarantee, count: int) -> Guarantee:
    """Guarantee of `count` answers of one mechanism over one context.

    For a `Gaussian` or a composition of equal Gaussians, a `Gaussian` with sqrt(count) times the
    mu. For a `DiscreteGaussian`, one with `count` times the moves. Otherwise a `Composed`.

    Args:
        guarantee: Guarantee of one answer.
        count: Number of answers, from 1 to 1e15; a `Composed` lists at most 50,000 parts.

    Guarantee:
        Holds under the relation of `guarantee`.

    Reference:
        Dong, Roth and Su (JRSS B 2022), Corollary 3.3.

    Examples:
        >>> self_compose(Gaussian(1.0, 2.0), 4).mu
        1.0
    """
    times = whole_number("count", count, 1)
    first, *others = leaves(guarantee)
    if isinstance(first, Gaussian) and all(other == first for other in others):
        steps = times * (1 + len(others))
        return Gaussian(first.sensitivity * math.sqrt(steps), first.sigma, first.relation)
    if isinstance(guarantee, DiscreteGaussian):
        return replace(guarantee, moves=times * guarantee.moves)
    whole_number("the number of parts", times * (1 + len(others)), 1, MOST_PARTS)
    return compose([guarantee] * times)


def leaves(guarantee: Guarantee) -> tuple[Guarantee, ...]:
    """Guarantees in a composition, at any depth; a single guarantee is its own leaf."""
    if isinstance(guarantee, Composed):
        return tuple(leaf for part in guarantee.parts for leaf in leaves(part))
    return (guarantee,)


def trade_off(guarantee: Guarantee, fpr: npt.ArrayLike, deltas: Sequence[float] = DELTAS) -> Floats:
    """Largest true-positive rate that a guarantee allows any attack.

    Exact for `Gaussian`. For other guarantees, the minimum of 1, e^eps fpr + delta and
    1 - e^-eps (1 - delta - fpr) over the points (epsilon(delta), delta). In the shape of `fpr`.

    Args:
        guarantee: The guarantee.
        fpr: False-positive rates in [0, 1]; any shape.
        deltas: Values of delta at which the guarantee is evaluated. More values make the curve
            tighter.

    Guarantee:
        No attack on a mechanism that satisfies the guarantee has a larger true-positive rate.

    Reference:
        Kairouz, Oh and Viswanath (ICML 2015), Theorem 2.1; Dong, Roth and Su (JRSS B 2022).

    Examples:
        >>> trade_off(PureDP(0.0), [0.1, 0.9]).round(9).tolist()
        [0.1, 0.9]
    """
    x = within("fpr", floats("fpr", fpr), 0.0, 1.0)
    if isinstance(guarantee, Gaussian):
        return gdp_trade_off(x, guarantee.mu)
    best = np.ones_like(x)
    own = [guarantee.delta] if isinstance(guarantee, ApproxDP) else []
    for delta in {*numbers("deltas", deltas).tolist(), *own}:
        eps = guarantee.epsilon(delta)
        if math.isfinite(eps):
            slope = math.exp(eps) if eps < LARGEST_EXPONENT else math.inf
            rise = np.multiply(slope, x, out=np.zeros_like(x), where=x > 0) + delta
            best = np.minimum(best, np.minimum(rise, 1 - math.exp(-eps) * (1 - delta - x)))
    return np.asarray(np.clip(best, 0.0, 1.0))
