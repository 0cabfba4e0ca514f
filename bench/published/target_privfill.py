"""privfill: its DP-BART, which adds noise to the clipped output of an encoder."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import torch
from finding import DELTA, Finding
from privfill.mechanisms import DPBart

from leakbound.privacy import calibrate_gaussian, gaussian_epsilon

INSIDE = "exact loss (encoder output)"  # what is released is a text that is made of it

PACKAGE, EPSILON, WIDTH = "privfill", 10.0, 16
STATES = "Local differential privacy for text; `DPBart` is the mechanism of DP-BART (README). "


@cache
def mechanism() -> DPBart:
    """Its noise and its clip, with the numbers of the constructor and without its model."""
    made = DPBart.__new__(DPBart)
    made.delta, made.sigma, made.num_sigmas = DELTA, 0.2, 1 / 2
    made.c_min, made.c_max = -made.sigma, made.num_sigmas * made.sigma
    return made


def shared_noise() -> Finding:
    """Two positions of one text get the same noise, so their difference has none."""
    hidden = torch.zeros(1, 2, WIDTH)
    noisy = mechanism().noise(mechanism().clip(hidden), epsilon=EPSILON)
    left = float((noisy[0, 0] - noisy[0, 1]).abs().max())
    moved = 0.1  # one coordinate of one position, inside the clip
    right = calibrate_gaussian(EPSILON, DELTA, 0.3 * math.sqrt(2 * WIDTH))
    return Finding(
        PACKAGE, "One noise vector for all positions",
        STATES + "*In the code*: `noise` draws one vector of the hidden width and adds it to "
        "every position.",
        f"Two positions of {WIDTH} numbers that agree: the difference of their noisy values is "
        f"{left:g} in every draw. In the neighbour, one number differs by {moved}. The loss is "
        "that of the noisy encoder output. A decoder makes the text of it, which may show less. "
        "(`DPBart` is made with the numbers of its constructor, and without its model.)",
        EPSILON, math.inf if left == 0 else 0.0, INSIDE,
        "the output is one position, as of a pooled embedding",
        "independent noise for every position, `calibrate_gaussian` for the whole output", EPSILON,
        gaussian_epsilon(right, 0.3 * math.sqrt(2 * WIDTH), DELTA),
    )  # fmt: skip


def sensitivity() -> Finding:
    """Opposite corners of what the clip lets through."""
    made = mechanism()
    ends = [made.clip(torch.full((WIDTH,), end)) for end in (-1.0, 1.0)]
    moved = float((ends[1] - ends[0]).norm())
    assumed = 2 * made.sigma * made.num_sigmas * np.sqrt(WIDTH)
    sigma = made.calibrateAnalyticGaussianMechanism_precision(EPSILON, DELTA, assumed)
    right = calibrate_gaussian(EPSILON, DELTA, moved)
    return Finding(
        PACKAGE, "Sensitivity of the clipped output",
        STATES + "*In the code*: the noise is calibrated to sensitivity 2 · 0.2 · ½ · √k = "
        "0.2√k. The clip goes "
        "from −0.2 to 0.1, so one position moves by up to 0.3√k.",
        f"One position of {WIDTH} numbers, all at the lower or all at the upper end of the clip, "
        "ε = 10, δ = 1e-5; the loss of the noisy encoder output, as above.",
        EPSILON, gaussian_epsilon(sigma, moved, DELTA), INSIDE,
        "the clip is symmetric (from −0.1 to 0.1)",
        "leakbound `calibrate_gaussian` for 0.3√k", EPSILON, gaussian_epsilon(right, moved, DELTA),
    )  # fmt: skip


def analytic() -> Finding:
    """Its analytic calibration for a sensitivity that is right."""
    sigma = mechanism().calibrateAnalyticGaussianMechanism_precision(EPSILON, DELTA, 1.0)
    right = calibrate_gaussian(EPSILON, DELTA, 1.0)
    return Finding(
        PACKAGE, "Analytic calibration",
        "σ of the analytic Gaussian mechanism (name of the method).",
        "A change by the given sensitivity, ε = 10, δ = 1e-5.",
        EPSILON, gaussian_epsilon(sigma, 1.0, DELTA), INSIDE, "as tested",
        "leakbound `calibrate_gaussian`", EPSILON, gaussian_epsilon(right, 1.0, DELTA),
    )  # fmt: skip


FINDINGS = (shared_noise, sensitivity, analytic)
