"""Guarantees, calibration and composition:

pure functions and frozen records, numpy and scipy only.
"""

from leakbound.privacy.compose import (
    Subsampled,
    exponential_composition_epsilon,
    pure_composition_epsilon,
    subsampled_gaussian_epsilon,
)
from leakbound.privacy.gaussian import (
    calibrate_gaussian,
    gaussian_epsilon,
    gdp_delta,
    gdp_epsilon,
    gdp_trade_off,
)
from leakbound.privacy.guarantee import (
    ZCDP,
    ApproxDP,
    BoundedRange,
    Composed,
    Gaussian,
    Guarantee,
    NonPrivate,
    PureDP,
    Relation,
    compose,
    self_compose,
    trade_off,
    zcdp_epsilon,
)

__all__ = [
    "exponential_composition_epsilon", "pure_composition_epsilon", "subsampled_gaussian_epsilon",
    "ApproxDP", "BoundedRange", "Composed", "Gaussian", "Guarantee", "NonPrivate", "PureDP", "Relation", "Subsampled", "ZCDP", "calibrate_gaussian",
    "compose", "gaussian_epsilon", "gdp_delta", "gdp_epsilon", "gdp_trade_off", "self_compose", "trade_off", "zcdp_epsilon",
]  # fmt: skip
