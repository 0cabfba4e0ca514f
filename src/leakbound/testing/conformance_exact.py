"""Laws about exact numbers:

how far neighbours move, how much a pair of release laws loses, whether the claim is reached.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from leakbound.privacy import BoundedRange, Gaussian
from leakbound.stats import CategoricalLaw, GaussianLaw, exact_privacy_loss
from leakbound.tasks import Job
from leakbound.testing.conformance_parts import (
    TWO,
    Bench,
    Broken,
    Family,
    Puppet,
    Skipped,
    values_of,
)

__all__ = ["loss", "sensitivity", "tightness"]

Floats = npt.NDArray[np.float64]
SLACK = 1 + 1e-9
DELTAS = (0.0, 1e-6, 1e-3)
REACHED = 0.95


def sensitivity(bench: Bench) -> str:
    """Clean aggregates of neighbours differ by at most what the guarantee declares, whatever the
    model says.
    """
    promise, worst = bench.promised(), 0.0
    laws_seen = False
    for family in bench.families():
        statements = _finite(bench.mechanism, family)
        if statements is None:
            continue
        laws_seen, (left, right) = True, (statements[family.pairs[:, i]] for i in (0, 1))
        moved = float(_distance(promise, left, right).max())
        worst, limit = max(worst, moved), _declared(promise)
        if moved > limit * SLACK + 1e-9:
            raise Broken(
                f"neighbours under {family.pattern!r} differ by {moved:.6g}, declared is "
                f"{limit:.6g}"
            )
    if not laws_seen:
        raise Skipped("no law")
    return f"neighbours differ by at most {worst:.6g} of {_declared(promise):.6g}"


def _declared(promise: Any) -> float:
    if isinstance(promise, Gaussian):
        return promise.sensitivity
    return promise.value if isinstance(promise, BoundedRange) else float(promise.epsilon(0.0))


def _distance(promise: Any, left: Floats, right: Floats) -> Floats:
    """Gaussian: L2. Bounded range:

    of the difference of log-probabilities. Others: their largest difference.
    """
    gap = np.where(left == right, 0.0, left - right)
    if isinstance(promise, Gaussian):
        return np.asarray(np.linalg.norm(gap, axis=1))
    return np.asarray(
        gap.max(1) - gap.min(1) if isinstance(promise, BoundedRange) else np.abs(gap).max(1)
    )


def _finite(mechanism: Any, family: Family) -> Floats | None:
    """(cleans, dim) of what is noised, or ln of the probabilities of a release; None where neither
    is known.
    """
    rng = np.random.default_rng(0)
    rows: list[Floats] = []
    for aggregate in family.cleans:
        law, numbers = mechanism.output_distribution(aggregate), values_of(aggregate)
        noisy = (
            None
            if law is not None or numbers is None
            else mechanism.release(aggregate, 1, rng).noisy
        )
        shown = (
            law.probabilities
            if isinstance(law, CategoricalLaw)
            else numbers
            if law is not None
            else noisy
        )
        if shown is None:
            return None
        if not np.isfinite(shown).all():
            raise Broken(
                f"a release under {family.pattern!r} is not finite: it shows what the model said"
            )
        if law is not None or isinstance(mechanism.guarantee, Gaussian):
            rows.append(
                np.log(shown) if isinstance(law, CategoricalLaw) else np.asarray(numbers, float)
            )
    return np.stack(rows) if rows else None


def loss(bench: Bench) -> str:
    """The exact loss of a pair of laws never exceeds epsilon(delta)."""
    promise, largest, count = bench.promised(), 0.0, 0
    limits = {delta: e for delta in DELTAS if math.isfinite(e := promise.epsilon(delta))}
    for family in bench.families():
        laws = [bench.mechanism.output_distribution(aggregate) for aggregate in family.cleans]
        if None in laws:
            raise Skipped("no law")
        one, other = family.pairs[_worst(laws, family.pairs)]
        count += len(family.pairs)
        if isinstance(laws[0], CategoricalLaw) and (excess := _excess(laws, family.pairs, limits)):
            raise Broken(f"under {family.pattern!r} {excess}")
        for delta, limit in limits.items():
            found = exact_privacy_loss(laws[one], laws[other], delta).epsilon or 0.0
            if not found <= limit * SLACK + 1e-9:
                raise Broken(
                    f"a pair under {family.pattern!r} loses {found:.6g} at δ={delta:g}, declared "
                    f"{limit:.6g}"
                )
            largest = max(largest, found / limit if limit else 0.0)
    return f"{count} pairs lose at most {largest:.2%} of what is declared"


def _worst(laws: Sequence[Any], pairs: npt.NDArray[np.int64]) -> int:
    """The pair whose means lie farthest apart, or whose log-probabilities do."""
    gaussian = isinstance(laws[0], GaussianLaw)
    rows = np.stack([law.mean if gaussian else np.log(law.probabilities) for law in laws])
    left, right = rows[pairs[:, 0]], rows[pairs[:, 1]]
    gap = np.where(left == right, 0.0, left - right)
    return int((np.linalg.norm(gap, axis=1) if gaussian else np.abs(gap).max(1)).argmax())


def _excess(laws: Sequence[Any], pairs: npt.NDArray[np.int64], limits: dict[float, float]) -> str:
    """The worst delta over all pairs and both directions, where it is above the declared one; else
    "".
    """
    rows = np.stack([law.probabilities for law in laws])
    p, q = rows[pairs[:, 0]], rows[pairs[:, 1]]
    for delta, limit in limits.items():
        slope = math.exp(min(limit, 700.0))
        found = float(max(np.maximum(a - slope * b, 0).sum(1).max() for a, b in ((p, q), (q, p))))
        if not found <= delta * SLACK + 1e-9 * slope * float(rows.max()):
            return f"a pair has δ = {found:.3g} at ε = {limit:.6g}, declared {delta:g}"
    return ""


def tightness(bench: Bench) -> str:
    """The pair built to hurt reaches the declared epsilon:

    all say one thing, and one example turns one of them.
    """
    promise, (task, query) = bench.promised(), TWO
    jobs = [bench.job(query), bench.job(query, flip=True)]
    if promise.relation == "add_remove":
        jobs[0] = Job(jobs[1].context[:-1], query)
    cleans = bench.mechanism.collect(
        task, jobs, [bench.seed] * 2, Puppet("agree", bench.seed, query.labels)
    )
    laws = [bench.mechanism.output_distribution(aggregate) for aggregate in cleans]
    if None in laws:
        raise Skipped("no law")
    delta = 0.0 if math.isfinite(promise.epsilon(0.0)) else 1e-6
    found, declared = exact_privacy_loss(laws[0], laws[1], delta).epsilon or 0.0, promise.epsilon(delta)
    if found < REACHED * declared:
        raise Broken(
            f"loose: the worst pair loses {found:.6g} at δ={delta:g}, declared {declared:.6g}"
        )
    return f"the worst pair loses {found:.6g} at δ={delta:g}, declared {declared:.6g}"
