"""Why bounds stop short of their goals: what each part of the price costs, on the same audits.

"tightness": 200 pairs, T = 4, (.9, .02). The default mixture; its exact part alone, which sees no
broken noise; and the fastest-growing fixed stake if the distribution of the votes were known
beforehand, which no audit knows. "witness": the learned witness, and the channel itself as its only
witness with the same plan of stakes. "noise": pairs until half of the declared noise is rejected,
by the default, and by its simulated part if that had all the weight.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from few_calls import DELTA, ROOT2
from leakbound_lab.planted.channels import CHANNELS, Channel
from vote_audits import default_audit, design, observed
from vote_scenes import NOISE, VoteScene
from witness import CLAIM, LEAK, SEED

from leakbound.privacy import ApproxDP, calibrate_gaussian, gdp_delta
from leakbound.stats import VoteScores
from leakbound.stats.e_values.anytime import MixedEProcess
from leakbound.stats.e_values.stakes import Lines, StakeRule
from leakbound.witness import ReplyFacts, WitnessProcess
from leakbound.witness.process import FIRST, Portfolio, Record, _Test, plan_stakes

PARTITIONS, PAIRS, HIT, ALARM = 4, 200, 0.9, 0.02
GOALS = dict(zip(NOISE, (0.244, 0.484, 0.930, 1.26), strict=True))
LEVEL = math.log(20)
SHARES = np.linspace(0.01, 0.99, 60)[:, None, None]
KINDS = {"wording": 200, "latency": 200, "order": 400}  # those below 0.80, and their pairs
NEAR = 0.7  # of the largest correlation with a channel
FRESH = 50  # seeds that docs/measured/witness.md has used
Bits = list[tuple[bool, bool]]


def tightness(audits: int) -> None:
    """Mean bounds on mu and on epsilon at delta 1e-5."""
    print(
        "  mu    goal  mu: default, exact alone, known distribution; epsilon: default, exact alone"
    )
    for mu, goal in GOALS.items():
        scene = VoteScene(PARTITIONS, PAIRS, DELTA, HIT, ALARM, mu)
        found = np.array([bounds(scene, seed) for seed in range(audits)])
        found = np.column_stack([found[:, :2], known(mu, found[:, 4:]), found[:, 2:4]])
        error = found.std(0, ddof=1) / math.sqrt(audits)
        cells = "   ".join(f"{m:.4f} ± {e:.4f}" for m, e in zip(found.mean(0), error, strict=True))
        print(f"{mu:4g}  {goal:6.3f}  {cells}", flush=True)


def bounds(scene: VoteScene, seed: int) -> np.ndarray:
    """On mu and on epsilon, of the default and its exact part; then margins of both contexts."""
    rng = np.random.default_rng([15, seed, int(10 * scene.mu)])
    votes = scene.draw(rng)
    margins = 2 * votes.member - PARTITIONS, 2 * votes.nonmember - PARTITIONS
    plan = design(PARTITIONS, scene.mu, PAIRS, DELTA)
    audit = default_audit(plan)
    audit.observe(observed(plan, 0, *margins, rng))
    exact = MixedEProcess(plan.tested, {"exact": (1.0, audit.process.parts["exact"][1])})
    both = audit.process, exact
    mus = [one.mu_lower_bound(DELTA).mu for one in both]
    return np.array([*mus, *(one.epsilon_lower_bound(DELTA).epsilon for one in both),
                     *np.concatenate(margins)])  # fmt: skip


def known(mu: float, margins: np.ndarray) -> np.ndarray:
    """Bounds by the best fixed stake against each claim."""
    scores = VoteScores.margin(PARTITIONS, ROOT2 / mu)
    above = [scores.exceedance(one) for one in np.split(margins, 2, 1)]
    bound, standing = np.zeros(len(margins)), np.ones(len(margins), bool)
    for claim in np.linspace(0.35 * mu, 0.95 * mu, 110):
        (a, b, c), at = best_stake(claim, scores)
        path = np.log1p(a + b * above[0][..., at] + c * above[1][..., at]).cumsum(1)
        standing &= path.max(1) >= LEVEL
        bound[standing] = claim
    return bound


def best_stake(claim: float, scores: VoteScores) -> tuple[np.ndarray, int]:
    """Payoff, with its stake, and threshold."""
    epsilon = claim * np.array([0.0, 0.1, 0.2, 0.35, 0.5, 1.0, 2.0])
    lines = Lines.of(epsilon[None], np.asarray(gdp_delta(epsilon, claim))[None])
    size = scores.thresholds.size
    least = StakeRule(lines, scores.support(), LEVEL, None).least_payoff[0]
    chance, member, nonmember = pair_chances()
    states = [np.ones((len(chance), size)), *map(scores.exceedance, (member, nonmember))]
    payoff = np.tensordot(lines.coefficients[0], np.stack(states), 1)
    stakes = SHARES / -np.minimum(least, -1e-9)
    growth = sum(p * np.log1p(stakes * payoff[:, i]) for i, p in enumerate(chance))
    share, line, at = np.unravel_index(np.argmax(growth), stakes.shape)
    return lines.coefficients[0, line] * stakes[share, line, at], int(at)


def pair_chances() -> np.ndarray:
    """(3, states) probability and margins of a pair."""
    others = np.ones(1)
    for _ in range(PARTITIONS - 1):
        others = np.convolve(others, [1 - ALARM, ALARM])
    rows = [
        (crowd * p * q, *(2 * (votes + own) - PARTITIONS for own in (one, other)))
        for votes, crowd in enumerate(others)
        for one, p in ((1, HIT), (0, 1 - HIT))
        for other, q in ((1, ALARM), (0, 1 - ALARM))
    ]
    return np.array(rows).T


def witness(audits: int) -> None:
    """Shares of runs that are rejected in time, on seeds that no page has used."""
    print(
        "channel    within  share and median pairs: learned; channel known; half of the stake on it"
    )
    for kind, pairs in KINDS.items():
        found = np.array([witnessed(kind, pairs, SEED + FRESH + i) for i in range(audits)])
        share, middle = (found <= pairs).mean(0), np.median(found, 0)
        cells = "   ".join(f"{s:.2f}  {m:6.1f}" for s, m in zip(share, middle, strict=True))
        print(f"{kind:10} {pairs:6d}   {cells}", flush=True)


def witnessed(kind: str, pairs: int, seed: int) -> tuple[float, float, float]:
    """Pairs to a rejection by the learned witness, and with the channel known; and pairs after
    which half of the stake is on witnesses that follow the channel.
    """
    process, bits = WitnessProcess(ApproxDP(CLAIM, DELTA), horizon=pairs, scan=()), Bits()
    found = math.inf
    for (on_in, reply_in), (on_out, reply_out) in replies(CHANNELS[kind], pairs, seed):
        bits.append((on_in, on_out))
        if not process.rejected:
            process.observe(reply_in, reply_out)
            if found == math.inf and len(bits) % 10 == 0 and follows(process, bits) >= 0.5:
                found = len(bits)
    return process.rejected_at or math.inf, channel_known(bits), found


def follows(process: WitnessProcess, bits: Bits) -> float:
    """Share of the stake on witnesses whose correlation with the channel is near the largest."""
    if process._panel is None:
        return 0.0
    record = process._record
    rows, on = record._rows[: 2 * record.pairs], np.array(bits, float).ravel()
    rows, on = rows - rows.mean(0), on - on.mean()
    like = np.abs(rows.T @ on) / np.sqrt((rows**2).sum(0) * (on**2).sum() + 1e-12)
    weights = Portfolio.of(record, process._panel.log_prior, CLAIM).weights.sum(1)
    return float(weights[like >= max(NEAR * like.max(), 0.2)].sum())


def replies(channel: Channel, pairs: int, seed: int) -> Iterator[list[tuple[bool, ReplyFacts]]]:
    """The replies of `reply_pairs`, and whether the channel is on."""
    rng = np.random.default_rng([seed, *map(ord, channel.kind)])
    for _ in range(pairs):
        pair = []
        for rate in LEAK:
            on = bool(rng.random() < rate)
            pair.append((on, channel.reply(on, rng)))
        yield pair


def channel_known(bits: Bits) -> float:
    """The same stakes on the channel itself."""
    test = _Test(CLAIM, DELTA, plan_stakes(len(bits), CLAIM, DELTA, LEVEL))
    record, prior = Record(np.zeros((0, 1), bool), len(bits) + 1), np.zeros((1, 4))
    for seen, (x, y) in enumerate(bits):
        if seen >= FIRST:
            test.stake(record, prior, len(bits) - seen)
            test.settle(np.array([x]), np.array([y]))
        record.add(np.array([x]), np.array([y]))
        if test.log_e >= LEVEL:
            return seen + 1
    return math.inf


def noise(audits: int) -> None:
    """Median pairs until half of the declared noise is rejected, T = 10."""
    print("claim   notices, false alarms   default   simulated part with all the weight")
    for claim in (1.0, 4.0):
        for rates in ((1.0, 0.0), (HIT, ALARM)):
            rng = np.random.default_rng([15, int(claim), int(10 * rates[0])])
            found = [half_noise(claim, rates, rng) for _ in range(audits)]
            print(f"{claim:5g}   {rates!s:22} {np.median(found, 0)}", flush=True)


def half_noise(
    claim: float, rates: tuple[float, float], rng: np.random.Generator, partitions: int = 10
) -> tuple[float, float]:
    """Pairs of the default, and of its simulated part."""
    plan = design(partitions, ROOT2 / calibrate_gaussian(claim, DELTA, ROOT2), 300, DELTA,
                  early_stop=True)  # fmt: skip
    others = rng.binomial(partitions - 1, rates[1], plan.pairs)
    margins = [2 * (others + (rng.random(plan.pairs) < p)) - partitions for p in rates]
    small = observed(replace(plan, sigma=(plan.sigma or 0.0) / 2), 0, *margins, rng)
    audit = default_audit(plan)
    audit.observe(small)
    alone = audit.process.parts["simulated"][1]
    return tuple(one.rejected_at or math.inf for one in (audit.process, alone))  # type: ignore


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tightness", type=int, default=400, help="audits a cell")
    parser.add_argument("--witness", type=int, default=60, help="audits a channel")
    parser.add_argument("--noise", type=int, default=25, help="audits a cell")
    given = parser.parse_args()
    for audits, measure in (
        (given.tightness, tightness), (given.witness, witness), (given.noise, noise)
    ):  # fmt: skip
        if audits:
            measure(audits)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
