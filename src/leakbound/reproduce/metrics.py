"""What the papers read out of an audit, beside the bound that this package certifies."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from leakbound.auditing import AuditResult
from leakbound.errors import UsageError
from leakbound.privacy import gdp_epsilon
from leakbound.reproduce.values import MeasuredValue, Quantity
from leakbound.stats import cut, exact_privacy_loss, gdp
from leakbound.tasks import Aggregate, Mechanism

__all__ = ["accuracy_leak", "exact_epsilon", "gaussian_leak", "percent", "resampled_epsilon"]


def percent(setting: str, quantity: str, share: float) -> MeasuredValue:
    """A share as a value in percent, with one decimal.

    Args:
        setting: The row of the table.
        quantity: What is measured.
        share: From 0 to 1.

    Returns:
        The value.
    """
    return MeasuredValue(setting, quantity, 100 * share, f"{100 * share:.1f}")


def accuracy_leak(setting: str, result: AuditResult) -> Iterator[MeasuredValue]:
    """As ContextLeak reads an audit: the accuracy at the best threshold, and its log odds.

    Args:
        setting: The row of the table.
        result: The audit.

    Yields:
        Accuracy, log odds, and the lower bound of this package.
    """
    tpr, fpr = _best_rates(result)
    accuracy = (tpr + 1 - fpr) / 2
    odds = math.log(accuracy / (1 - accuracy)) if accuracy < 1 else math.inf
    yield percent(setting, Quantity.AUDITING_ACCURACY, accuracy)
    shown = "∞" if math.isinf(odds) else f"{odds:.2f}"
    yield MeasuredValue(setting, Quantity.LOG_ODDS, odds, shown)
    yield _bound(setting, result)


def gaussian_leak(setting: str, result: AuditResult) -> Iterator[MeasuredValue]:
    """As XL reads an audit: resampled outputs as if each were a trial, through μ.

    Args:
        setting: The row of the table.
        result: The audit.

    Yields:
        That point estimate, the ε of the bound on μ, and the lower bound of this package.
    """
    resampled = resampled_epsilon(result)
    yield MeasuredValue(setting, Quantity.RESAMPLED, resampled, f"{resampled:.2f}")
    implied = gdp_epsilon(result.mu_bound.mu or 0.0, result.claim.delta)
    yield MeasuredValue(setting, Quantity.FROM_MU, implied, f"≥ {cut(implied)}")
    yield _bound(setting, result)


def _bound(setting: str, result: AuditResult) -> MeasuredValue:
    value = result.bound.epsilon or 0.0
    return MeasuredValue(setting, Quantity.BOUND, value, f"≥ {cut(value)}")


def resampled_epsilon(result: AuditResult) -> float:
    """XL, Algorithm 1: simulated outputs of the collected aggregates count as independent trials.

    Args:
        result: The audit.

    Returns:
        An epsilon without a confidence.
    """
    (tpr, fpr), n = _best_rates(result), result.curves.outputs // 2
    tp, fp = round(tpr * n), round(fpr * n)
    return gdp(tp, n - tp, fp, n - fp, result.claim.delta).details["implied_epsilon"]


def exact_epsilon(mechanism: Mechanism, one: Aggregate, other: Aggregate, delta: float) -> float:
    """The exact loss between two aggregates.

    Args:
        mechanism: What releases them.
        one: The aggregate of one context.
        other: That of its neighbour.
        delta: At which epsilon is stated.

    Returns:
        epsilon(delta).

    Raises:
        UsageError: If the mechanism does not know its output distribution.
    """
    first, second = mechanism.output_distribution(one), mechanism.output_distribution(other)
    if first is None or second is None:
        raise UsageError(f"{mechanism.name} does not know the distribution of its outputs.")
    return exact_privacy_loss(first, second, delta).epsilon or 0.0


def _best_rates(result: AuditResult) -> tuple[float, float]:
    """(TPR, FPR) where their difference is largest."""
    tpr, fpr = np.array(result.curves.tpr), np.array(result.curves.fpr)
    at = int((tpr - fpr).argmax())
    return float(tpr[at]), float(fpr[at])
