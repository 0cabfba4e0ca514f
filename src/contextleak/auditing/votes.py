"""The clean road (internal): bounds and exact losses from votes and the declared law of the release, nothing sampled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from contextleak.auditing.design import Pair
from contextleak.auditing.store import EvidenceRow
from contextleak.icl import Clean, Mechanism, Task, Votes
from contextleak.mechanisms import ReportNoisyMax
from contextleak.stats import (
    CategoricalLaw,
    Estimate,
    GaussianLaw,
    VoteScores,
    exact_pair,
    joint_votes,
    pair_delta,
    vote_band,
)

__all__ = ["Profile", "clean_estimates", "has_votes", "profile", "vote_reach"]

Floats = npt.NDArray[np.float64]
Law = GaussianLaw | CategoricalLaw
Laws = tuple[Law, Law]
GREEDY = "the model answers a prompt in the same way every time"


@dataclass(frozen=True, slots=True)
class Profile:
    """delta(epsilon) of the pairs, exactly: the mean over pairs, and the worst pair at each epsilon."""

    epsilon: tuple[float, ...]
    mean: tuple[float, ...]
    worst: tuple[float, ...]


def has_votes(mechanism: Mechanism, pairs: Sequence[Pair]) -> bool:
    """Does the mechanism release votes under Gaussian noise, and the query ask for one of two answers?"""
    return isinstance(mechanism, ReportNoisyMax) and all(pair.asked.nonmember is not None for pair in pairs)


def clean_estimates(
    task: Task, mechanism: Mechanism, pairs: Sequence[Pair], evidence: Sequence[EvidenceRow], delta: float, confidence: float
) -> list[Estimate]:  # fmt: skip
    """`vote_band` and `joint_votes` of the votes for the member answer less those for the other, and `exact` of the worst pair.

    Empty where the mechanism declares no law.
    """
    laws = _laws(mechanism, evidence)
    if not laws:
        return []
    bounds = _bounds(task, mechanism, pairs, evidence, delta, confidence) if has_votes(mechanism, pairs) else []
    return [*bounds, _worst(laws, delta)]


def _laws(mechanism: Mechanism, evidence: Sequence[EvidenceRow]) -> list[Laws]:
    """Of both worlds of every pair; none where the mechanism declares none."""
    found = [(mechanism.law(row.member), mechanism.law(row.nonmember)) for row in evidence]
    return [] if any(law is None for pair in found for law in pair) else found  # type: ignore[return-value]


def vote_reach(
    method: str, sigma: float, votes: int, pairs: int, delta: float, confidence: float
) -> tuple[float, float]:
    """(epsilon, mu) that a canary noticed in every pair, in a crowd that votes against it, certifies with so many pairs."""
    scores = VoteScores.margin(votes, sigma)
    found = _by(method, np.full(pairs, 2.0 - votes), np.full(pairs, -float(votes)), scores, delta, confidence)
    return found.epsilon or 0.0, found.mu or 0.0


def _by(method: str, m: Floats, n: Floats, scores: VoteScores, delta: float, confidence: float) -> Estimate:
    if method == "joint_votes":
        return joint_votes(m, n, scores, delta, confidence)
    return vote_band(m - scores.low, n - scores.low, scores.high - scores.low, scores.sigma, delta, confidence)


def _bounds(
    task: Task, mechanism: Mechanism, pairs: Sequence[Pair], evidence: Sequence[EvidenceRow], delta: float, confidence: float
) -> list[Estimate]:  # fmt: skip
    law = mechanism.law(evidence[0].member)
    assert isinstance(law, GaussianLaw)
    m, n = _margins(task, pairs, evidence)
    votes = sum(_counts(evidence[0].member))
    scores = VoteScores.margin(votes, law.sigma, shared=bool(np.abs(m - n).max() <= 2))
    return [_by(method, m, n, scores, delta, confidence) for method in ("vote_band", "joint_votes")]


def _margins(task: Task, pairs: Sequence[Pair], evidence: Sequence[EvidenceRow]) -> tuple[Floats, Floats]:
    """Votes for the member answer less those for the non-member answer, of both worlds of every pair."""
    by_index = {row.pair: row for row in evidence}
    out = np.empty((2, len(pairs)))
    for at, pair in enumerate(pairs):
        answers, row = task.answers(pair.asked.query), by_index[pair.index]
        yes, no = (answers.index(str(name)) for name in (pair.asked.member, pair.asked.nonmember))
        out[:, at] = [_counts(votes)[yes] - _counts(votes)[no] for votes in (row.member, row.nonmember)]
    return out[0], out[1]


def _counts(clean: Clean) -> tuple[int, ...]:
    assert isinstance(clean, Votes)
    return clean.counts


def _worst(laws: Sequence[Laws], delta: float) -> Estimate:
    found = [exact_pair(one, other, delta) for one, other in laws]
    worst = max(found, key=lambda e: e.epsilon or 0.0)
    losses = [e.epsilon or 0.0 for e in found]
    details = {"mean_epsilon": float(np.mean(losses)), "pairs_without_loss": float(np.sum(np.array(losses) == 0))}
    return replace(
        worst, counts={"pairs": len(found)}, assumptions=(*worst.assumptions, GREEDY), details=details,
        threshold="none: the law of both worlds is known; the worst pair",
    )  # fmt: skip


def profile(mechanism: Mechanism, evidence: Sequence[EvidenceRow], claimed: float) -> Profile | None:
    """The exact privacy profile of the pairs from epsilon 0 to twice the claim; None where no law is declared."""
    laws = _laws(mechanism, evidence)
    if not laws:
        return None
    grid = np.linspace(0.0, 2 * min(claimed, 20.0), 41)
    known: dict[tuple[bytes, ...], Floats] = {}
    curves = [_curve(pair, grid, known) for pair in laws]
    return Profile(_rounded(grid), _rounded(np.mean(curves, 0)), _rounded(np.max(curves, 0)))


def _curve(pair: Laws, grid: Floats, known: dict[tuple[bytes, ...], Floats]) -> Floats:
    """Pairs of equal laws share one curve."""
    key = tuple(law.mean.tobytes() if isinstance(law, GaussianLaw) else law.probabilities.tobytes() for law in pair)
    if key not in known:
        known[key] = np.array([pair_delta(pair[0], pair[1], float(e)) for e in grid])
    return known[key]


def _rounded(values: Floats) -> tuple[float, ...]:
    """Twelve digits, rounded up."""
    return tuple(math.ceil(float(v) * 1e12) / 1e12 for v in values)
