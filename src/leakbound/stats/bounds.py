"""Lower bounds and point estimates from counts of right and wrong guesses.

tp, fn: member trials called member and non-member; fp, tn: non-member trials called member and
non-member.
All trials are taken as independent; the threshold must not have been chosen on them (see
thresholds.py).
"""

from __future__ import annotations

import math

from scipy.special import ndtri

from leakbound._check import confidence_level, count, delta_value
from leakbound.errors import UsageError
from leakbound.privacy import gdp_epsilon
from leakbound.stats.estimate import Estimate
from leakbound.stats.intervals import binomial_lower, binomial_upper

__all__ = ["accuracy_bound", "accuracy_log_odds", "clopper_pearson", "gdp"]

IID = "trials are independent within each world"
FRESH = "the threshold was not chosen on these trials"


def clopper_pearson(
    tp: int,
    fn: int,
    fp: int,
    tn: int,
    delta: float = 0.0,
    confidence: float = 0.95,
    threshold: str = "given",
) -> Estimate:
    """Lower bound on epsilon from Clopper-Pearson limits on both error rates.

    Formula: the larger of ln((TPR_lo - delta)/FPR_hi) and ln((TNR_lo - delta)/FNR_hi), never below
    0, each error rate
    at (1 - confidence)/2, so both hold together. Always finite: a perfect attack on n trials
    certifies what n can.
    Kind: lower_bound, for any mechanism. Source: Jagielski et al. 2020; Nasr et al. 2021. Raises
    UsageError for an empty world.
    """
    counts = _counts(tp, fn, fp, tn)
    delta_value(delta)
    alpha = (1 - confidence_level(confidence)) / 2
    fpr, fnr = (float(binomial_upper(k, n, alpha)) for k, n in ((fp, fp + tn), (fn, tp + fn)))
    value = max(0.0, _log_ratio(1 - fnr - delta, fpr), _log_ratio(1 - fpr - delta, fnr))
    return Estimate(
        "clopper_pearson", "lower_bound", value, delta, confidence, counts, (IID, FRESH), threshold=threshold,
        details={"fpr_upper": fpr, "fnr_upper": fnr},
    )  # fmt: skip


def gdp(
    tp: int,
    fn: int,
    fp: int,
    tn: int,
    delta: float = 1e-5,
    confidence: float = 0.95,
    threshold: str = "given",
) -> Estimate:
    """Lower bound on mu of Gaussian DP: Phi^-1(1 - FNR_hi) - Phi^-1(FPR_hi), never below 0 (XL;
    Nasr et al. 2023).

    It holds for any mechanism that is mu-GDP. `epsilon` is the epsilon(delta) that mu implies *if
    the mechanism is
    Gaussian*; it is not a lower bound on epsilon of the pair of laws otherwise, and refutes no
    (epsilon, delta) claim.
    """
    counts = _counts(tp, fn, fp, tn)
    delta_value(delta)
    alpha = (1 - confidence_level(confidence)) / 2
    fpr, fnr = (float(binomial_upper(k, n, alpha)) for k, n in ((fp, fp + tn), (fn, tp + fn)))
    mu = max(0.0, float(-ndtri(fnr) - ndtri(fpr))) if max(fpr, fnr) < 1 else 0.0
    return Estimate(
        "gdp", "lower_bound", gdp_epsilon(mu, delta), delta, confidence, counts,
        (IID, FRESH, "epsilon is implied by mu only if the mechanism is Gaussian"), mu=mu, threshold=threshold,
        details={"fpr_upper": fpr, "fnr_upper": fnr},
    )  # fmt: skip


def accuracy_log_odds(
    correct: int, n: int, delta: float = 0.0, threshold: str = "given"
) -> Estimate:
    """Point estimate ln((a - delta)/(1 - a)) from the accuracy a = correct/n (CL). It carries no
    confidence.

    Infinite for a perfect attack, however few the trials: never compare it with a claim.
    """
    _guesses(correct, n)
    delta_value(delta)
    a = correct / n
    value = math.inf if correct == n else max(0.0, _log_ratio(a - delta, 1 - a))
    return Estimate(
        "accuracy_log_odds", "point_estimate", value, delta, None, {"correct": correct, "n": n},
        ("the accuracy of these trials is taken for the true one",), threshold=threshold,
    )  # fmt: skip


def accuracy_bound(
    correct: int, n: int, delta: float = 0.0, confidence: float = 0.95, threshold: str = "given"
) -> Estimate:
    """Lower bound on epsilon from the number of right guesses among n independent ones, half of
    them members.

    Formula: under (epsilon, delta)-DP a guess is right with probability at most (e^epsilon +
    delta)/(1 + e^epsilon), so
    with a the one-sided Clopper-Pearson lower limit of the accuracy, epsilon >= ln((a - delta)/(1 -
    a)), never below 0.
    Unequal right-rates of the two worlds only thin the tail (Hoeffding 1956). Kind: lower_bound. At
    delta = 0 this is
    the largest epsilon with P[Bin(n, e^eps/(1+e^eps)) >= correct] <= 1 - confidence.
    """
    _guesses(correct, n)
    delta_value(delta)
    a = float(binomial_lower(correct, n, 1 - confidence_level(confidence)))
    return Estimate(
        "accuracy_bound", "lower_bound", max(0.0, _log_ratio(a - delta, 1 - a)), delta, confidence,
        {"correct": correct, "n": n}, (IID, FRESH, "as many member as non-member trials"), threshold=threshold,
    )  # fmt: skip


def _log_ratio(top: float, bottom: float) -> float:
    if top <= 0:
        return -math.inf
    return math.inf if bottom <= 0 else math.log(top / bottom)


def _counts(tp: int, fn: int, fp: int, tn: int) -> dict[str, int]:
    counts = {
        name: count(name, value)
        for name, value in zip(("tp", "fn", "fp", "tn"), (tp, fn, fp, tn), strict=True)
    }
    for world, total in (("member", tp + fn), ("non-member", fp + tn)):
        if total == 0:
            raise UsageError(
                f"there are no {world} trials; a bound needs at least one trial in each world."
            )
    return counts


def _guesses(correct: int, n: int) -> None:
    if count("n", n) == 0 or count("correct", correct) > n:
        raise UsageError(
            f"correct is {correct} of n = {n}; it must be at most n, and n at least 1."
        )
