"""diffpriv-pure: noise and composition in the standard library."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from diffpriv_pure import PrivacyBudget, gaussian_sigma, laplace_noise, private_count
from diffpriv_pure import random as package_random
from finding import DELTA, Finding, Floats, loss
from scipy.stats import binom

from leakbound.privacy import calibrate_gaussian, gaussian_epsilon, pure_composition_epsilon

PACKAGE = "diffpriv-pure"
LEVELS = (np.arange(2000) + 0.5) / 2000
TOP = 20  # counts beyond it are not among that many quantiles


def quantiles(draw: Callable[[], float]) -> Floats:
    """What the package draws where its uniform number is each of `LEVELS`."""
    uniform, drawn = package_random.random, []
    for level in LEVELS:
        package_random.random = lambda level=level: float(level)
        drawn.append(draw())
    package_random.random = uniform
    return np.asarray(drawn, float)


def count() -> Finding:
    """A count of 0 and a count of 1."""
    laws = [np.bincount(quantiles(lambda n=n: private_count(n, 1.0) + TOP).astype(int),
                        minlength=2 * TOP) for n in (0, 1)]  # fmt: skip
    right = [np.exp(-np.abs(np.arange(-TOP, TOP + 1.0) - n)) for n in (0, 1)]
    return Finding(
        PACKAGE, "Counts with geometric noise",
        "Geometric (discrete Laplace) noise for integer counts, pure ε-DP (README, Quick Start; "
        "docstring of `geometric_noise`). *In the code*: its noise is never negative.",
        "`private_count(0, 1)` and `private_count(1, 1)` at 2,000 quantiles: only the first can "
        "be 0. A whole audit of `private_count` stands below.",
        1.0, loss(*laws), "exact loss",
        "counts serve only to select the largest of several (noise of one sign is enough there)",
        "two-sided geometric noise at ε = 1", 1.0, loss(*right),
    )  # fmt: skip


def composed() -> Finding:
    """A hundred answers of randomized response."""
    answers, each, slack = 100, 1.0, 1e-6
    claimed, delta = PrivacyBudget(1.0).advanced_composition(answers, each, slack)
    right = math.exp(each) / (1 + math.exp(each))
    laws = [binom.pmf(np.arange(answers + 1), answers, p) for p in (right, 1 - right)]
    return Finding(
        PACKAGE, "Advanced composition",
        "`advanced_composition` returns ε√(2n ln(1/δ)) and nδ (README, Limitations: for manual "
        "use). *In the code*: the theorem's term nε(e^ε − 1) is absent.",
        f"{answers} answers of randomized response with ε = 1, δ = 1e-4 in total.",
        claimed, loss(*laws, delta), "exact composition",
        "nε(e^ε − 1) is added, or ε is far below 1/√n",
        "leakbound `pure_composition_epsilon` of the same answers",
        pure_composition_epsilon(each, answers, delta), loss(*laws, delta), delta,
    )  # fmt: skip


def gaussian() -> Finding:
    """The formula at ε = 10."""
    sigma, right = gaussian_sigma(1.0, 10.0, DELTA), calibrate_gaussian(10.0, DELTA, 1.0)
    return Finding(
        PACKAGE, "Gaussian noise above ε = 1",
        "“Analytic Gaussian σ per Balle & Wang 2018” (README, Public API). The formula is "
        "Δ√(2 ln(1.25/δ))/ε, which is proved for ε < 1; no bound of ε is checked.",
        "One count that changes by 1, ε = 10, δ = 1e-5.",
        10.0, gaussian_epsilon(sigma, 1.0, DELTA), "exact loss", "ε < 1",
        "leakbound `calibrate_gaussian`, analytic", 10.0, gaussian_epsilon(right, 1.0, DELTA),
    )  # fmt: skip


def laplace() -> Finding:
    """Its draws at quantiles of its uniform numbers, which are those of the Laplace law."""
    below = quantiles(lambda: laplace_noise(1.0, 1.0))
    laplace_cdf = np.where(below < 0, np.exp(below) / 2, 1 - np.exp(-below) / 2)
    apart = float(np.abs(np.sort(laplace_cdf) - LEVELS).max())
    found = 1.0 if apart < 1e-9 else math.inf
    return Finding(
        PACKAGE, "Laplace noise", "Lap(0, b), pure ε-DP (docstring of `laplace_noise`).",
        f"2,000 quantiles: those of a Laplace law, to {apart:.0e}. One count that changes by 1.",
        1.0, found, "exact loss", "as tested", "the Laplace law in closed form", 1.0, 1.0, 0.0,
    )  # fmt: skip


FINDINGS = (count, composed, gaussian, laplace)
