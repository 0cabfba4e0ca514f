"""Units in which a ledger counts, and what one answer costs in each.

An individual privacy filter adds up what each record has spent, in one unit that is fixed before
the first answer: mu^2 of Gaussian noise, rho of zCDP, the divergence of RDP at one order, pure
epsilon, or shares of (epsilon, delta) by basic composition. Any other guarantee is counted in equal
answers, whose number is fixed in advance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from leakbound.errors import UsageError
from leakbound.privacy import (
    RDP,
    ZCDP,
    ApproxDP,
    BoundedRange,
    DiscreteGaussian,
    Gaussian,
    Guarantee,
    NonPrivate,
    PureDP,
    calibrate_gaussian,
    gdp_epsilon,
    leaves,
    renyi_epsilon,
    renyi_value,
    sum_up,
    zcdp_epsilon,
    zcdp_rho,
)
from leakbound.serving.ledger.prices import composed_epsilon, from_json, to_json

# Relative accuracy of the accounting. Calibrating to an epsilon and reading it back differ by less,
# and a budget pays for ten answers that cost a tenth of it. The guarantee of the ledger states it.
ACCURACY = 1e-9
TINY = 1e-300  # used instead of a price of 0 in divisions
# Equal answers are counted up to this number, with a resolution of 1 in FINE: a composition of
# subsampled Gaussians takes up to a second, and the search evaluates a dozen of them.
MOST_EQUAL, FINE = 1 << 12, 128


class Unit(Protocol):
    """A unit of a budget (epsilon, delta) in which prices of adaptively chosen answers add up."""

    @property
    def name(self) -> str:
        """The name that the ledger stores: the kind, then a colon and its parameter."""

    def capacity(self, epsilon: float, delta: float) -> float:
        """Convert a budget to this unit, rounded down."""

    def price(self, guarantee: Guarantee) -> float | None:
        """What one answer costs."""

    def epsilon(self, spent: float, delta: float) -> float:
        """epsilon(delta) of what was spent."""


def _sum(prices: Sequence[float | None]) -> float | None:
    known = [price for price in prices if price is not None]
    return sum_up(known) if len(known) == len(prices) else None


def _rho(part: Guarantee) -> float | None:
    """rho-zCDP of a leaf, by Propositions 1.4 and 1.6 of Bun and Steinke (TCC 2016)."""
    match part:
        case Gaussian():
            return part.mu**2 / 2
        case ZCDP() | BoundedRange() | DiscreteGaussian():
            return part.rho
        case PureDP():
            return part.value**2 / 2
    return None


@dataclass(frozen=True, slots=True)
class MuSquared:
    """mu^2 of Gaussian differential privacy; for Gaussian noise only.

    Reference:
        Koskela, Tobaben and Honkela, "Individual privacy accounting with Gaussian differential
        privacy" (ICLR 2023); Smith and Thakurta (2022).
    """

    name: ClassVar[str] = "mu^2"

    def capacity(self, epsilon: float, delta: float) -> float:
        """The largest mu^2 that is (epsilon, delta)-DP."""
        return calibrate_gaussian(epsilon, delta) ** -2 if epsilon > 0 < delta else 0.0

    def price(self, guarantee: Guarantee) -> float | None:
        """The sum of mu^2 over the parts of a guarantee."""
        return _sum([p.mu**2 if isinstance(p, Gaussian) else None for p in leaves(guarantee)])

    def epsilon(self, spent: float, delta: float) -> float:
        """epsilon of Gaussian differential privacy, by exact conversion."""
        return gdp_epsilon(math.sqrt(spent), delta)


@dataclass(frozen=True, slots=True)
class Pure:
    """Pure epsilon."""

    name: ClassVar[str] = "pure epsilon"

    def capacity(self, epsilon: float, delta: float) -> float:
        """The budget's epsilon itself: answers in this unit spend no delta."""
        return epsilon

    def price(self, guarantee: Guarantee) -> float | None:
        """The sum of epsilon over the parts of a guarantee."""
        parts = leaves(guarantee)
        return _sum([p.value if isinstance(p, PureDP | BoundedRange) else None for p in parts])

    def epsilon(self, spent: float, delta: float) -> float:
        """What was spent, at any delta."""
        return spent


@dataclass(frozen=True, slots=True)
class Rho:
    """rho of zero-concentrated differential privacy.

    Reference:
        Feldman and Zrnic, "Individual privacy accounting via a Renyi filter" (NeurIPS 2021).
    """

    name: ClassVar[str] = "rho"

    def capacity(self, epsilon: float, delta: float) -> float:
        """The largest rho-zCDP that is (epsilon, delta)-DP."""
        return zcdp_rho(epsilon, delta) if epsilon > 0 else 0.0

    def price(self, guarantee: Guarantee) -> float | None:
        """The sum of rho over the parts of a guarantee."""
        return _sum([_rho(part) for part in leaves(guarantee)])

    def epsilon(self, spent: float, delta: float) -> float:
        """epsilon of zero-concentrated differential privacy."""
        return zcdp_epsilon(spent, delta)


@dataclass(frozen=True, slots=True)
class Divergence:
    """Renyi divergence at one order. It also counts guarantees of higher orders and of zCDP.

    Reference:
        Feldman and Zrnic (NeurIPS 2021).
    """

    order: float

    @property
    def name(self) -> str:
        return f"renyi:{self.order!r}"

    def capacity(self, epsilon: float, delta: float) -> float:
        """The largest divergence that is (epsilon, delta)-DP."""
        return renyi_value(self.order, epsilon, delta) if epsilon > 0 else 0.0

    def price(self, guarantee: Guarantee) -> float | None:
        """The sum of the divergences of the parts of a guarantee."""
        return _sum([self._value(part) for part in leaves(guarantee)])

    def _value(self, part: Guarantee) -> float | None:
        if isinstance(part, RDP):
            return part.value if part.order >= self.order else None
        rho = _rho(part)
        return None if rho is None else self.order * rho

    def epsilon(self, spent: float, delta: float) -> float:
        """epsilon of a Renyi divergence at this order."""
        return renyi_epsilon(self.order, spent, delta)


@dataclass(frozen=True, slots=True)
class Share:
    """Shares of (epsilon, delta) by basic composition: the larger of each answer's two shares.

    Reference:
        Rogers, Roth, Ullman and Vadhan, "Privacy odometers and filters" (NeurIPS 2016).
    """

    total: float
    delta: float

    @property
    def name(self) -> str:
        return f"share:{self.total!r},{self.delta!r}"

    def capacity(self, epsilon: float, delta: float) -> float:
        """The whole budget, in shares of itself: 1."""
        return 1.0

    def price(self, guarantee: Guarantee) -> float | None:
        """The sum of the shares of the parts of a guarantee."""
        return _sum([self._share(part) for part in leaves(guarantee)])

    def _share(self, part: Guarantee) -> float | None:
        if isinstance(part, PureDP | BoundedRange):
            return part.value / self.total
        if isinstance(part, ApproxDP):
            return max(part.value / self.total, part.delta / self.delta)
        return None

    def epsilon(self, spent: float, delta: float) -> float:
        """epsilon of the shares that were spent."""
        return spent * self.total


@dataclass(frozen=True, slots=True)
class EqualAnswers:
    """Answers of one guarantee whose number is fixed in advance; for any other composition."""

    text: str

    @property
    def name(self) -> str:
        return f"equal answers:{self.text}"

    def capacity(self, epsilon: float, delta: float) -> float:
        """The number of answers whose composition stays within the budget."""
        return float(self._most(epsilon * (1 + ACCURACY), delta))

    def _most(self, epsilon: float, delta: float) -> int:
        """A number of answers within the budget, close to the largest one."""
        low, high = 0, 1
        while high <= MOST_EQUAL and self.epsilon(high, delta) <= epsilon:
            low, high = high, 4 * high
        while low < MOST_EQUAL and high - low > max(1, low // FINE):
            middle = (low + high) // 2
            low, high = (middle, high) if self.epsilon(middle, delta) <= epsilon else (low, middle)
        return low

    def price(self, guarantee: Guarantee) -> float | None:
        """1 for an answer with the guarantee that is counted."""
        return 1.0 if to_json(guarantee) == self.text else None

    def epsilon(self, spent: float, delta: float) -> float:
        """epsilon of the composition of the answers."""
        return composed_epsilon([(from_json(self.text), round(spent))], delta)


@dataclass(frozen=True, slots=True)
class Unlimited:
    """Answers of an infinite budget, which are counted but never refused."""

    name: ClassVar[str] = "unlimited"

    def capacity(self, epsilon: float, delta: float) -> float:
        """No limit."""
        return math.inf

    def price(self, guarantee: Guarantee) -> float | None:
        """1 for any answer."""
        return 1.0

    def epsilon(self, spent: float, delta: float) -> float:
        """0 before the first answer, and infinity afterwards."""
        return math.inf if spent else 0.0


def choose_unit(guarantee: Guarantee, epsilon: float, delta: float) -> Unit:
    """The unit in which a budget pays for the most answers with a guarantee."""
    if math.isinf(epsilon):
        return Unlimited()
    orders = [part.order for part in leaves(guarantee) if isinstance(part, RDP)]
    renyi: list[Unit] = [Divergence(min(orders))] if orders else []
    shares: list[Unit] = [Share(epsilon, delta)] if epsilon > 0 < delta else []
    units: list[Unit] = [MuSquared(), Pure(), Rho(), *renyi, *shares]
    priced = [(unit, price) for unit in units if (price := unit.price(guarantee)) is not None]
    bought = [unit.capacity(epsilon, delta) / max(price, TINY) for unit, price in priced]
    if max(bought, default=0.0) < 1 - ACCURACY:
        return EqualAnswers(to_json(guarantee))
    return priced[bought.index(max(bought))][0]


def unit_named(name: str) -> Unit:
    """The unit with a name that a ledger stores."""
    kind, _, value = name.partition(":")
    plain: dict[str, Unit] = {unit.name: unit for unit in (MuSquared(), Pure(), Rho(), Unlimited())}
    if kind == "renyi":
        return Divergence(float(value))
    if kind == "share":
        total, delta = map(float, value.split(","))
        return Share(total, delta)
    if kind == "equal answers":
        return EqualAnswers(value)
    if name not in plain:
        raise ValueError(f"there is no unit {name!r}")
    return plain[name]


def affordable_answers(guarantee: Guarantee, epsilon: float, delta: float) -> int | None:
    """How many answers a budget pays for.

    Examples:
        >>> affordable_answers(PureDP(0.5), 4.0, 1e-5)
        8
        >>> price = Gaussian(1.0, calibrate_gaussian(1.0, 1e-5))
        >>> [affordable_answers(price, epsilon, 1e-5) for epsilon in (1.0, 2.0, 8.0)]
        [1, 3, 38]
    """
    if math.isinf(epsilon):
        return None
    require_guarantee(guarantee, epsilon)
    unit = choose_unit(guarantee, epsilon, delta)
    return whole_answers(unit.capacity(epsilon, delta), 0.0, unit.price(guarantee) or 0.0)


def require_guarantee(guarantee: Guarantee, epsilon: float) -> None:
    """Refuse an infinite cost under a finite budget."""
    none = any(isinstance(part, NonPrivate) for part in leaves(guarantee))
    if none and math.isfinite(epsilon):
        raise UsageError(
            "the mechanism gives no guarantee, and the budget of the ledger is epsilon "
            f"{epsilon:g}; an answer without a guarantee costs infinity. Choose a private "
            "mechanism, or an infinite budget (--budget inf)."
        )


def whole_answers(capacity: float, spent: float, price: float) -> int | None:
    """How many more answers an account can pay for."""
    left = capacity * (1 + ACCURACY) - spent
    if price == 0 or math.isinf(left):
        return None
    return max(0, math.floor(left / price))
