"""Guarantees, calibration and composition: pure functions and frozen records.

Only numpy and scipy are needed; subsampled accounting takes the extra `accounting`. An argument
outside its range raises `UsageError`: `delta`, the failure probability of all, lies in [0, 1).
"""

from leakbound.privacy.compose import (
    Relation,
    Subsampled,
    pure_composition_epsilon,
    subsampled_gaussian_epsilon,
)
from leakbound.privacy.concentrated import zcdp_epsilon, zcdp_rho
from leakbound.privacy.discrete_gaussian import (
    DiscreteGaussian,
    calibrate_discrete_gaussian,
    discrete_gaussian_delta,
    discrete_gaussian_epsilon,
    discrete_gaussian_pmf,
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
    compose,
    leaves,
    self_compose,
    trade_off,
)
from leakbound.privacy.renyi import (
    RDP,
    compose_rdp,
    renyi_divergence,
    renyi_epsilon,
    renyi_of_two_steps,
    renyi_value,
)
from leakbound.privacy.rounding import share_down, sum_up

__all__ = [
    "RDP", "ApproxDP", "BoundedRange", "Composed", "DiscreteGaussian", "Gaussian", "Guarantee",
    "NonPrivate", "PureDP", "Relation", "Subsampled", "ZCDP", "calibrate_discrete_gaussian",
    "calibrate_gaussian", "compose", "compose_rdp", "discrete_gaussian_delta",
    "discrete_gaussian_epsilon", "discrete_gaussian_pmf",
    "gaussian_epsilon", "gdp_delta", "gdp_epsilon", "gdp_trade_off", "leaves",
    "pure_composition_epsilon", "renyi_divergence", "renyi_epsilon", "renyi_of_two_steps",
    "renyi_value", "self_compose", "share_down", "subsampled_gaussian_epsilon", "sum_up",
    "trade_off", "zcdp_epsilon", "zcdp_rho",
]  # fmt: skip
