"""General libraries, used as a vote over answers would use them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import autodp.rdp_acct  # noqa: F401  (its calibrator imports it in a circle)
import dp_accounting
import numpy as np
import opendp.prelude as dp
from autodp.mechanism_zoo import ExactGaussianMechanism
from autodp.privacy_calibrator import ana_gaussian_mech
from autodp.transformer_zoo import Composition
from diffprivlib.mechanisms import Exponential, GaussianAnalytic
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from eeprivacy.mechanisms import GaussianMechanism as EnergyGaussian
from finding import DELTA, Finding, loss
from opacus.accountants import GaussianAccountant, PRVAccountant, RDPAccountant
from prv_accountant import GaussianMechanism as PrvGaussian
from prv_accountant import PRVAccountant as Composer
from pydp.algorithms.numerical_mechanisms import GaussianMechanism as PyDPGaussian

from leakbound.privacy import (
    calibrate_gaussian,
    discrete_gaussian_epsilon,
    gaussian_epsilon,
    gdp_epsilon,
    subsampled_gaussian_epsilon,
)

SIGMA, ANSWERS = 5.0, 100
VOTES = ([6.0, 4.0, 0.0], [5.0, 5.0, 0.0])  # one vote moves
STEPS, RATE, NOISE = 1000, 0.01, 0.6
warnings.filterwarnings("ignore", module="opacus|autodp|prv_accountant|dp_accounting")


def calibrated(package: str, states: str, sigma: float, claimed: float, holds_if: str) -> Finding:
    """σ for one count that moves by 1."""
    right = calibrate_gaussian(claimed, DELTA, 1.0)
    return Finding(
        package, "Gaussian calibration", states,
        f"One count that changes by 1, ε = {claimed:g}, δ = 1e-5: σ = {sigma:.4f}.",
        claimed, gaussian_epsilon(sigma, 1.0, DELTA), "exact loss", holds_if,
        "leakbound `calibrate_gaussian`, analytic", claimed, gaussian_epsilon(right, 1.0, DELTA),
    )  # fmt: skip


def composed(package: str, what: str, states: str, claimed: float) -> Finding:
    """ε of a hundred noisy answers, where the exact one is known."""
    exact = gdp_epsilon(math.sqrt(ANSWERS) / SIGMA, DELTA)
    return Finding(
        package, what, states,
        f"{ANSWERS} counts with σ = {SIGMA:g} that each change by 1, δ = 1e-5.",
        claimed, exact, "exact composition", "as tested",
        "leakbound `gdp_epsilon`", exact, exact,
    )  # fmt: skip


def sampled(package: str, what: str, states: str, claimed: float, holds_if: str) -> Finding:
    """ε of subsampled noisy sums, from the composition of privacy loss distributions."""
    upper = subsampled_gaussian_epsilon(NOISE, RATE, STEPS, DELTA)
    lower = upper * 0.99  # the discretised composition rounds up, by far less than this
    return Finding(
        package, what, states,
        f"{STEPS} sums over Poisson samples of rate {RATE:g}, noise {NOISE:g}, δ = 1e-5.",
        claimed, lower, "exact composition", holds_if,
        "leakbound `subsampled_gaussian_epsilon`", upper, lower,
    )  # fmt: skip


def opacus_epsilon(kind: type, sigma: float, rate: float, steps: int) -> float:
    """What an accountant of Opacus says."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        accountant = kind()
        accountant.history = [(sigma, rate, steps)]
        return float(accountant.get_epsilon(DELTA))


def dp_accounting_epsilon(kind: Callable[[], object]) -> float:
    """What an accountant of dp-accounting says."""
    accountant = kind()
    accountant.compose(dp_accounting.GaussianDpEvent(SIGMA), ANSWERS)
    return float(accountant.get_epsilon(DELTA))


def exponential() -> Finding:
    """The vote as an exponential mechanism."""
    laws = [np.diff(Exponential(epsilon=1.0, sensitivity=1.0, utility=votes)._probabilities,
                    prepend=0.0) for votes in VOTES]  # fmt: skip
    right = [np.exp(np.array(votes) / 2) for votes in VOTES]
    return Finding(
        "diffprivlib", "Vote by the exponential mechanism",
        "ε-DP for a utility of the given sensitivity (docstring of `Exponential`).",
        "Votes (6, 4, 0) and (5, 5, 0), sensitivity 1, ε = 1.", 1.0, loss(*laws, 0.0),
        "exact loss", "as tested", "the exponential mechanism in closed form", 1.0,
        loss(*right, 0.0), 0.0,
    )  # fmt: skip


def noisy_gaussian() -> Finding:
    """OpenDP's Gaussian measurement of counts, through its own conversion."""
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=int)
    measurement = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=SIGMA))
    claimed = float(measurement.map(1).epsilon(DELTA))
    exact = discrete_gaussian_epsilon(SIGMA, [1], DELTA)
    return Finding(
        "opendp", "Gaussian noise on counts",
        "The measurement's privacy map, through `make_zCDP_to_approxDP`.",
        f"One count that changes by 1, scale {SIGMA:g}, δ = 1e-5. The noise is discrete.",
        claimed, exact, "exact loss", "as tested",
        "leakbound `discrete_gaussian_epsilon`", exact, exact,
    )  # fmt: skip


def prv_epsilon() -> float:
    """The upper end of what prv-accountant says."""
    made = Composer(prvs=[PrvGaussian(noise_multiplier=SIGMA)], max_self_compositions=[ANSWERS],
                    eps_error=0.01, delta_error=1e-10)  # fmt: skip
    return float(made.compute_epsilon(delta=DELTA, num_self_compositions=[ANSWERS])[2])


FINDINGS = (
    lambda: calibrated(
        "diffprivlib", "(ε, δ)-DP for any ε (docstring of `GaussianAnalytic`; `Gaussian` refuses "
        "ε above 1).", GaussianAnalytic(epsilon=10.0, delta=DELTA, sensitivity=1.0)._scale, 10.0,
        "as tested"),
    lambda: calibrated(
        "autodp", "(ε, δ)-DP for sensitivity 1 (docstring of `ana_gaussian_mech`; "
        "`classical_gaussian_mech` refuses ε above 1).",
        float(ana_gaussian_mech(10.0, DELTA)["sigma"]), 10.0, "as tested"),
    lambda: calibrated(
        "python-dp", "(ε, δ)-DP (`GaussianMechanism`).", PyDPGaussian(10.0, DELTA, 1.0).std, 10.0,
        "as tested"),
    lambda: calibrated(
        "eeprivacy", "Adds noise “to realize differential private at (epsilon, delta)” (docstring "
        "of `GaussianMechanism.execute`). "
        "*In the code*: σ = Δ√(2 ln(1.25/δ))/ε at any ε.",
        float(EnergyGaussian.scale(sensitivity=1.0, epsilon=10.0, delta=DELTA)), 10.0, "ε < 1"),
    exponential,
    noisy_gaussian,
    lambda: composed(
        "autodp", "Gaussian answers, RDP", "ε of composed mechanisms (`Composition`).", float(
            Composition()([ExactGaussianMechanism(sigma=SIGMA)], [ANSWERS]).get_approxDP(DELTA))),
    lambda: composed(
        "prv-accountant", "Gaussian answers, PRV", "An upper bound on ε (`compute_epsilon`).",
        prv_epsilon()),
    lambda: composed(
        "dp-accounting", "Gaussian answers, PLD", "ε of composed events (`PLDAccountant`).",
        dp_accounting_epsilon(PLDAccountant)),
    lambda: composed(
        "dp-accounting", "Gaussian answers, RDP", "ε of composed events (`RdpAccountant`).",
        dp_accounting_epsilon(RdpAccountant)),
    lambda: composed(
        "opacus", "Gaussian answers, RDP", "ε of all steps (`RDPAccountant`), at sample rate 1.",
        opacus_epsilon(RDPAccountant, SIGMA, 1.0, ANSWERS)),
    lambda: sampled("opacus", "Subsampled sums, RDP", "ε of all steps (`RDPAccountant`).",
                    opacus_epsilon(RDPAccountant, NOISE, RATE, STEPS), "as tested"),
    lambda: sampled("opacus", "Subsampled sums, PRV", "ε of all steps (`PRVAccountant`).",
                    opacus_epsilon(PRVAccountant, NOISE, RATE, STEPS), "as tested"),
    lambda: sampled(
        "opacus", "Subsampled sums, GDP", "ε of all steps (`GaussianAccountant`). The package "
        "warns at each use that this accountant is experimental and can underestimate.",
        opacus_epsilon(GaussianAccountant, NOISE, RATE, STEPS),
        "the number of steps is large and the rate small (a limit)"),
)  # fmt: skip
