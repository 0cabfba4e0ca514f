"""Bounds from clean votes: against slow twins, over many simulated audits, and at the edges."""

from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from leakbound.errors import UsageError
from leakbound.privacy import Gaussian
from leakbound.stats import (
    Estimate,
    VoteScores,
)


def exact(member: Any, nonmember: Any, partitions: int, sigma: float) -> Estimate:
    """The e-process on exact chances."""
    scores = VoteScores.count(partitions, sigma)
    process = scores.process(Gaussian(1, sigma), horizon=np.size(member))
    process.extend(scores.exceedance(member), scores.exceedance(nonmember))
    return process.mu_lower_bound(1e-5)


def votes(rng: np.random.Generator, a: float, b: float, pairs: int = 100) -> tuple[Any, Any]:
    crowd = rng.binomial(3, b, pairs)
    return crowd + (rng.random(pairs) < a), crowd + (rng.random(pairs) < b)


def true_mu(a: float, b: float, sigma: float) -> float:
    crowd = np.convolve(np.convolve([1 - b, b], [1 - b, b]), [1 - b, b])
    tau = np.linspace(-6 * sigma, 4 + 6 * sigma, 8001)
    above = ndtr((np.arange(5)[:, None] - tau) / sigma)
    tpr, fpr = (np.convolve(crowd, [1 - p, p]) @ above for p in (a, b))
    inside = (fpr > 1e-9) & (tpr < 1 - 1e-9)
    return float((ndtri(tpr) - ndtri(fpr))[inside].max())


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (0.6, 0.1),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in ((0.9, 0.02), (0.1, 0.1))),
    ],
)
def test_bounds_rarely_exceed_the_truth(a: float, b: float) -> None:
    rng, sigma, audits = np.random.default_rng(3), 1.2, 40
    true = true_mu(a, b, sigma)
    over = 0
    for _ in range(audits):
        m, n = votes(rng, a, b)
        over += (exact(m, n, 4, sigma).mu or 0) > true + 1e-9
    assert over <= 6  # P[Bin(40, .05) > 6] < 1 %


def test_deterministic_votes_come_within_8_percent() -> None:
    for sigma in (1 / 0.3, 1 / 1.7):
        found = exact(np.ones(200), np.zeros(200), 4, sigma)
        assert 0.92 / sigma <= (found.mu or 0) <= 1 / sigma


def test_thresholds_reach_the_tails_that_epsilon_needs() -> None:
    """At delta 1e-5, thresholds within 1.5 noise scales gave up to half of epsilon away."""
    rng, sigma = np.random.default_rng(7), 1 / 0.6
    scores = VoteScores.count(4, sigma)
    process = scores.process(Gaussian(1, sigma), horizon=200)
    m, n = votes(rng, 0.9, 0.02, 200)
    process.extend(scores.exceedance(m), scores.exceedance(n))
    assert (process.epsilon_lower_bound(1e-5).epsilon or 0) > 1.1  # 0.85 within 1.5 scales


def test_vote_scores_are_the_chances_of_a_release() -> None:
    rng = np.random.default_rng(0)
    scores = VoteScores.margin(10, 2.0)
    noisy = 3 + rng.normal(0, 2.0, 40_000) - rng.normal(0, 2.0, 40_000)
    share = (noisy[:, None] > scores.thresholds).mean(0)
    assert np.abs(share - scores.exceedance(3)).max() < 0.012


def test_support_holds_every_pair_that_a_moved_vote_can_make() -> None:
    scores = VoteScores.margin(3, 1.0)
    xs, ys = scores.support()
    for low in range(-3, 4):
        for high in range(max(-3, low - 2), min(3, low + 2) + 1):
            x, y = scores.exceedance(low), scores.exceedance(high)
            same = xs == x  # of one value, the extremes of the other lie above and below
            least = np.where(same, ys, np.inf).min(0)
            most = np.where(same, ys, -np.inf).max(0)
            assert ((least <= y) & (y <= most)).all()


def test_the_corners_of_free_votes_bound_what_any_pair_of_them_can_lose() -> None:
    """Every one of the (2T + 1)^2 pairs of margins takes gigabytes at T = 100."""
    scores = VoteScores.margin(100, 2.0, shared=False)
    assert len(scores.support()[0]) == 4
    some = np.random.default_rng(0).integers(-100, 101, (2, 500))
    process = scores.process(Gaussian(0.5, 1.0))
    process.extend(scores.exceedance(some[0]), scores.exceedance(some[1]))


def test_pairs_that_share_nothing_are_refused_as_shared() -> None:
    scores = VoteScores.count(4, 1.0)
    process = scores.process(Gaussian(1, 1.0))
    with pytest.raises(UsageError, match="outside the stated support"):
        process.update(scores.exceedance(0), scores.exceedance(4))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: VoteScores.count(0, 1.0), "partitions is 0"),
        (lambda: VoteScores(3, 3, 1.0), "low < high"),
        (lambda: VoteScores.count(4, 0.0), "sigma is 0"),
    ],
)
def test_degenerate_votes_get_a_sentence(call: Any, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        call()


def test_one_trial_or_constant_votes_certify_nothing() -> None:
    assert exact([1] * 3, [0] * 3, 1, 1.0).mu == 0
    assert exact([1], [0], 4, 1.0).mu == 0
    assert exact([2] * 50, [2] * 50, 4, 1.0).mu == 0
