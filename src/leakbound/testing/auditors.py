"""Defects of auditors and of influence measures, each beside its correct reference."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from leakbound.stats import accuracy_bound, best_threshold, clopper_pearson
from leakbound.testing.auditor import AuditorFinding, Floats, Rng

# Audits of a system without leakage, and the share of them that may find some: a defective auditor
# finds it in far more than twice as many, a correct one in 10 % of 200 with probability below 1e-2.
AUDITS, LIMIT = 200, 0.05


def _false_alarms(name: str, found: int) -> AuditorFinding:
    """Defective: finds leakage where there is none far more often than it says."""
    share = found / AUDITS
    return AuditorFinding(
        share > 2 * LIMIT,
        0,
        f"{name}: leakage found in {share:.0%} of {AUDITS} audits of a system without any",
    )


def threshold_reuse(broken: bool, rng: Rng) -> AuditorFinding:
    """The threshold is picked on the tested scores; the correct auditor picks it on others."""
    found = 0
    for _ in range(AUDITS):
        m, n, m0, n0 = rng.normal(size=(4, 100))
        found += _right(m, n, best_threshold(m, n) if broken else best_threshold(m0, n0))
    return _false_alarms("threshold on the tested data", found)


def _right(member: Floats, nonmember: Floats, tau: float) -> bool:
    """Does the accuracy bound speak of leakage?"""
    right = int((member >= tau).sum() + (nonmember < tau).sum())
    return (accuracy_bound(right, len(member) + len(nonmember)).epsilon or 0.0) > 0


def resample_then_cp(broken: bool, rng: Rng) -> AuditorFinding:
    """400,000 noisy trials from 200 collected votes count as independent (XL's bootstrap)."""
    found, n = 0, 200_000 if broken else 200
    for _ in range(AUDITS):
        votes = rng.binomial(4, 0.1, (2, 200)).astype(float)
        if broken:  # trials at or above 1: each is one of the votes, drawn anew, and fresh noise
            tp, fp = rng.binomial(n, ndtr(votes - 1.0).mean(1)).tolist()
        else:
            tp, fp = (votes + rng.normal(0, 1.0, votes.shape) >= 1.0).sum(1).tolist()
        found += (clopper_pearson(tp, n - tp, fp, n - fp).epsilon or 0.0) > 0
    return _false_alarms("resampled trials counted as collected ones", found)


TABLE = np.log(
    np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]])
)  # with and without the context


def index_shift(broken: bool, rng: Rng) -> AuditorFinding:
    """Token 0 is banned; removing its column before indexing reads the neighbour's probability."""
    token = 1
    want = abs(_banned(TABLE[0])[token] - _banned(TABLE[1])[token])
    if broken:
        short = [row[1:] - np.log(np.exp(row[1:]).sum()) for row in TABLE]
        got = abs(short[0][token] - short[1][token])
    else:
        got = abs(_banned(TABLE[0])[token] - _banned(TABLE[1])[token])
    return AuditorFinding(abs(got - want) > 1e-6, 0, f"τ = {got:.4f}, by hand {want:.4f}")


def _banned(row: Floats) -> Floats:
    masked = np.where(np.arange(4) == 0, -np.inf, row)
    return np.asarray(masked - np.log(np.exp(masked).sum()))


def first_token_drop(broken: bool, rng: Rng) -> AuditorFinding:
    """The first response token is dropped as if it were a start token: its influence is lost."""
    response = [3, 1, 2]
    each = [abs(float(TABLE[0][t] - TABLE[1][t])) for t in response]
    got = sum(each[1:]) if broken else sum(each)
    return AuditorFinding(
        abs(got - sum(each)) > 1e-6, 0, f"τ of the response = {got:.4f}, by hand {sum(each):.4f}"
    )
