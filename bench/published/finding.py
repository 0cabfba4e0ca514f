"""What one comparison of a package with its own statement found, and the tools to make it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt

from leakbound.stats import CategoricalLaw, exact_privacy_loss

Floats = npt.NDArray[np.float64]
DELTA = 1e-5
ROUNDING = 1e-6  # relative: conversions and bisections of packages end somewhere


@dataclass(frozen=True)
class Finding:
    """One statement of a package, held against what leakbound computes for it.

    Attributes:
        package: Name on the package index.
        what: The subject, in a few words.
        states: What the package states, paraphrased, and where.
        contexts: The two neighbouring inputs, or the setting of an accountant.
        claimed: epsilon that is stated.
        found: epsilon that leakbound computes, or a valid lower bound on it.
        how: "exact loss", with "(encoder output)" where that is not what is released, "exact
            composition" or "e-process".
        holds_if: Adjacency or condition under which the statement holds.
        reference: What is compared as the correct reference.
        reference_claimed: epsilon that the reference guarantees.
        reference_found: epsilon found of it, in the same way.
        delta: delta of all of them.
    """

    package: str
    what: str
    states: str
    contexts: str
    claimed: float
    found: float
    how: str
    holds_if: str
    reference: str
    reference_claimed: float
    reference_found: float
    delta: float = DELTA

    @property
    def exceeds(self) -> bool:
        """Does what was found exceed what is stated?"""
        return self.found > self.claimed * (1 + ROUNDING)

    @property
    def reference_exceeds(self) -> bool:
        """Would the correct reference be accused?"""
        return self.reference_found > self.reference_claimed * (1 + ROUNDING)

    def record(self) -> dict[str, Any]:
        """As JSON, with the installed version; an infinite epsilon is "inf"."""
        numbers = {
            name: "inf" if math.isinf(value) else float(value)
            for name, value in vars(self).items()
            if isinstance(value, float | int)
        }
        return {
            **vars(self), **numbers, "version": version(self.package),
            "exceeds": bool(self.exceeds), "reference_exceeds": bool(self.reference_exceeds),
        }  # fmt: skip


def loss(one: npt.ArrayLike, other: npt.ArrayLike, delta: float = DELTA) -> float:
    """Exact epsilon at delta between two output distributions over the same outputs."""
    laws = [CategoricalLaw(p / p.sum()) for p in (np.asarray(one, float), np.asarray(other, float))]
    found = exact_privacy_loss(laws[0], laws[1], delta).epsilon
    return math.inf if found is None else found


def joint(steps: Sequence[npt.ArrayLike]) -> Floats:
    """Distribution of independent choices, from the distribution of each."""
    whole = np.ones(1)
    for step in steps:
        whole = np.outer(whole, np.asarray(step, float)).ravel()
    return whole


@dataclass(frozen=True)
class Drawn:
    """One call of a sampler.

    Attributes:
        law: The probabilities that it was given.
        chance: The probability of what it drew.
    """

    law: Floats
    chance: float


@contextmanager
def observed(module: Any, name: str, argument: int | str) -> Iterator[list[Drawn]]:
    """Watch a package call a sampler, which draws as it always does.

    Args:
        module: Where the sampler lives, such as torch.
        name: Its name.
        argument: Position or keyword of its probabilities.

    Yields:
        Every call so far.
    """
    draw, seen = vars(module)[name], list[Drawn]()

    def drawing(*args: Any, **options: Any) -> Any:
        given = options[argument] if isinstance(argument, str) else args[argument]
        law, one = np.asarray(given, float).ravel(), draw(*args, **options)
        seen.append(Drawn(law, float(law[int(one)])))
        return one

    setattr(module, name, drawing)
    try:
        yield seen
    finally:
        setattr(module, name, draw)
