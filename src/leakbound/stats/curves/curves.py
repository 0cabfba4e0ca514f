"""ROC curves with their summaries, and thresholds. Higher scores mean member; ties count half."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from leakbound._check import confidence_level, count, floats, numbers, within
from leakbound.errors import UsageError
from leakbound.stats.arrays import Floats
from leakbound.stats.estimate import Estimate

LEVELS = 400  # thresholds tried for a pair: the best one is within 0.3 points of the optimum


def clean_scores(name: str, scores: npt.ArrayLike) -> Floats:
    array = floats(name, scores, kinds="biuf").flatten()
    if array.size == 0:
        raise UsageError(f"{name} holds no scores; it needs at least one.")
    if np.isnan(array).any():
        raise UsageError(
            f"{name} holds {int(np.isnan(array).sum())} NaN scores; drop or repair the trials "
            "they come from."
        )
    return array


def roc(member: npt.ArrayLike, nonmember: npt.ArrayLike) -> tuple[Floats, Floats, Floats]:
    """The ROC curve of every rule "member if score >= threshold": (fpr, tpr, threshold).

    Each has shape (points,), from (0, 0) to (1, 1), with thresholds in descending order from
    infinity.

    Args:
        member: Scores of the canary-in context; any shape.
        nonmember: Scores of the canary-out context; any shape.

    Raises:
        UsageError: If a context has no score, or one is NaN.

    Examples:
        >>> fpr, tpr, threshold = roc([2.0, 3.0], [1.0, 2.0])
        >>> fpr.tolist(), tpr.tolist()
        ([0.0, 0.0, 0.5, 1.0], [0.0, 0.5, 1.0, 1.0])
    """
    m, n = clean_scores("member", member), clean_scores("nonmember", nonmember)
    m.sort()
    n.sort()
    values = np.unique(np.concatenate([m, n]))[::-1]
    tp, fp = ((one.size - np.searchsorted(one, values)) / one.size for one in (m, n))
    return np.r_[0.0, fp], np.r_[0.0, tp], np.r_[math.inf, values]


def auroc(member: npt.ArrayLike, nonmember: npt.ArrayLike) -> float:
    """Area under the ROC curve: P(member score > non-member score) + P(equal)/2.

    A point estimate; arguments and errors are those of `roc`.

    Examples:
        >>> auroc([2.0, 3.0], [1.0, 2.0])
        0.875
    """
    fpr, tpr, _ = roc(member, nonmember)
    return float(np.trapezoid(tpr, fpr))


def auroc_standard_error(area: float, members: int, nonmembers: int) -> float:
    """Standard error of an AUROC.

    Args:
        area: The AUROC, in [0, 1].
        members: Number of scores of the canary-in context, from 1 to 1e15.
        nonmembers: Number of scores of the canary-out context, from 1 to 1e15.

    Reference:
        Hanley and McNeil (Radiology 1982).
    """
    within("area", area, 0.0, 1.0)
    members, nonmembers = count("members", members, 1), count("nonmembers", nonmembers, 1)
    q1, q2 = area / (2 - area), 2 * area**2 / (1 + area)
    spread = area * (1 - area) + (members - 1) * (q1 - area**2) + (nonmembers - 1) * (q2 - area**2)
    return math.sqrt(max(0.0, spread) / (members * nonmembers))


def tpr_at_fpr(member: npt.ArrayLike, nonmember: npt.ArrayLike, fpr: float) -> float:
    """Largest observed true-positive rate with a false-positive rate of at most `fpr`, in [0, 1].

    A point estimate; scores and errors are those of `roc`.

    Reference:
        Carlini et al., "Membership inference attacks from first principles" (IEEE S&P 2022).
    """
    within("fpr", fpr, 0.0, 1.0)
    x, y, _ = roc(member, nonmember)
    return float(y[x <= fpr].max())


def pair_accuracies(member: npt.ArrayLike, nonmember: npt.ArrayLike) -> Floats:
    """Share of right guesses about each pair, at the threshold that is best for the other pairs:
    one that is chosen and evaluated on the same scores overestimates the accuracy."""
    above = _pairs_above(member, nonmember)
    right = (1 + above[0] - above[1]) / 2
    others = right.sum(0) - right if len(right) > 1 else right
    return np.asarray(right[np.arange(len(right)), others.argmax(1)])


def rates_without_each(member: npt.ArrayLike, nonmember: npt.ArrayLike) -> Floats:
    """Rates of all pairs, and of all but one (the jackknife), each at its best threshold."""
    above = _pairs_above(member, nonmember)
    total, pairs = above.sum(1, keepdims=True), above.shape[1]
    left = total - above if pairs > 1 else above
    means = np.concatenate([total / pairs, left / max(1, pairs - 1)], 1)
    best = (means[0] - means[1]).argmax(1)
    return np.asarray(means[:, np.arange(pairs + 1), best].T)


def _pairs_above(member: npt.ArrayLike, nonmember: npt.ArrayLike) -> Floats:
    """(2, pairs, levels) share of each context's scores above each level."""
    m, n = np.asarray(member, float), np.asarray(nonmember, float)
    every = np.sort(np.concatenate([m.ravel(), n.ravel()]))
    at = np.linspace(0, every.size - 1, LEVELS).astype(int)
    levels = np.r_[-math.inf, np.unique(every[at])]
    return np.array([_shares_above(m, levels), _shares_above(n, levels)])


def _shares_above(groups: Iterable[Floats], levels: Floats) -> Floats:
    """(groups, levels) share of each group's scores above each level."""
    return np.stack(
        [1 - np.searchsorted(np.sort(one, None), levels, "right") / one.size for one in groups]
    )


@dataclass(frozen=True, slots=True)
class RateAtFpr:
    """The largest true-positive rate at a false-positive rate of at most `fpr`."""

    fpr: float
    tpr: float
    low: float
    high: float


BLOCKS = 400  # largest number of blocks of pairs that are resampled
RESAMPLES = 1000  # gives the ends of a 95 % interval to about a tenth of its width
RATES = np.geomspace(1e-4, 1.0, 200)  # shares of canary-out scores above the thresholds tried


def rate_at_fpr(
    member: npt.ArrayLike, nonmember: npt.ArrayLike, fpr: float, confidence: float = 0.95
) -> RateAtFpr:
    """The true-positive rate at a low false-positive rate, from scores of paired trials.

    The ends of the interval are percentiles of bootstrap resamples of the paired trials, each at
    the threshold that is best for it, which makes the rate optimistic. It cannot account for
    canary-out scores rarer than one in the number of pairs: at an `fpr` below 1 / pairs it reflects
    only the noise of the outputs at hand, and is [0, 1] if each pair has one output.

    Reference: Carlini et al., "Membership inference attacks from first principles" (IEEE S&P 2022).
    """
    within("fpr", fpr, 0.0, 1.0)
    within("confidence", confidence, 0.0, 1.0)
    above, over = _block_shares(np.asarray(member, float), np.asarray(nonmember, float))
    tail, blocks = (1 - confidence) / 2, len(above)
    drawn = np.random.default_rng(0).multinomial(blocks, np.full(blocks, 1 / blocks), RESAMPLES)
    found = _best(drawn / blocks @ above, drawn / blocks @ over, fpr)
    (tpr,) = _best(above.mean(0)[None], over.mean(0)[None], fpr)
    low, high = np.quantile(found, [tail, 1 - tail])
    others = np.asarray(nonmember)
    if others.size == len(others) and fpr * others.size < 1:  # too few outputs for such a rate
        low, high = 0.0, 1.0
    return RateAtFpr(fpr, *(round(float(one), 6) for one in (tpr, min(low, tpr), max(high, tpr))))


def _block_shares(member: Floats, nonmember: Floats) -> tuple[Floats, Floats]:
    """(blocks, thresholds) shares of scores above each threshold, for both contexts."""
    every = np.sort(nonmember.ravel())
    at = np.maximum(np.ceil(every.size * (1 - RATES)) - 1, 0).astype(int)
    levels = np.r_[-math.inf, np.unique(np.r_[every[at], every[-1]])]
    above, over = (
        _shares_above(np.array_split(scores, min(len(scores), BLOCKS)), levels)
        for scores in (member, nonmember)
    )
    return above, over


def _best(above: Floats, over: Floats, fpr: float) -> Floats:
    """(rows,) largest share of members where that of non-members is at most `fpr`."""
    return np.asarray(np.where(over <= fpr + 1e-12, above, 0.0).max(1))


@dataclass(frozen=True, slots=True)
class Fixed:
    """Member if score >= value. The value is chosen before any trial is seen."""

    value: float = 0.5

    def __post_init__(self) -> None:
        if math.isnan(self.value):
            raise UsageError("value is NaN; it must be a number.")

    def __str__(self) -> str:
        return f"fixed at {self.value:g}"


@dataclass(frozen=True, slots=True)
class Split:
    """Chosen on the first pairs, which no bound then uses.

    Attributes:
        fraction: Share of the pairs that choose the threshold, in [0.01, 0.9].
    """

    fraction: float = 0.2

    def __post_init__(self) -> None:
        within("fraction", self.fraction, 0.01, 0.9)

    def __str__(self) -> str:
        return f"split: chosen on the first {self.fraction:.0%} of the pairs, which enter no bound"


@dataclass(frozen=True, slots=True)
class BestOnSameData:
    """Chosen on the tested trials. Valid for point estimates only, never for a bound."""

    def __str__(self) -> str:
        return "best on the tested data (point estimates only)"


@dataclass(frozen=True, slots=True)
class Bonferroni:
    """Every one of k predefined thresholds is tried, each at confidence 1 - alpha/k.

    Attributes:
        values: The thresholds. If empty, the levels of the score are used.
    """

    values: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        numbers("thresholds", self.values)

    def __str__(self) -> str:
        return (
            f"best of {len(self.values) or 'several'} thresholds fixed beforehand, each at its "
            "share of the error (Bonferroni)"
        )


ThresholdRule = Fixed | Split | Bonferroni | BestOnSameData


# A bound from (tp, fn, fp, tn, delta, confidence, threshold), such as `clopper_pearson` or `gdp`.
FromCounts = Callable[..., Estimate]


def bonferroni(
    estimator: FromCounts,
    member: npt.ArrayLike,
    nonmember: npt.ArrayLike,
    thresholds: Sequence[float],
    delta: float,
    confidence: float = 0.95,
) -> Estimate:
    """The best bound over thresholds fixed beforehand: the largest mu, or else epsilon.

    Each of the k bounds is taken at confidence 1 - (1 - confidence)/k, so all hold together.

    Args:
        estimator: The bound from error counts, `clopper_pearson` or `gdp`.
        member: Scores of the canary-in context; "member" if score >= threshold.
        nonmember: Scores of the canary-out context.
        thresholds: At least one threshold, fixed before the scores were seen.

    Raises:
        UsageError: If there is no threshold, or a score or threshold is NaN.

    Guarantee:
        Exceeds the truth with probability at most 1 - confidence (Bonferroni).

    Examples:
        >>> from leakbound.stats import clopper_pearson
        >>> found = bonferroni(clopper_pearson, [1.0] * 99, [0.0] * 99, [0.2, 0.5], delta=0.0)
        >>> found.confidence, round(found.epsilon, 2)
        (0.95, 3.1)
    """
    rule = Bonferroni(tuple(numbers("thresholds", thresholds).tolist()))
    if not rule.values:
        raise UsageError(
            "bonferroni got no thresholds; it needs at least one, chosen before the trials were "
            "seen."
        )
    m, n = clean_scores("member", member), clean_scores("nonmember", nonmember)
    each = 1 - (1 - confidence_level(confidence)) / len(rule.values)
    found = []
    for tau in rule.values:
        cells = error_cells(m, n, tau)
        found.append(estimator(*cells, delta, each, f"{rule} (tau = {tau:g})"))
    best = max(found, key=lambda e: (e.mu or 0.0, e.epsilon or 0.0))
    return replace(best, confidence=confidence)


def error_cells(member: Floats, nonmember: Floats, tau: float) -> tuple[int, int, int, int]:
    """(tp, fn, fp, tn) of the rule "member if score >= tau"."""
    tp, fp = int((member >= tau).sum()), int((nonmember >= tau).sum())
    return tp, member.size - tp, fp, nonmember.size - fp


def best_threshold(member: npt.ArrayLike, nonmember: npt.ArrayLike) -> float:
    """The threshold with the best balanced accuracy, halfway to the next lower score.

    Arguments and errors are those of `roc`.

    Examples:
        >>> best_threshold([3.0, 4.0], [0.0, 1.0])
        2.0
    """
    fpr, tpr, thresholds = roc(member, nonmember)
    best = 1 + int(np.argmax((tpr - fpr)[1:]))
    top, below = map(float, thresholds[[best, min(best + 1, thresholds.size - 1)]])
    halfway = top / 2 + below / 2
    return top if math.isnan(halfway) else halfway
