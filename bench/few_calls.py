"""How many model calls does a bound need? Report noisy max, T = 10, a canary that is noticed with
probability a.

Per claim: pairs (T + 1 calls each: the two contexts share the other partitions) until the
anytime-valid bound on mu first
reaches 90 % of the truth, with 95 % confidence; median and 90th percentile over simulated audits.
Sigma is the exact
calibration of the claim at delta = 1e-5. The score is the exact chance that the noisy margin
"canary's answer less the other"
exceeds a threshold, given the votes. "best": what the best single stake would need on average if
the distribution of the votes were known beforehand; an audit that gets there in not many more pairs
leaves nothing to gain by staking
better. For comparison, the published
audits of private voting draw 8,000,000 answers, or treat a few hundred as the whole population and
lose the confidence.
"""

from __future__ import annotations

import argparse
import math
import sys

import numpy as np
from scipy.special import ndtr, ndtri

from leakbound.privacy import Gaussian, calibrate_gaussian, gdp_delta
from leakbound.stats import VoteScores
from leakbound.stats.stakes import Lines, StakeRule

PARTITIONS, DELTA, BUDGET, SHARE = 10, 1e-5, 100, 0.9
ROOT2 = math.sqrt(2)


def true_mu(noticed: float, sigma: float) -> float:
    """Of the noisy margin: the canary's partition answers for it with probability `noticed`, all
    others against it.
    """
    spread = sigma * ROOT2
    tau = np.linspace(-PARTITIONS - 8 * spread, 2 - PARTITIONS + 8 * spread, 20_001)
    fpr, hit = ndtr((-PARTITIONS - tau) / spread), ndtr((2 - PARTITIONS - tau) / spread)
    tpr = noticed * hit + (1 - noticed) * fpr
    inside = (fpr > 1e-12) & (tpr < 1 - 1e-12)
    return float((ndtri(tpr) - ndtri(fpr))[inside].max())


def pairs_needed(
    noticed: float, sigma: float, goal: float, limit: int, rng: np.random.Generator
) -> int:
    """Pairs until mu-GDP with mu = goal (a claim that is false) is rejected; the bound is then at
    least the goal.
    """
    process = VoteScores.margin(PARTITIONS, sigma).process(Gaussian(goal, 1.0), horizon=BUDGET)
    scores = VoteScores.margin(PARTITIONS, sigma)
    for pair in range(1, limit + 1):
        member = -PARTITIONS + 2 * int(rng.random() < noticed)
        process.update(scores.exceedance(member), scores.exceedance(-PARTITIONS))
        if process.rejected:
            return pair
    return limit + 1


def best_stake(noticed: float, sigma: float, goal: float) -> float:
    """Pairs that the fastest-growing single stake against mu-GDP needs on average, if the
    distribution of the votes is known.
    """
    scores = VoteScores.margin(PARTITIONS, sigma)
    mu = goal * np.array([0.0, 0.1, 0.2, 0.35, 0.5, 1.0, 2.0])
    lines = Lines.of(mu[None], np.asarray(gdp_delta(mu, goal))[None])
    states = np.stack(
        [
            np.ones((2, scores.thresholds.size)),
            *map(scores.exceedance, ([-PARTITIONS, 2 - PARTITIONS], [-PARTITIONS] * 2)),
        ]
    )
    miss, hit = np.moveaxis(np.tensordot(lines.coefficients[0], states, 1), 1, 0)  # (L, K) each
    worst = StakeRule(
        lines, scores.support(), np.zeros(scores.thresholds.size), 3.0, None
    ).least_payoff[0]
    share = np.linspace(0.01, 0.99, 99)[:, None, None] / -np.minimum(worst, -1e-9)
    growth = noticed * np.log1p(share * hit) + (1 - noticed) * np.log1p(share * miss)
    return float(-math.log(0.05) / growth.max())


def row(epsilon: float, noticed: float, audits: int) -> bool:
    sigma = calibrate_gaussian(epsilon, DELTA, ROOT2)
    true = true_mu(noticed, sigma)
    rng = np.random.default_rng([int(epsilon), int(1000 * noticed)])
    need = np.array(
        [pairs_needed(noticed, sigma, SHARE * true, 4 * BUDGET, rng) for _ in range(audits)]
    )
    half, most = (int(np.quantile(need, q, method="higher")) for q in (0.5, 0.9))
    print(
        f"{epsilon:7g} {noticed:8.2f} {ROOT2 / sigma:9.3f} {true:8.3f} {half:7d} "
        f"{half * (PARTITIONS + 1):7d} {most:7d} "
        f"{most * (PARTITIONS + 1):7d} {np.mean(need <= BUDGET):9.1%} "
        f"{best_stake(noticed, sigma, SHARE * true):8.0f}",
        flush=True,
    )
    return half <= BUDGET


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--audits", type=int, default=400, help="simulated audits a row")
    audits = parser.parse_args().audits
    print(
        f"pairs until the bound reaches {SHARE:.0%} of the truth, T = {PARTITIONS}, 95 % "
        f"confidence, {audits} audits a row"
    )
    print(
        "  claim  noticed guarantee     true  median   calls  90th pc   calls  within 100     best"
    )
    reached = [row(e, a, audits) for a in (0.97, 0.98, 0.99, 1.0) for e in (1.0, 2.0, 4.0, 8.0)]
    print(
        f"{sum(reached)} of {len(reached)} rows reach it within {BUDGET} pairs in half of the "
        "audits"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
