"""Lower bounds and point estimates from counts of right and wrong guesses.

tp and fn count trials of the canary-in context that were called member and non-member; fp and tn
count those of the canary-out context. Trials are assumed to be independent, and the threshold must
not have been chosen on them (see curves.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import scipy

from leakbound._check import MOST, confidence_level, count, delta_value, of_one_shape, whole, within
from leakbound.errors import UsageError
from leakbound.privacy import gdp_epsilon
from leakbound.stats.arrays import Floats
from leakbound.stats.estimate import IMPLIED, Estimate

OUTWARDS = 1e-9  # relative margin, a thousand times the error of the inverse beta function


def binomial_upper(successes: npt.ArrayLike, trials: npt.ArrayLike, alpha: float) -> Floats:
    """One-sided upper confidence limit: the largest p with P[Bin(n, p) <= k] >= alpha.

    1 where k = n or n = 0.

    Args:
        successes: Numbers of successes k; any shape.
        trials: Numbers of trials n >= k, at most 1e15; any shape that broadcasts.
        alpha: Error probability of the limit, in [0, 1]; at 0 the limit is 1.

    Guarantee:
        The true probability exceeds the limit with probability at most alpha, at any n.

    Reference:
        Clopper and Pearson (1934).

    Examples:
        >>> round(float(binomial_upper(0, 100, 0.05)), 4)  # 1 - 0.05 ** (1 / 100)
        0.0295
    """
    k, n = of_one_shape(True, successes=successes, trials=within("trials", trials, 0, MOST))
    if not np.all((k >= 0) & (k <= n)):
        raise UsageError("successes must be at least 0, and at most the number of trials.")
    within("alpha", alpha, 0.0, 1.0)
    inside = (k < n) & (n > 0)
    raw = scipy.special.betaincinv(
        np.where(inside, k + 1, 1.0), np.where(inside, n - k, 1.0), 1 - alpha
    )
    return np.where(inside, np.minimum(raw * (1 + OUTWARDS), 1.0), 1.0)


def binomial_lower(successes: npt.ArrayLike, trials: npt.ArrayLike, alpha: float) -> Floats:
    """One-sided lower confidence limit: the smallest p with P[Bin(n, p) >= k] >= alpha.

    0 where k = 0. Arguments are those of `binomial_upper`.

    Guarantee:
        The true probability lies below the limit with probability at most alpha, at any n.
    """
    k, n = of_one_shape(True, successes=successes, trials=within("trials", trials, 0, MOST))
    return np.clip(1 - binomial_upper(n - k, n, alpha), 0.0, 1.0)


UNITS, DRAWN = 1_000_000, 200  # exact integers stay quick


def most_in_population(found: int, drawn: int, population: int, alpha: float) -> int:
    """Upper confidence limit on how many units of a population have a property.

    The largest M with P[X <= found] > alpha, where X counts the units with the property among
    `drawn` of a population with M of them; in exact integers.

    Args:
        found: Drawn units with the property, from 0 to `drawn`.
        drawn: Units drawn without replacement: at most 200, or all.
        population: Units in all, at most 1,000,000.
        alpha: Error probability of the limit, in [0, 1].

    Guarantee:
        The true number exceeds the limit with probability at most alpha, over the draw, if what was
        drawn from and the property were fixed before it.

    Reference:
        Wright, Exact confidence bounds when sampling from small finite universes, 1991.

    Raises:
        UsageError: If a number is out of its range.

    Examples:
        >>> most_in_population(0, 59, 1000, 0.05)  # of 1,000 units, 59 drawn, none found
        48
        >>> most_in_population(2, 30, 30, 0.05)  # all drawn: nothing is left to chance
        2
    """
    whole("population", population, 0, UNITS)
    whole("drawn", drawn, 0, population if drawn == population else DRAWN)
    whole("found", found, 0)
    within("alpha", alpha, 0.0, 1.0)
    if not found <= drawn <= population:
        raise UsageError(
            f"found is {found}, drawn {drawn} and population {population}; they must rise in this "
            "order."
        )
    if drawn == population:
        return found
    share, of = alpha.as_integer_ratio()
    allowed = share * math.comb(population, drawn)

    def likely(marked: int) -> bool:
        ways = (
            math.comb(marked, i) * math.comb(population - marked, drawn - i)
            for i in range(found + 1)
        )
        return of * sum(ways) > allowed

    low, high = found, population - (drawn - found)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if likely(middle) else (low, middle - 1)
    return low


IID = "trials are independent within each context"
FRESH = "the threshold was not chosen on these trials"
NODES = 4000  # midpoints of the integral over a posterior; its error is below 1e-4 of the mass
WIDTH = 1e-10  # at which the search of a quantile stops, far below the error of the integral


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

    The larger of ln((TPR_lo - delta)/FPR_hi) and ln((TNR_lo - delta)/FNR_hi), but at least 0. Each
    error rate gets an error of (1 - confidence)/2, so both limits hold together. The bound is
    always finite: a perfect attack on n trials certifies the most that n trials can show.

    Args:
        tp: Canary-in trials called member.
        fn: Canary-in trials called non-member.
        fp: Canary-out trials called member.
        tn: Canary-out trials called non-member.
        threshold: How the threshold was chosen, for the record.

    Raises:
        UsageError: If a count is negative, a context has no trial, or delta or confidence lies
            outside its range.

    Guarantee:
        Exceeds the true epsilon(delta) with probability at most 1 - confidence, under the
        relation between the two contexts.

    Reference:
        Jagielski, Ullman and Oprea (NeurIPS 2020); Nasr et al. (IEEE S&P 2021).

    Examples:
        >>> round(clopper_pearson(tp=100, fn=0, fp=0, tn=100).epsilon, 3)
        3.281
    """
    counts = error_counts(tp, fn, fp, tn)
    delta_value(delta)
    alpha = (1 - confidence_level(confidence)) / 2
    fpr, fnr = (float(binomial_upper(*of, alpha)) for of in ((fp, fp + tn), (fn, tp + fn)))
    value = max(0.0, _log_ratio(1 - fnr - delta, fpr), _log_ratio(1 - fpr - delta, fnr))
    details = {"fpr_upper": fpr, "fnr_upper": fnr}
    return Estimate(
        "clopper_pearson", "lower_bound", value, delta, confidence, counts, (IID, FRESH),
        threshold=threshold, details=details,
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
    """Lower bound on mu of Gaussian DP: Phi^-1(1 - FNR_hi) - Phi^-1(FPR_hi), but at least 0.

    Its `epsilon` is None. The epsilon that mu implies at `delta`, `details["implied_epsilon"]`, is
    a bound only if the mechanism is Gaussian, and it rejects no (epsilon, delta) claim. Arguments
    and errors are those of `clopper_pearson`.

    Guarantee:
        Exceeds the true mu of a mu-GDP mechanism with probability at most 1 - confidence.

    Reference:
        XL; Nasr et al., "Tight auditing of differentially private machine learning" (USENIX
        Security 2023).

    Examples:
        >>> found = gdp(tp=90, fn=10, fp=10, tn=90)
        >>> round(found.mu, 3), found.epsilon
        (1.86, None)
    """
    found = clopper_pearson(tp, fn, fp, tn, delta, confidence, threshold)
    fpr, fnr = found.details["fpr_upper"], found.details["fnr_upper"]
    both = scipy.special.ndtri([fnr, fpr])
    mu = max(0.0, float(-both.sum())) if max(fpr, fnr) < 1 else 0.0
    return replace(
        found, method="gdp", epsilon=None, assumptions=(IID, FRESH, IMPLIED), mu=mu,
        details={**found.details, "implied_epsilon": gdp_epsilon(mu, delta)},
    )  # fmt: skip


def accuracy_log_odds(
    correct: int, n: int, delta: float = 0.0, threshold: str = "given"
) -> Estimate:
    """Point estimate ln((a - delta)/(1 - a)) from the accuracy a = correct/n, without confidence.

    It is infinite for a perfect attack, even with few trials. Never compare it with a claim.

    Args:
        correct: Right guesses, at most n.
        n: Guesses, at least 1.
        threshold: How the threshold was chosen, for the record.

    Reference:
        CL.

    Examples:
        >>> accuracy_log_odds(correct=10, n=10).epsilon
        inf
    """
    _check_guesses(correct, n)
    delta_value(delta)
    a = correct / n
    value = math.inf if correct == n else max(0.0, _log_ratio(a - delta, 1 - a))
    return Estimate(
        "accuracy_log_odds", "point_estimate", value, delta, None, {"correct": correct, "n": n},
        ("the accuracy on these trials is taken as the true accuracy",), threshold=threshold,
    )  # fmt: skip


def accuracy_bound(
    correct: int, n: int, delta: float = 0.0, confidence: float = 0.95, threshold: str = "given"
) -> Estimate:
    """Lower bound on epsilon from the number of right guesses, half of them about members.

    Under (epsilon, delta)-DP a guess is right with probability at most
    (e^epsilon + delta)/(1 + e^epsilon). Hence epsilon >= ln((a - delta)/(1 - a)), where a is the
    one-sided Clopper-Pearson lower limit of the accuracy. At delta = 0 this is the largest epsilon
    with P[Bin(n, e^eps/(1 + e^eps)) >= correct] <= 1 - confidence. Unequal rates in the two
    contexts only make the tail lighter (Hoeffding 1956).

    Args:
        correct: Right guesses, at most n.
        n: Guesses, at least 1, the same number for each context.
        threshold: How the threshold was chosen, for the record.

    Guarantee:
        Exceeds the true epsilon(delta) with probability at most 1 - confidence.

    Reference:
        CL; Steinke, Nasr and Jagielski (NeurIPS 2023) for the binomial tail.

    Examples:
        >>> round(accuracy_bound(correct=100, n=100).epsilon, 3)
        3.493
    """
    _check_guesses(correct, n)
    delta_value(delta)
    a = float(binomial_lower(correct, n, 1 - confidence_level(confidence)))
    return Estimate(
        "accuracy_bound", "lower_bound", max(0.0, _log_ratio(a - delta, 1 - a)), delta, confidence,
        {"correct": correct, "n": n}, (IID, FRESH, "equal numbers of member and non-member trials"),
        threshold=threshold,
    )  # fmt: skip


def joint_beta(
    tp: int,
    fn: int,
    fp: int,
    tn: int,
    delta: float = 0.0,
    confidence: float = 0.95,
    threshold: str = "given",
) -> Estimate:
    """Credible lower bound on epsilon: epsilon exceeds it with posterior probability `confidence`.

    The model is FPR ~ Beta(1/2 + fp, 1/2 + tn) and FNR ~ Beta(1/2 + fn, 1/2 + tp), independent
    (Jeffreys priors). The two rates require more than epsilon if FPR + e^eps FNR < 1 - delta or
    FNR + e^eps FPR < 1 - delta. The posterior mass of that region is an integral over the quantiles
    of FPR. The bound is the (1 - confidence) quantile, by the Illinois method, rounded down. It is
    `credible`: it has no guaranteed coverage and decides no verdict. Arguments and errors are those
    of `clopper_pearson`.

    Reference:
        Zanella-Béguelin et al., "Bayesian estimation of differential privacy" (ICML 2023).

    Examples:
        >>> round(joint_beta(tp=100, fn=0, fp=0, tn=100).epsilon, 1)
        4.9
    """
    counts = error_counts(tp, fn, fp, tn)
    delta_value(delta)
    alpha = 1 - confidence_level(confidence)
    rates = scipy.special.betaincinv(0.5 + fp, 0.5 + tn, (np.arange(NODES) + 0.5) / NODES)

    def suffices(epsilon: float) -> float:
        """Posterior probability that epsilon suffices."""
        least = np.maximum(
            (1 - delta - rates) * math.exp(-epsilon), 1 - delta - math.exp(epsilon) * rates
        )
        return 1 - float(scipy.special.betainc(0.5 + fn, 0.5 + tp, np.clip(least, 0.0, 1.0)).mean())

    return Estimate(
        "joint_beta", "credible", _quantile(suffices, alpha), delta, confidence, counts,
        (IID, FRESH, "both error rates have independent Jeffreys priors"), threshold=threshold,
    )  # fmt: skip


def error_counts(tp: int, fn: int, fp: int, tn: int) -> dict[str, int]:
    """The four counts by name, checked."""
    given = {"tp": tp, "fn": fn, "fp": fp, "tn": tn}
    counts = {name: count(name, value) for name, value in given.items()}
    for side, total in (("member", tp + fn), ("non-member", fp + tn)):
        if total == 0:
            raise UsageError(
                f"there are no {side} trials; a bound needs at least one trial of each context."
            )
    return counts


def _log_ratio(top: float, bottom: float) -> float:
    if top <= 0:
        return -math.inf
    return math.inf if bottom <= 0 else math.log(top / bottom)


def _check_guesses(correct: int, n: int) -> None:
    if count("n", n) == 0 or count("correct", correct) > n:
        raise UsageError(
            f"correct is {correct} of n = {n}; it must be at most n, and n at least 1."
        )


def _quantile(suffices: Callable[[float], float], alpha: float) -> float:
    """Largest epsilon with suffices(epsilon) <= alpha, rounded down; 0 if there is none."""
    low, high = 0.0, 1.0
    while high < 500 and suffices(high) <= alpha:  # e^500 is still a float
        low, high = high, 2 * high
    below, above = suffices(low) - alpha, suffices(high) - alpha
    rose = False  # whether the last step moved the lower end
    while below <= 0 < above and high - low > WIDTH * high:  # the Illinois method
        at = high - above * (high - low) / (above - below)
        at = min(max(at, low + WIDTH * high / 2), high - WIDTH * high / 2)
        if (value := suffices(at) - alpha) <= 0:
            low, below, above, rose = at, value, above / 2 if rose else above, True
        else:
            high, above, below, rose = at, value, below if rose else below / 2, False
    return low
