"""The sound auditor that the catalogue of defects is held against, in three forms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from leakbound.privacy import Guarantee
from leakbound.stats import CategoricalLaw, EProcess, GaussianLaw, exact_privacy_loss

__all__ = ["Finding", "Fixture", "by_law", "by_pairs"]

Floats = npt.NDArray[np.float64]
Rng = np.random.Generator
Release = Callable[[Floats, int, Rng], Floats]


@dataclass(frozen=True, slots=True)
class Finding:
    """What an audit said: is the claim refuted, after how many pairs (0:

    by law or arithmetic), on what evidence.
    """

    rejected: bool
    pairs: int
    evidence: str


@dataclass(frozen=True, slots=True)
class Fixture:
    """Two neighbouring aggregates, a release that turns one into scores (draws,), the claim,
    thresholds to try.
    """

    member: Floats
    nonmember: Floats
    release: Release
    claim: Guarantee
    thresholds: tuple[float, ...]


def by_pairs(
    fixture: Fixture, rng: Rng, budget: int, outputs: int = 100, confidence: float = 0.95
) -> Finding:
    """Anytime-valid: pairs are drawn until the claim is refuted or the budget is spent.

    Scores of a pair: per threshold, the share of `releases` draws of the fixture's own release code
    at or above it.
    """
    process = EProcess(fixture.claim, confidence)
    levels = np.asarray(fixture.thresholds)
    for pair in range(1, budget + 1):
        x, y = (
            _shares(fixture.release(world, outputs, rng), levels)
            for world in (fixture.member, fixture.nonmember)
        )
        process.update(x, y)
        if process.rejected:
            return Finding(
                True, pair, f"e-process above {1 / (1 - confidence):.0f} after {pair} pairs"
            )
    return Finding(False, budget, f"not refuted in {budget} pairs")


def _shares(scores: Floats, levels: Floats) -> Floats:
    return np.asarray((scores[:, None] >= levels).mean(0), float)


def by_law(
    member: GaussianLaw | CategoricalLaw,
    nonmember: GaussianLaw | CategoricalLaw,
    claim: Guarantee,
    delta: float,
) -> Finding:
    """Exact: epsilon(delta) of the pair of laws against the claim, no sampling."""
    found, promised = exact_privacy_loss(member, nonmember, delta).epsilon or 0.0, claim.epsilon(delta)
    return Finding(
        found > promised * (1 + 1e-6),
        0,
        f"exact ε(δ={delta:g}) = {found:.4g}, claimed {promised:.4g}",
    )


def spread(low: float, high: float, count: int = 9) -> tuple[float, ...]:
    """Evenly spread thresholds, chosen before any release."""
    return tuple(np.linspace(low, high, count).tolist())


def worst(findings: Sequence[Finding]) -> Finding:
    """Refuted if any is; the first that is speaks."""
    return next((f for f in findings if f.rejected), findings[-1])
