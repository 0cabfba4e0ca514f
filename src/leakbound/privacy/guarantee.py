"""Guarantees as data: what a mechanism promises, under which relation, and the trade-off curve it
allows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from leakbound._check import at_least, delta_value, epsilon_value, positive, within
from leakbound.errors import UsageError
from leakbound.privacy.gaussian import Floats, gdp_epsilon, gdp_trade_off

__all__ = ["ApproxDP", "BoundedRange", "Composed", "Gaussian", "Guarantee", "NonPrivate", "PureDP", "Relation", "ZCDP", "compose", "self_compose", "leaves",
           "trade_off", "zcdp_epsilon"]  # fmt: skip

Relation = Literal["replace_one", "add_remove"]


@runtime_checkable
class Guarantee(Protocol):
    """A promise under a neighbouring relation.

    `epsilon(delta)` is the smallest epsilon it gives at delta.
    """

    @property
    def relation(self) -> Relation: ...
    def epsilon(self, delta: float) -> float: ...
    def describe(self) -> str: ...


def zcdp_epsilon(rho: float, delta: float) -> float:
    """epsilon(delta) of rho-zCDP:

    rho + 2 sqrt(rho ln(1/delta)) (Bun and Steinke 2016); infinity at delta = 0 < rho.
    """
    at_least("rho", rho, 0.0)
    delta_value(delta)
    if rho == 0:
        return 0.0
    return math.inf if delta == 0 else rho + 2 * math.sqrt(rho * math.log(1 / delta))


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Noise N(0, sigma^2 I) on a statistic of L2 sensitivity `sensitivity`:

    mu-GDP with mu = sensitivity / sigma.
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
        """Exact epsilon at delta."""
        return gdp_epsilon(self.mu, delta)

    def describe(self) -> str:
        return f"{self.mu:.4g}-GDP (Gaussian noise {self.sigma:.4g} on sensitivity {self.sensitivity:.4g}, {self.relation})"


@dataclass(frozen=True, slots=True)
class PureDP:
    """epsilon-DP."""

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
class BoundedRange:
    """An exponential mechanism whose log-probabilities move by a range of at most `value`: value-DP
    and value^2/8-zCDP.

    Source: Durfee and Rogers 2019; Cesar and Rogers 2021.
    """

    value: float
    relation: Relation = "replace_one"

    def __post_init__(self) -> None:
        epsilon_value(self.value)

    @property
    def rho(self) -> float:
        """The zCDP parameter."""
        return self.value**2 / 8

    def epsilon(self, delta: float) -> float:
        """The better of both statements at delta."""
        delta_value(delta)
        return min(self.value, zcdp_epsilon(self.rho, delta))

    def describe(self) -> str:
        return f"{self.value:g}-DP (exponential mechanism, {self.value:g}-bounded range, {self.relation})"


@dataclass(frozen=True, slots=True)
class ApproxDP:
    """(epsilon, delta)-DP. Below its own delta it promises nothing."""

    value: float
    delta: float
    relation: Relation = "replace_one"

    def __post_init__(self) -> None:
        epsilon_value(self.value)
        delta_value(self.delta)

    def epsilon(self, delta: float) -> float:
        """The stated epsilon where `delta` is at least the stated delta, else infinity."""
        delta_value(delta)
        return self.value if delta >= self.delta else math.inf

    def describe(self) -> str:
        return f"({self.value:g}, {self.delta:g})-DP ({self.relation})"


@dataclass(frozen=True, slots=True)
class ZCDP:
    """rho-zero-concentrated DP."""

    rho: float
    relation: Relation = "replace_one"

    def __post_init__(self) -> None:
        at_least("rho", self.rho, 0.0)

    def epsilon(self, delta: float) -> float:
        """rho + 2 sqrt(rho ln(1/delta))."""
        return zcdp_epsilon(self.rho, delta)

    def describe(self) -> str:
        return f"{self.rho:g}-zCDP ({self.relation})"


@dataclass(frozen=True, slots=True)
class NonPrivate:
    """No promise at all."""

    relation: Relation = "replace_one"

    def epsilon(self, delta: float) -> float:
        """Infinity."""
        return math.inf

    def describe(self) -> str:
        return "no guarantee"


@dataclass(frozen=True, slots=True)
class Composed:
    """Several releases over one context.

    Gaussian parts add in mu^2, zCDP parts in rho, the rest by basic composition.
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
        """The relation all parts share."""
        return self.parts[0].relation

    def epsilon(self, delta: float) -> float:
        """epsilon at delta: exact for Gaussian parts alone; otherwise the parts share delta evenly.

        Exponential mechanisms are counted as pure or as zCDP, whichever gives less: both hold for
        tokens chosen adaptively.
        """
        delta_value(delta)
        return min(self._epsilon(delta, ranged) for ranged in (False, True))

    def _epsilon(self, delta: float, ranged: bool) -> float:
        kinds = (Gaussian, ZCDP, BoundedRange) if ranged else (Gaussian, ZCDP)
        mu = math.sqrt(sum(p.mu**2 for p in self.parts if isinstance(p, Gaussian)))
        rho = sum(
            p.rho for p in self.parts if isinstance(p, ZCDP | BoundedRange) and isinstance(p, kinds)
        )
        rest = [p for p in self.parts if not isinstance(p, kinds)]
        shares = (mu > 0) + (rho > 0) + sum(not isinstance(p, PureDP | BoundedRange) for p in rest)
        share = delta / max(1, shares)
        return (
            gdp_epsilon(mu, share)
            + zcdp_epsilon(rho, share)
            + sum(p.value if isinstance(p, BoundedRange) else p.epsilon(share) for p in rest)
        )

    def describe(self) -> str:
        return f"composition of {len(self.parts)} releases ({self.relation})"


def compose(parts: Sequence[Guarantee]) -> Guarantee:
    """The guarantee of several adaptively chosen releases over one context (delta is paid by every
    part, nested ones too).
    """
    if not parts:
        raise UsageError("compose got no guarantees; it needs at least one.")
    return (
        parts[0]
        if len(parts) == 1
        else Composed(tuple(leaf for part in parts for leaf in leaves(part)))
    )


def leaves(guarantee: Guarantee) -> tuple[Guarantee, ...]:
    """The parts of a composition, however deep; a single guarantee is its own."""
    if isinstance(guarantee, Composed):
        return tuple(leaf for part in guarantee.parts for leaf in leaves(part))
    return (guarantee,)


def trade_off(
    guarantee: Guarantee,
    fpr: npt.ArrayLike,
    deltas: Sequence[float] = (0.0, 1e-9, 1e-5, 1e-3, 0.01, 0.1),
) -> Floats:
    """Largest true-positive rate that a guarantee allows any attack at each false-positive rate.

    Gaussian: exact. Others: the tightest of min(1, e^eps fpr + delta) and 1 - e^-eps (1 - delta -
    fpr) over (epsilon(delta), delta).
    """
    x = np.asarray(within("fpr", fpr, 0.0, 1.0), float)
    if isinstance(guarantee, Gaussian):
        return gdp_trade_off(x, guarantee.mu)
    best = np.ones_like(x)
    levels = {*deltas, *([guarantee.delta] if isinstance(guarantee, ApproxDP) else [])}
    for delta in levels:
        eps = guarantee.epsilon(delta)
        if math.isfinite(eps):
            best = np.minimum(
                best, np.minimum(math.exp(eps) * x + delta, 1 - math.exp(-eps) * (1 - delta - x))
            )
    return np.asarray(np.clip(best, 0.0, 1.0))


def self_compose(guarantee: Guarantee, answers: int) -> Guarantee:
    """The guarantee of so many answers over one context; Gaussian stays Gaussian, with mu times the
    root.
    """
    if isinstance(guarantee, Gaussian):
        return Gaussian(
            guarantee.sensitivity * math.sqrt(answers), guarantee.sigma, guarantee.relation
        )
    return compose([guarantee] * answers)
