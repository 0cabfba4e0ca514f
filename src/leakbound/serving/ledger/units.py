"""Units in which a ledger counts, and what one answer costs in each.

An individual privacy filter adds up what each record has spent, in one unit that is fixed before
the first answer: mu^2 of Gaussian noise, rho of zCDP, the divergence of RDP at one order, pure
epsilon, or shares of (epsilon, delta) by basic composition. Any other guarantee is counted in equal
answers, whose number is fixed in advance.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import get_args

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
    Subsampled,
    calibrate_gaussian,
    compose,
    gdp_epsilon,
    leaves,
    renyi_epsilon,
    renyi_value,
    sum_up,
    zcdp_epsilon,
    zcdp_rho,
)
from leakbound.privacy.guarantee import epsilon_of_counts

# Relative accuracy of the accounting. Calibrating to an epsilon and reading it back differ by less,
# and a budget pays for ten answers that cost a tenth of it. The guarantee of the ledger states it.
ACCURACY = 1e-9
TINY = 1e-300  # used instead of a price of 0 in divisions
# Equal answers are counted up to this number, with a resolution of 1 in FINE: a composition of
# subsampled Gaussians takes up to a second, and the search evaluates a dozen of them.
MOST_EQUAL, FINE = 1 << 12, 128


Kept = (
    ApproxDP | BoundedRange | DiscreteGaussian | Gaussian | NonPrivate | PureDP | RDP | Subsampled
    | ZCDP
)  # fmt: skip
KINDS: dict[str, type[Kept]] = {kind.__name__: kind for kind in get_args(Kept)}


def to_json(guarantee: Guarantee) -> str:
    found = [
        {"kind": type(part).__name__, **asdict(part)} for part in map(_readable, leaves(guarantee))
    ]
    return json.dumps(found, sort_keys=True)


def from_json(text: str) -> Guarantee:
    return compose([KINDS[part.pop("kind")](**part) for part in json.loads(text)])


def _readable(part: Guarantee) -> Kept:
    """A guarantee of a kind that the ledger can read back."""
    kind = KINDS.get(type(part).__name__)
    if kind is None or not isinstance(part, Kept) or type(part) is not kind:
        raise UsageError(
            f"the ledger cannot keep a guarantee of the kind {type(part).__name__}; it must be one "
            f"of {', '.join(KINDS)} or a composition of them. State the guarantee as one of these."
        )
    return part


def compose_epsilon(counts: Sequence[tuple[Guarantee, int]], delta: float) -> float:
    """epsilon(delta) of several answers, some with equal guarantees: only where all are equal did
    no answer choose what the next one costs, so only then is their composition the optimal one."""
    parts = _merge([(part, times) for one, times in counts for part in leaves(one)])
    if [times for _, times in parts] == [1]:
        return parts[0][0].epsilon(delta)
    optimal = len({guarantee for guarantee, _ in counts}) == 1
    return epsilon_of_counts(parts, delta, optimal) if parts else 0.0


def _merge(parts: list[tuple[Guarantee, int]]) -> list[tuple[Guarantee, int]]:
    """Join subsampled Gaussians of equal noise and rate: each answer draws fresh samples."""
    steps: Counter[tuple[float, float]] = Counter()
    for part, times in parts:
        if isinstance(part, Subsampled):
            steps[part.sigma, part.rate] += times * part.steps
    rest = [one for one in parts if not isinstance(one[0], Subsampled)]
    return rest + [(Subsampled(sigma, rate, total), 1) for (sigma, rate), total in steps.items()]


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of a budget in which prices of adaptively chosen answers add up.

    `capacity` converts a budget to it, rounded down; `price` is what an answer costs, None if it
    cannot be expressed; `epsilon` is epsilon(delta) of what was spent.
    """

    name: str
    capacity: Callable[[float, float], float]
    price: Callable[[Guarantee], float | None]
    epsilon: Callable[[float, float], float]

    @property
    def kind(self) -> str:
        return self.name.partition(":")[0]


def _sum_of(part: Callable[[Guarantee], float | None]) -> Callable[[Guarantee], float | None]:
    """A price that is the sum over the parts of a guarantee."""

    def price(guarantee: Guarantee) -> float | None:
        prices = [part(one) for one in leaves(guarantee)]
        known = [one for one in prices if one is not None]
        return sum_up(known) if len(known) == len(prices) else None

    return price


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


# For Gaussian noise only, with exact conversion: Koskela, Tobaben and Honkela, "Individual privacy
# accounting with Gaussian differential privacy" (ICLR 2023); Smith and Thakurta (2022).
MU_SQUARED = Unit(
    "mu^2",
    lambda epsilon, delta: calibrate_gaussian(epsilon, delta) ** -2 if epsilon > 0 < delta else 0.0,
    _sum_of(lambda part: part.mu**2 if isinstance(part, Gaussian) else None),
    lambda spent, delta: gdp_epsilon(math.sqrt(spent), delta),
)
# Answers in this unit spend no delta.
PURE = Unit(
    "pure epsilon",
    lambda epsilon, delta: epsilon,
    _sum_of(lambda part: part.value if isinstance(part, PureDP | BoundedRange) else None),
    lambda spent, delta: spent,
)
# Feldman and Zrnic, "Individual privacy accounting via a Renyi filter" (NeurIPS 2021).
RHO = Unit(
    "rho",
    lambda epsilon, delta: zcdp_rho(epsilon, delta) if epsilon > 0 else 0.0,
    _sum_of(_rho),
    zcdp_epsilon,
)
# Answers of an infinite budget are counted but never refused.
UNLIMITED = Unit(
    "unlimited",
    lambda epsilon, delta: math.inf,
    lambda guarantee: 1.0,
    lambda spent, delta: math.inf if spent else 0.0,
)


def divergence(order: float) -> Unit:
    """Renyi divergence at one order. It also counts guarantees of higher orders and of zCDP.

    Reference: Feldman and Zrnic (NeurIPS 2021).
    """

    def value(part: Guarantee) -> float | None:
        if isinstance(part, RDP):
            return part.value if part.order >= order else None
        rho = _rho(part)
        return None if rho is None else order * rho

    return Unit(
        f"renyi:{order!r}",
        lambda epsilon, delta: renyi_value(order, epsilon, delta) if epsilon > 0 else 0.0,
        _sum_of(value),
        partial(renyi_epsilon, order),
    )


def share(total: float, of_delta: float) -> Unit:
    """Shares of (epsilon, delta) by basic composition: the larger of each answer's two shares.

    Reference: Rogers, Roth, Ullman and Vadhan, "Privacy odometers and filters" (NeurIPS 2016).
    """

    def value(part: Guarantee) -> float | None:
        if isinstance(part, PureDP | BoundedRange):
            return part.value / total
        if isinstance(part, ApproxDP):
            return max(part.value / total, part.delta / of_delta)
        return None

    return Unit(
        f"share:{total!r},{of_delta!r}",
        lambda epsilon, delta: 1.0,
        _sum_of(value),
        lambda spent, delta: spent * total,
    )


EQUAL = "equal answers"


def equal_answers(text: str) -> Unit:
    """Answers of one guarantee whose number is fixed in advance; for any other composition."""

    def epsilon_of(spent: float, delta: float) -> float:
        return compose_epsilon([(from_json(text), round(spent))], delta)

    def most(epsilon: float, delta: float) -> float:
        """A number of answers within the budget, close to the largest one."""
        budget = epsilon * (1 + ACCURACY)
        low, high = 0, 1
        while high <= MOST_EQUAL and epsilon_of(high, delta) <= budget:
            low, high = high, 4 * high
        while low < MOST_EQUAL and high - low > max(1, low // FINE):
            middle = (low + high) // 2
            low, high = (middle, high) if epsilon_of(middle, delta) <= budget else (low, middle)
        return float(low)

    return Unit(
        f"{EQUAL}:{text}",
        most,
        lambda guarantee: 1.0 if to_json(guarantee) == text else None,
        epsilon_of,
    )


def choose_unit(guarantee: Guarantee, epsilon: float, delta: float) -> Unit:
    """The unit in which a budget pays for the most answers with a guarantee."""
    if math.isinf(epsilon):
        return UNLIMITED
    orders = [part.order for part in leaves(guarantee) if isinstance(part, RDP)]
    renyi = [divergence(min(orders))] if orders else []
    shares = [share(epsilon, delta)] if epsilon > 0 < delta else []
    units = [MU_SQUARED, PURE, RHO, *renyi, *shares]
    priced = [(unit, price) for unit in units if (price := unit.price(guarantee)) is not None]
    bought = [unit.capacity(epsilon, delta) / max(price, TINY) for unit, price in priced]
    if max(bought, default=0.0) < 1 - ACCURACY:
        return equal_answers(to_json(guarantee))
    return priced[bought.index(max(bought))][0]


def unit_named(name: str) -> Unit:
    kind, _, value = name.partition(":")
    if kind == "renyi":
        return divergence(float(value))
    if kind == "share":
        return share(*map(float, value.split(",")))
    if kind == EQUAL:
        return equal_answers(value)
    found = {unit.name: unit for unit in (MU_SQUARED, PURE, RHO, UNLIMITED)}.get(name)
    if found is None:
        raise ValueError(f"there is no unit {name!r}")
    return found


def unit_of(values: Mapping[str, str]) -> Unit:
    return unit_named(values["unit"]) if "unit" in values else UNLIMITED


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
