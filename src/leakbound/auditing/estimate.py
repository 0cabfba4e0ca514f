"""From trials to statements by a threshold:

the rule that sets it, error counts, bounds and point estimates.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from leakbound.auditing.release import Trials
from leakbound.auditing.verdict import Claim
from leakbound.errors import UsageError
from leakbound.stats import (
    BestOnSameData,
    Bonferroni,
    Estimate,
    Fixed,
    Split,
    ThresholdRule,
    accuracy_bound,
    accuracy_log_odds,
    best_threshold,
    bonferroni,
    clopper_pearson,
    gdp,
    joint_beta,
)

__all__ = ["each_confidence", "estimate", "pilot_pairs", "threshold_rule"]

RULES = "a number, 'split', 'split:0.3', 'bonferroni' or 'best'"


def threshold_rule(text: str | float | None, default: ThresholdRule) -> ThresholdRule:
    """The rule that a setting names:

    a number, split[:fraction], bonferroni, best; None: the score's own.
    """
    name, _, fraction = str(text).partition(":")
    if text is None:
        return default
    try:
        if name == "split":
            return Split(float(fraction)) if fraction else Split()
        if fraction == "" and name in ("bonferroni", "best"):
            return Bonferroni() if name == "bonferroni" else BestOnSameData()
        return Fixed(float(text))
    except UsageError:
        raise
    except ValueError:
        raise UsageError(f"the threshold is {text!r}; it must be {RULES}.") from None


def estimate(
    simulated: Callable[[slice], Trials],
    trials: Trials,
    rule: ThresholdRule,
    claim: Claim,
    confidence: float,
    levels: npt.NDArray[np.float64],
    taught: int = 0,
) -> list[Estimate]:
    """All estimates of one score from one release a world.

    simulated: releases of some pairs, to choose a threshold on; levels: the score's own thresholds,
    for Bonferroni; taught: pairs
    that taught the score, which enter no bound either. Empty where an audit stopped before there
    were pairs to choose a threshold on.
    """
    if isinstance(rule, Bonferroni):
        return _tried(
            trials.part(slice(taught, None)),
            rule.values or tuple(levels.tolist()),
            claim,
            confidence,
        )
    if isinstance(rule, BestOnSameData):
        tau = best_threshold(trials.member[:, 0], trials.nonmember[:, 0])
        return [accuracy_log_odds(*_right(trials, tau), claim.delta, f"{rule} (tau = {tau:g})")]
    if isinstance(rule, Split) and int(len(trials.member) * rule.fraction) < 1:
        return []  # an audit that stopped early: too few pairs to choose a threshold on
    pilot = pilot_pairs(rule, len(trials.member))
    tau = rule.value if isinstance(rule, Fixed) else _chosen(simulated(pilot))
    tested = trials.first(slice(max(pilot.stop, taught), None))
    chosen = f"{rule} (tau = {tau:g})" if isinstance(rule, Split) else str(rule)
    cells, right = _cells(tested, tau), _right(tested, tau)
    return [
        clopper_pearson(*cells, claim.delta, confidence, chosen),
        gdp(*cells, claim.delta, confidence, chosen),
        accuracy_bound(*right, claim.delta, confidence, chosen),
        joint_beta(*cells, claim.delta, confidence, chosen),
        accuracy_log_odds(*right, claim.delta, chosen),
    ]


def _tried(
    trials: Trials, values: tuple[float, ...], claim: Claim, confidence: float
) -> list[Estimate]:
    worlds = trials.member[:, 0], trials.nonmember[:, 0]
    return [bonferroni(f, *worlds, values, claim.delta, confidence) for f in (clopper_pearson, gdp)]


def each_confidence(
    rule: ThresholdRule, levels: npt.NDArray[np.float64], confidence: float
) -> float:
    """The confidence of the limits at one threshold:

    higher than that of the bound where several are tried.
    """
    return (
        1 - (1 - confidence) / len(rule.values or levels)
        if isinstance(rule, Bonferroni)
        else confidence
    )


def pilot_pairs(rule: ThresholdRule, pairs: int) -> slice:
    """The pairs that choose the threshold, none for most rules; refused where they are too few."""
    if not isinstance(rule, Split):
        return slice(0, 0)
    size = int(pairs * rule.fraction)
    if size < 1 or size >= pairs:
        raise UsageError(
            f"{pairs} pairs leave none to choose a threshold on, or none to test ({rule}); use at "
            "least "
            f"{max(2, int(1 / rule.fraction))} pairs, or give --threshold."
        )
    return slice(0, size)


def _chosen(drawn: Trials) -> float:
    return best_threshold(drawn.member, drawn.nonmember)


def _cells(tested: Trials, tau: float) -> tuple[int, int, int, int]:
    n = len(tested.member)
    tp, fp = int((tested.member[:, 0] >= tau).sum()), int((tested.nonmember[:, 0] >= tau).sum())
    return tp, n - tp, fp, n - fp


def _right(tested: Trials, tau: float) -> tuple[int, int]:
    tp, _, _, tn = _cells(tested, tau)
    return tp + tn, 2 * len(tested.member)
