"""What the papers compute from an audit, beside the bound that this package certifies."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import scipy

from leakbound.auditing import AuditResult
from leakbound.errors import UsageError
from leakbound.privacy import gdp_epsilon
from leakbound.stats import cut, exact_privacy_loss, gdp
from leakbound.tasks import Aggregate, Mechanism
from leakbound_lab.reproduce.values import MeasuredValue, Quantity, Sample

PAIR = "paired trial"


def percent(
    setting: str,
    quantity: str,
    share: float,
    sample: Sample | None = None,
    ceiling: float | None = None,
    exact: bool = False,
) -> MeasuredValue:
    """A share as a value in percent, with one decimal."""
    shown = f"{100 * share:.1f}"
    return MeasuredValue(setting, quantity, 100 * share, shown, sample, ceiling, exact)


def accuracy_ceiling(result: AuditResult) -> float:
    """Largest accuracy of any attack on this mechanism, according to its guarantee."""
    found, delta = result.guarantee, result.claim.delta
    if found.mu is not None:
        return 100 * float(scipy.special.ndtr(found.mu / 2))
    if math.isinf(found.epsilon):
        return 100.0
    return 100 * min(1.0, (1 + delta * math.exp(-found.epsilon)) / (1 + math.exp(-found.epsilon)))


def pair_sample(result: AuditResult) -> Sample | None:
    """How well simulated outputs tell the contexts of each pair apart, as a sample."""
    if not result.by_pair:
        return None
    return Sample(
        tuple(100 * share for share in result.by_pair),
        unit=PAIR,
        drawn=f"{len(result.by_pair)} pairs of seed {result.spec['seed']}",
        what="right guesses, %",
        ceiling=accuracy_ceiling(result),
    )


def epsilon_sample(result: AuditResult) -> Sample | None:
    """What each pair adds to the estimate of `bootstrap_epsilon`, as a sample."""
    if not result.by_pair:
        return None
    n = len(result.by_pair)
    every, *without = (_bootstrap(result, *rates) for rates in result.without_each)
    return Sample(
        tuple(n * every - (n - 1) * one for one in without), PAIR,
        f"{n} pairs of seed {result.spec['seed']}", what="what each pair adds",
    )  # fmt: skip


def accuracy_leak(setting: str, result: AuditResult) -> Iterator[MeasuredValue]:
    """The leakage as ContextLeak computes it: accuracy at the best threshold, and its log odds."""
    tpr, fpr = _best_rates(result)
    accuracy = (tpr + 1 - fpr) / 2
    odds = math.log(accuracy / (1 - accuracy)) if accuracy < 1 else math.inf
    sample, ceiling = pair_sample(result), accuracy_ceiling(result)
    yield percent(setting, Quantity.AUDITING_ACCURACY, accuracy, sample, ceiling)
    shown = "∞" if math.isinf(odds) else f"{odds:.2f}"
    yield MeasuredValue(setting, Quantity.LOG_ODDS, odds, shown, sample)
    yield _bound(setting, result)


def gaussian_leak(setting: str, result: AuditResult) -> Iterator[MeasuredValue]:
    """The leakage as XL computes it: resampled outputs as independent trials, through μ."""
    resampled, (tpr, fpr) = bootstrap_epsilon(result), _best_rates(result)
    sample, ceiling = pair_sample(result), accuracy_ceiling(result)
    guaranteed, added = result.guarantee.epsilon, epsilon_sample(result)
    shown = f"{resampled:.2f}"
    yield MeasuredValue(setting, Quantity.RESAMPLED, resampled, shown, added, guaranteed)
    yield percent(setting, Quantity.AUDITING_ACCURACY, (tpr + 1 - fpr) / 2, sample, ceiling)
    implied = gdp_epsilon(result.mu_bound.mu or 0.0, result.claim.delta)
    yield MeasuredValue(setting, Quantity.FROM_MU, implied, f"≥ {cut(implied)}")
    yield _bound(setting, result)


def _bound(setting: str, result: AuditResult) -> MeasuredValue:
    value = result.bound.epsilon or 0.0
    return MeasuredValue(setting, Quantity.BOUND, value, f"≥ {cut(value)}")


def bootstrap_epsilon(result: AuditResult) -> float:
    """XL, Algorithm 1: simulated outputs of the collected aggregates as independent trials."""
    return _bootstrap(result, *_best_rates(result))


def _bootstrap(result: AuditResult, tpr: float, fpr: float) -> float:
    n = result.curves.outputs // 2
    tp, fp = round(tpr * n), round(fpr * n)
    return gdp(tp, n - tp, fp, n - fp, result.claim.delta).details["implied_epsilon"]


def exact_epsilon(mechanism: Mechanism, one: Aggregate, other: Aggregate, delta: float) -> float:
    """The exact privacy loss between two aggregates."""
    first, second = mechanism.output_distribution(one), mechanism.output_distribution(other)
    if first is None or second is None:
        raise UsageError(f"{mechanism.name} does not know the distribution of its outputs.")
    return exact_privacy_loss(first, second, delta).epsilon or 0.0


def _best_rates(result: AuditResult) -> tuple[float, float]:
    """(TPR, FPR) at the largest difference."""
    tpr, fpr = np.array(result.curves.tpr), np.array(result.curves.fpr)
    at = int((tpr - fpr).argmax())
    return float(tpr[at]), float(fpr[at])
