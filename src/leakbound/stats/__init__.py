"""From scores to bounds. Arrays go in, result records come out. No I/O; numpy and scipy only.

An argument outside its range raises `UsageError`: `delta`, the failure probability at which epsilon
is stated, lies in [0, 1), `confidence` in (0, 1), and a claimed `epsilon` is at least 0.
"""

from leakbound.stats.counts.bounds import (
    accuracy_bound,
    accuracy_log_odds,
    binomial_lower,
    binomial_upper,
    clopper_pearson,
    gdp,
    joint_beta,
    most_in_population,
)
from leakbound.stats.counts.one_run import (
    canaries_to_reject,
    one_run,
    one_run_power,
    right_to_reject,
)
from leakbound.stats.counts.two_samples import rank_test, sign_test
from leakbound.stats.curves.curves import (
    BestOnSameData,
    Bonferroni,
    Fixed,
    Split,
    ThresholdRule,
    auroc,
    auroc_standard_error,
    best_threshold,
    bonferroni,
    roc,
    tpr_at_fpr,
)
from leakbound.stats.e_values.anytime import MixedEProcess
from leakbound.stats.e_values.e_process import EProcess
from leakbound.stats.estimate import BoundReading, Estimate, Kind, beside, cut
from leakbound.stats.noise.noise_fit import NoiseFit, noise_goodness_of_fit
from leakbound.stats.noise.output_distributions import (
    CategoricalLaw,
    GaussianLaw,
    OutputDistribution,
    exact_privacy_loss,
    privacy_profile,
)
from leakbound.stats.noise.votes import VoteScores
from leakbound.stats.power import (
    Assumption,
    Power,
    clopper_pearson_power,
    largest_certifiable_epsilon,
)

__all__ = [
    "Assumption", "BestOnSameData", "Bonferroni", "CategoricalLaw", "EProcess", "Estimate",
    "BoundReading", "beside", "Fixed", "GaussianLaw", "Kind", "MixedEProcess", "NoiseFit",
    "OutputDistribution", "Power", "Split", "ThresholdRule", "VoteScores", "accuracy_bound",
    "accuracy_log_odds", "auroc", "auroc_standard_error", "best_threshold", "binomial_lower",
    "binomial_upper", "bonferroni", "canaries_to_reject", "clopper_pearson",
    "clopper_pearson_power", "cut", "exact_privacy_loss", "gdp", "joint_beta",
    "largest_certifiable_epsilon", "most_in_population", "noise_goodness_of_fit", "one_run",
    "one_run_power", "privacy_profile", "rank_test", "right_to_reject", "roc", "sign_test",
    "tpr_at_fpr",
]  # fmt: skip
