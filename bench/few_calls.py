"""How many model calls does a bound need? Report noisy max, T = 10, a canary that is noticed with
probability a, other partitions that answer for it with the probability of a false alarm.

Per claim: pairs (T + 1 calls each: the two contexts share the other partitions) until the
anytime-valid bound on mu first reaches 90 % of the truth, with 95 % confidence; median and 90th
percentile over simulated audits. Sigma is the exact calibration of the claim at delta = 1e-5. The
bound is that of the default estimator, with all its parts: exact chances of the noisy margin
"canary's answer less the other", simulated outputs, and outputs as they are served. "best": what
the best single stake would need on average if the distribution of the votes were known beforehand;
an audit that gets there in not many more pairs leaves nothing to gain by staking better. For
comparison, the published audits of private voting draw 8,000,000 answers, or treat a few hundred as
the whole population and lose the confidence.
"""

from __future__ import annotations

import argparse
import math
import sys

import numpy as np
from scipy.special import ndtr, ndtri
from vote_audits import default_audit, design, observed

from leakbound.privacy import calibrate_gaussian, gdp_delta
from leakbound.stats import VoteScores
from leakbound.stats.e_values.stakes import Lines, StakeRule

PARTITIONS, DELTA, BUDGET, SHARE = 10, 1e-5, 100, 0.9
LIMIT = 4 * BUDGET
ROOT2 = math.sqrt(2)


def crowd(false_alarm: float) -> np.ndarray:
    """Probabilities of 0 to T - 1 votes of the partitions without the canary."""
    found = np.ones(1)
    for _ in range(PARTITIONS - 1):
        found = np.convolve(found, [1 - false_alarm, false_alarm])
    return found


def true_mu(noticed: float, false_alarm: float, sigma: float) -> float:
    """Of the noisy margin: the canary's partition answers for it with probability `noticed`, all
    others, and itself without the canary, with that of a false alarm.
    """
    spread, votes = sigma * ROOT2, np.arange(PARTITIONS + 1)
    tau = np.linspace(-PARTITIONS - 8 * spread, PARTITIONS + 8 * spread, 20_001)
    above = ndtr((2 * votes[:, None] - PARTITIONS - tau) / spread)
    tpr, fpr = (np.convolve(crowd(false_alarm), [1 - p, p]) @ above for p in (noticed, false_alarm))
    inside = (fpr > 1e-12) & (tpr < 1 - 1e-12)
    return float((ndtri(tpr) - ndtri(fpr))[inside].max())


def pairs_needed(
    noticed: float, false_alarm: float, sigma: float, goal: float, rng: np.random.Generator
) -> int:
    """Pairs until mu-GDP with mu = goal (a claim that is false) is rejected; the bound is then at
    least the goal.
    """
    others = rng.binomial(PARTITIONS - 1, false_alarm, LIMIT)
    member, nonmember = (
        2 * (others + (rng.random(LIMIT) < p)) - PARTITIONS for p in (noticed, false_alarm)
    )
    known = design(PARTITIONS, ROOT2 / sigma, BUDGET, DELTA, tested=goal)
    audit = default_audit(known)
    audit.observe(observed(known, 0, member, nonmember, rng))
    return audit.process.rejected_at or LIMIT + 1


def best_stake(noticed: float, false_alarm: float, sigma: float, goal: float) -> float:
    """Pairs that the fastest-growing single stake against mu-GDP needs on average, if the
    distribution of the votes is known.
    """
    scores = VoteScores.margin(PARTITIONS, sigma)
    mu = goal * np.array([0.0, 0.1, 0.2, 0.35, 0.5, 1.0, 2.0])
    lines = Lines.of(mu[None], np.asarray(gdp_delta(mu, goal))[None])
    chances, pairs = pair_chances(noticed, false_alarm)
    states = np.stack(
        [np.ones((len(pairs), scores.thresholds.size)), *map(scores.exceedance, pairs.T)]
    )
    payoff = np.tensordot(lines.coefficients[0], states, 1)  # (L, S, K)
    worst = StakeRule(lines, scores.support(), 3.0, None).least_payoff[0]
    share = np.linspace(0.01, 0.99, 99)[:, None, None] / -np.minimum(worst, -1e-9)
    growth = sum(
        chance * np.log1p(share * payoff[:, at]) for at, chance in enumerate(chances) if chance > 0
    )
    return float(-math.log(0.05) / np.max(growth))


def pair_chances(noticed: float, false_alarm: float) -> tuple[np.ndarray, np.ndarray]:
    """(S,) probabilities and (S, 2) margins of a pair."""
    others, rows = crowd(false_alarm), []
    for count, chance in enumerate(others):
        for own, p in ((1, noticed), (0, 1 - noticed)):
            for without, q in ((1, false_alarm), (0, 1 - false_alarm)):
                margins = [2 * (count + one) - PARTITIONS for one in (own, without)]
                rows.append((chance * p * q, *margins))
    table = np.array(rows)
    return table[:, 0], table[:, 1:]


def row(epsilon: float, noticed: float, false_alarm: float, audits: int) -> bool:
    sigma = calibrate_gaussian(epsilon, DELTA, ROOT2)
    true = true_mu(noticed, false_alarm, sigma)
    rng = np.random.default_rng([int(epsilon), int(1000 * noticed), int(1000 * false_alarm)])
    goal = SHARE * true
    need = np.array([pairs_needed(noticed, false_alarm, sigma, goal, rng) for _ in range(audits)])
    half, most = (int(np.quantile(need, q, method="higher")) for q in (0.5, 0.9))
    print(
        f"{epsilon:7g} {noticed:8.2f} {false_alarm:8.2f} {ROOT2 / sigma:9.3f} {true:8.3f} "
        f"{half:7d} {half * (PARTITIONS + 1):7d} {most:7d} {most * (PARTITIONS + 1):7d} "
        f"{np.mean(need <= BUDGET):9.1%} {best_stake(noticed, false_alarm, sigma, goal):8.0f}",
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
        "  claim  noticed    false guarantee     true  median   calls  90th pc   calls  within 100"
        "     best"
    )
    crowds = [(0.97, 0.0), (0.98, 0.0), (0.99, 0.0), (1.0, 0.0), (0.98, 0.02)]
    reached = [row(e, a, b, audits) for a, b in crowds for e in (1.0, 2.0, 4.0, 8.0)]
    print(
        f"{sum(reached)} of {len(reached)} rows reach it within {BUDGET} pairs in half of the "
        "audits"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
