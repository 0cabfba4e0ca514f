"""What the papers read out of an audit, beside the bound that this package stands by."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from leakbound.auditing import AuditResult
from leakbound.privacy import gdp_epsilon
from leakbound.reproduce.recipe import Measured
from leakbound.stats import cut, gdp

__all__ = [
    "ACCURACY",
    "BOOTSTRAP",
    "BOUND",
    "FROM_MU",
    "ODDS",
    "accuracy_leak",
    "gaussian_leak",
    "published_epsilon",
]

ACCURACY = "auditing accuracy, %"
ODDS = "ε by log odds (point estimate)"
BOOTSTRAP = "ε by resampled trials (point estimate)"
FROM_MU = "ε of the bound on μ, if Gaussian"
BOUND = "ε ≥, 95 %"


def accuracy_leak(setting: str, record: AuditResult) -> Iterator[Measured]:
    """As ContextLeak: the accuracy at the best threshold over all releases, its log odds; then our
    bound.
    """
    tpr, fpr = _best(record)
    accuracy = (tpr + 1 - fpr) / 2
    odds = math.log(accuracy / (1 - accuracy)) if accuracy < 1 else math.inf
    yield Measured(setting, ACCURACY, 100 * accuracy, f"{100 * accuracy:.1f}")
    yield Measured(setting, ODDS, odds, "∞" if math.isinf(odds) else f"{odds:.2f}")
    yield _bound(setting, record)


def gaussian_leak(setting: str, record: AuditResult) -> Iterator[Measured]:
    """As XL: Clopper-Pearson on resampled trials as if they were collected, through mu; then our
    bounds.
    """
    published = published_epsilon(record)
    yield Measured(setting, BOOTSTRAP, published, f"{published:.2f}")
    implied = gdp_epsilon(record.mu_bound.mu or 0.0, record.claim.delta)
    yield Measured(setting, FROM_MU, implied, f"≥ {cut(implied)}")
    yield _bound(setting, record)


def _bound(setting: str, record: AuditResult) -> Measured:
    value = record.bound.epsilon or 0.0
    return Measured(setting, BOUND, value, f"≥ {cut(value)}")


def published_epsilon(record: AuditResult) -> float:
    """XL, Algorithm 1: the simulated releases of the collected answers count as independent trials.

    It carries no confidence.
    """
    (tpr, fpr), n = _best(record), record.curves.outputs // 2
    tp, fp = round(tpr * n), round(fpr * n)
    return gdp(tp, n - tp, fp, n - fp, record.claim.delta).epsilon or 0.0


def _best(record: AuditResult) -> tuple[float, float]:
    """(TPR, FPR) where their difference is largest."""
    tpr, fpr = np.array(record.curves.tpr), np.array(record.curves.fpr)
    at = int((tpr - fpr).argmax())
    return float(tpr[at]), float(fpr[at])
