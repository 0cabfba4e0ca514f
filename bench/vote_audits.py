"""Simulated audits of report noisy max with the estimator that users get by default."""

from __future__ import annotations

import math

import numpy as np

from leakbound.estimators import Claim, EProcess, Observations, PairedScores, TrialDesign
from leakbound.estimators.e_process import EValues
from leakbound.privacy import Gaussian, gdp_epsilon
from leakbound.stats import VoteScores

DRAWS = 100  # simulated outputs of one aggregate; an audit of 200 pairs makes 500
ROOT2 = math.sqrt(2)


def design(
    partitions: int, mu: float, pairs: int, delta: float, tested: float | None = None,
    shared: bool = True, early_stop: bool = False,
) -> TrialDesign:  # fmt: skip
    """What the default estimator knows of noisy margins "yes less no" before the first pair.

    Args:
        partitions: Votes of one context.
        mu: What the noise guarantees for one vote.
        pairs: Planned number of pairs.
        delta: Failure probability at which epsilon is stated.
        tested: The mu that is tested; None: what the noise guarantees.
        shared: Whether both contexts of a pair share the votes that the canary does not touch.
        early_stop: Whether the audit ends once the guarantee is rejected.

    Returns:
        The design of an audit with the score `label_margin`.
    """
    sigma, claimed = ROOT2 / mu, mu if tested is None else tested
    return TrialDesign(
        Claim(gdp_epsilon(claimed, delta), delta),
        Gaussian(claimed, 1.0),
        pairs=pairs,
        levels=tuple(np.arange(-partitions - 4.0, partitions + 5.0).tolist()),
        early_stop=early_stop,
        sigma=sigma,
        voters=partitions,
        known=VoteScores.margin(partitions, sigma, shared),
        served=True,
    )


def observed(
    known: TrialDesign, first: int, member: np.ndarray, nonmember: np.ndarray,
    rng: np.random.Generator,
) -> Observations:  # fmt: skip
    """What pairs with these margins show, with noise as declared.

    Args:
        known: The design.
        first: Index of the first pair.
        member: (pairs,) margins before noise of the canary-in context.
        nonmember: The same of the canary-out context.
        rng: Source of the noise.

    Returns:
        Everything that the default estimator reads.
    """
    if known.known is None or known.sigma is None:
        raise ValueError("the design has no noisy votes")
    spread = known.sigma * ROOT2
    both = np.stack([member, nonmember]).astype(float)
    simulated = both[..., None] + rng.normal(0, spread, (*both.shape, DRAWS))
    single, last = both + rng.normal(0, spread, both.shape), rng.normal(0, spread, both.shape[1])
    chances = known.known.exceedance(both)  # type: ignore[attr-defined]
    return Observations(
        first, both.shape[1],
        trial_scores=PairedScores(*single),
        simulated_scores=PairedScores(*simulated),
        level_chances=PairedScores(*chances),
        corrected_scores=PairedScores(*(single - last)),
    )  # fmt: skip


def default_audit(known: TrialDesign) -> EValues:
    """The default estimator before the first pair.

    Args:
        known: The design.

    Returns:
        Its observer.
    """
    return EProcess().begin(known)
