"""From scores to bounds: arrays in, result records out, no I/O; numpy and scipy only."""

from contextleak.stats.bounds import accuracy_bound, accuracy_log_odds, clopper_pearson, gdp
from contextleak.stats.curves import auroc, auroc_standard_error, roc, tpr_at_fpr
from contextleak.stats.e_process import EProcess
from contextleak.stats.estimate import Estimate, Kind, cut
from contextleak.stats.intervals import binomial_lower, binomial_upper
from contextleak.stats.laws import CategoricalLaw, GaussianLaw, exact_pair, pair_delta
from contextleak.stats.power import clopper_pearson_ceiling, clopper_pearson_power, pairs_to_refute
from contextleak.stats.thresholds import BestOnSameData, Fixed, Split, ThresholdRule, best_threshold

__all__ = [
    "CategoricalLaw", "EProcess", "GaussianLaw", "exact_pair", "pair_delta",
    "BestOnSameData", "Estimate", "Fixed", "Kind", "Split", "ThresholdRule", "accuracy_bound", "accuracy_log_odds",
    "auroc", "auroc_standard_error", "best_threshold", "binomial_lower", "binomial_upper", "clopper_pearson", "cut",
    "clopper_pearson_ceiling", "clopper_pearson_power", "pairs_to_refute", "gdp", "roc", "tpr_at_fpr",
]  # fmt: skip
