"""Power of an e-process against randomised response: many simulated audits at once."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from leakbound.stats import EProcess
from leakbound.stats.stakes import Moments, StakeRule, restake_points

__all__ = ["response_power"]

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
AUDITS = 100  # a standard error of at most 0.05: a plan needs no more
CELLS = 500_000  # audits times pairs held at once: a MiB of answers
CORNERS = (np.array([[0.0], [0.0], [1.0], [1.0]]), np.array([[0.0], [1.0], [0.0], [1.0]]))


def response_power(process: EProcess, pairs: int, wrong: float, seed: int = 0) -> float:
    """Share of simulated audits of randomised response that reject what an e-process tests.

    Args:
        process: An e-process that has seen no pair.
        pairs: Pairs of one audit.
        wrong: Probability of a wrong answer in either context.
        seed: Seed of the simulation.

    Returns:
        A share of 100 audits.
    """
    rule = StakeRule(process.lines, CORNERS, np.zeros(1), process.log_threshold, process.horizon)
    rng, rejected = np.random.default_rng(seed), 0
    size = max(1, min(AUDITS, CELLS // max(1, pairs)))
    for first in range(0, AUDITS, size):
        audits = min(size, AUDITS - first)
        rejected += _rejected(rule, process.log_threshold, *_answers(audits, pairs, wrong, rng))
    return rejected / AUDITS


def _rejected(rule: StakeRule, level: float, member: Bools, nonmember: Bools) -> int:
    """How many audits of (audits, pairs) answers reject; those that have are dropped."""
    audits, pairs = int(member.shape[0]), int(member.shape[1])
    past = Moments(np.repeat(Moments.of(np.ones((1, 1)), np.zeros((1, 1))).sums, audits, 1))
    now = np.zeros(audits)
    for start, stop in pairwise(_starts(pairs)):
        x, y = (answers[:, start:stop].astype(float) for answers in (member, nonmember))
        path = now[:, None] + _growth(rule, past, start, x, y)
        going = path.max(1) < level
        if not going.any():
            return audits
        past, now = _added(past, x, y, going), path[going, -1]
        member, nonmember = member[going], nonmember[going]
    return audits - len(member)


def _starts(pairs: int) -> list[int]:
    """The pairs before which stakes change, and the end."""
    starts: list[int] = []
    for start in restake_points():
        if start >= pairs:
            return [*starts, pairs]
        starts.append(start)
    return starts


def _answers(
    audits: int, pairs: int, wrong: float, rng: np.random.Generator
) -> tuple[Bools, Bools]:
    """(audits, pairs): "member" said in the canary-in and in the canary-out context."""
    drawn = [(rng.random(pairs) >= wrong, rng.random(pairs) < wrong) for _ in range(audits)]
    member, nonmember = zip(*drawn, strict=True)
    return np.stack(member), np.stack(nonmember)


def _growth(rule: StakeRule, past: Moments, seen: int, x: Floats, y: Floats) -> Floats:
    """(audits, pairs) growth of the log e-value under the stakes that the past suggests."""
    stakes = rule.choose(past, np.full(len(x), seen))
    a, b, c = np.moveaxis(stakes.payoff[0], -1, 0)[..., None]
    gains = (a + b * x[:, None] + c * y[:, None]).sum(1)
    return np.asarray(np.log1p(gains).cumsum(1))


def _added(past: Moments, x: Floats, y: Floats, going: Bools) -> Moments:
    """The moments of the audits that go on, with their last pairs."""
    x, y = x[going], y[going]
    sums = np.stack([np.ones_like(x), x, y, x * x, x * y, y * y]).sum(2)
    return Moments(past.sums[:, going] + sums[..., None])
