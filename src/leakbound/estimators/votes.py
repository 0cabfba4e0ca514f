"""The clean road (internal):

bounds and exact losses from votes and the declared law of the release, nothing sampled.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from leakbound.auditing.design import Pair
from leakbound.auditing.store import EvidenceRow
from leakbound.mechanisms import ReportNoisyMax
from leakbound.stats import (
    CategoricalLaw,
    Estimate,
    GaussianLaw,
    VoteScores,
    exact_privacy_loss,
    joint_votes,
    privacy_profile,
    vote_band,
)
from leakbound.tasks import Aggregate, Mechanism, Task, Votes

__all__ = ["Profile", "clean_estimates", "has_votes", "profile", "vote_reach"]

Floats = npt.NDArray[np.float64]
Law = GaussianLaw | CategoricalLaw
Laws = tuple[Any, Any]  # laws, or None where none is declared
KNOWN = 1024  # curves held at once
GREEDY = "the model answers a prompt in the same way every time"


@dataclass(frozen=True, slots=True)
class Profile:
    """delta(epsilon) of the pairs, exactly:

    the mean over pairs, and the worst pair at each epsilon.
    """

    epsilon: tuple[float, ...]
    mean: tuple[float, ...]
    worst: tuple[float, ...]


def has_votes(mechanism: Mechanism, pairs: Sequence[Pair]) -> bool:
    """Does the mechanism release votes under Gaussian noise, and the query ask for one of two
    answers?
    """
    return isinstance(mechanism, ReportNoisyMax) and all(
        pair.asked.nonmember is not None for pair in pairs
    )


def clean_estimates(
    task: Task, mechanism: Mechanism, pairs: Sequence[Pair], evidence: Iterable[EvidenceRow], delta: float, confidence: float
) -> list[Estimate]:  # fmt: skip
    """`vote_band` and `joint_votes` of the votes for the member answer less those for the other,
    and `exact` of the worst pair.

    Empty where the mechanism declares no law.
    """
    if not _lawful(mechanism, evidence):
        return []
    bounds = (
        _bounds(task, mechanism, pairs, evidence, delta, confidence)
        if has_votes(mechanism, pairs)
        else []
    )
    return [*bounds, _worst(_laws(mechanism, evidence), delta)]


def _lawful(mechanism: Mechanism, evidence: Iterable[EvidenceRow]) -> bool:
    """Does the mechanism declare the law of every release?"""
    return all(law is not None for pair in _laws(mechanism, evidence) for law in pair)


def _laws(mechanism: Mechanism, evidence: Iterable[EvidenceRow]) -> Iterator[Laws]:
    """Of both worlds of every pair."""
    for row in evidence:
        yield (
            mechanism.output_distribution(row.member),
            mechanism.output_distribution(row.nonmember),
        )


def vote_reach(
    method: str, sigma: float, votes: int, pairs: int, delta: float, confidence: float
) -> tuple[float, float]:
    """(epsilon, mu) that a canary noticed in every pair, in a crowd that votes against it,
    certifies with so many pairs.
    """
    scores = VoteScores.margin(votes, sigma)
    found = _by(
        method,
        np.full(pairs, 2.0 - votes),
        np.full(pairs, -float(votes)),
        scores,
        delta,
        confidence,
    )
    return found.epsilon or 0.0, found.mu or 0.0


def _by(
    method: str, m: Floats, n: Floats, scores: VoteScores, delta: float, confidence: float
) -> Estimate:
    if method == "joint_votes":
        return joint_votes(m, n, scores, delta, confidence)
    return vote_band(
        m - scores.low, n - scores.low, scores.high - scores.low, scores.sigma, delta, confidence
    )


def _bounds(
    task: Task, mechanism: Mechanism, pairs: Sequence[Pair], evidence: Iterable[EvidenceRow], delta: float, confidence: float
) -> list[Estimate]:  # fmt: skip
    first = next(iter(evidence)).member
    law = mechanism.output_distribution(first)
    assert isinstance(law, GaussianLaw)
    m, n = _margins(task, pairs, evidence)
    scores = VoteScores.margin(
        sum(_counts(first)), law.sigma, shared=bool(np.abs(m - n).max() <= 2)
    )
    return [_by(method, m, n, scores, delta, confidence) for method in ("vote_band", "joint_votes")]


def _margins(
    task: Task, pairs: Sequence[Pair], evidence: Iterable[EvidenceRow]
) -> tuple[Floats, Floats]:
    """Votes for the member answer less those for the non-member answer, of both worlds of every
    pair.
    """
    out = np.empty((2, len(pairs)))
    for at, (pair, row) in enumerate(zip(pairs, evidence, strict=True)):
        answers = task.answers(pair.asked.query)
        yes, no = (answers.index(str(name)) for name in (pair.asked.member, pair.asked.nonmember))
        out[:, at] = [
            _counts(votes)[yes] - _counts(votes)[no] for votes in (row.member, row.nonmember)
        ]
    return out[0], out[1]


def _counts(aggregate: Aggregate) -> tuple[int, ...]:
    assert isinstance(aggregate, Votes)
    return aggregate.counts


def _worst(laws: Iterable[Laws], delta: float) -> Estimate:
    worst, losses = None, []
    for one, other in laws:
        found = exact_privacy_loss(one, other, delta)
        losses.append(found.epsilon or 0.0)
        if worst is None or losses[-1] > (worst.epsilon or 0.0):
            worst = found
    assert worst is not None
    details = {
        "mean_epsilon": float(np.mean(losses)),
        "pairs_without_loss": float(np.sum(np.array(losses) == 0)),
    }
    return replace(
        worst, counts={"pairs": len(losses)}, assumptions=(*worst.assumptions, GREEDY), details=details,
        threshold="none: the law of both worlds is known; the worst pair",
    )  # fmt: skip


def profile(
    mechanism: Mechanism, evidence: Iterable[EvidenceRow], claimed: float
) -> Profile | None:
    """The exact privacy profile of the pairs from epsilon 0 to twice the claim; None where no law
    is declared.
    """
    if not _lawful(mechanism, evidence):
        return None
    grid = np.linspace(0.0, 2 * min(claimed, 20.0), 41)
    known: dict[tuple[bytes, ...], Floats] = {}
    total, worst, pairs = np.zeros(len(grid)), np.zeros(len(grid)), 0
    for laws in _laws(mechanism, evidence):
        curve = _curve(laws, grid, known)
        total, worst, pairs = total + curve, np.maximum(worst, curve), pairs + 1
    return Profile(_rounded(grid), _rounded(total / pairs), _rounded(worst))


def _curve(pair: Laws, grid: Floats, known: dict[tuple[bytes, ...], Floats]) -> Floats:
    """Pairs of equal laws share one curve, as long as there are few different ones."""
    key = tuple(
        law.mean.tobytes() if isinstance(law, GaussianLaw) else law.probabilities.tobytes()
        for law in pair
    )
    if key not in known:
        if len(known) >= KNOWN:
            known.clear()
        known[key] = np.array([privacy_profile(pair[0], pair[1], float(e)) for e in grid])
    return known[key]


def _rounded(values: Floats) -> tuple[float, ...]:
    """Twelve digits, rounded up."""
    return tuple(math.ceil(float(v) * 1e12) / 1e12 for v in values)
