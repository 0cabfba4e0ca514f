"""How often `leakbound difference` errs, and how many pairs it takes: the tables of
docs/measured/difference.md.

    python bench/difference.py [--simulations 10000]
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import numpy as np
import scipy
from leakbound_hosts.difference import _block_differences, _evidence, _sign_power, plan_difference

from leakbound.stats.arrays import Bools, Floats
from leakbound.stats.power import least_number

LEVEL = math.log(20)
CHUNK = 200  # series at once
Draw = Callable[[np.random.Generator, int, int], Floats]


def flips(share: float, rate: float) -> Draw:
    """Pairs of which a share is discordant, and A is right in so many of these."""

    def draw(rng: np.random.Generator, series: int, pairs: int) -> Floats:
        u = rng.random((series, pairs))
        return np.where(u < share * rate, 1.0, np.where(u < share, -1.0, 0.0))

    return draw


def unpaired(p: float, q: float, ratio: int = 1) -> Draw:
    def draw(rng: np.random.Generator, series: int, pairs: int) -> Floats:
        a = (rng.random((series, pairs)) < p).astype(float)
        b = (rng.random((series, pairs * ratio)) < q).astype(float)
        return np.stack([_block_differences(*both) for both in zip(a, b, strict=True)])

    return draw


def judged(rng: np.random.Generator, series: int, pairs: int) -> Floats:
    """Scores in [0, 1] with the same mean and different shapes."""
    return rng.beta(8, 2, (series, pairs)) - rng.beta(0.8, 0.2, (series, pairs))


def times(draw: Draw, pairs: int, simulations: int, effect: float | None = None) -> Floats:
    """Pairs after which each series is first rejected; infinity where it never is."""
    rng, found = np.random.default_rng(0), []
    for _ in range(0, simulations, CHUNK):
        over = _evidence(draw(rng, CHUNK, pairs), effect) >= LEVEL
        found.append(first(over))
    return np.concatenate(found)


def first(over: Bools) -> Floats:
    return np.where(over.any(1), over.argmax(1) + 1.0, np.inf)


def taken(found: Floats, power: float) -> tuple[float, float]:
    """Mean and most pairs of series that are given up once the power is reached."""
    most = float(np.quantile(found, power, method="inverted_cdf"))
    return float(np.minimum(found, most).mean()), most


def bonferroni(rate: float, power: float, simulations: int) -> tuple[float, float]:
    """McNemar's exact test after each discordant pair, at 5 % over the number of looks."""

    def looked(n: int, series: int) -> Floats:
        rng = np.random.default_rng(1)
        wins = (rng.random((series, n)) < rate).cumsum(1)
        seen = np.arange(1, n + 1)
        few = np.minimum(wins, seen - wins)
        return first(2 * scipy.special.bdtr(few, seen, 0.5) <= 0.05 / n)

    n = least_number(lambda n: bool(np.isfinite(looked(n, 1000)).mean() >= power), 1 << 13)
    assert n is not None
    return float(np.minimum(looked(n, simulations), n).mean()), n


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--simulations", type=int, default=10_000)
    number = parser.parse_args().simulations
    print(f"| no difference, {number:,} runs, a look after each of 1,000 pairs | called real |")
    print("| --- | ---: |")
    cases: dict[str, tuple[Draw, float | None]] = {
        "paired, 0 and 1, 10 % discordant": (flips(0.1, 0.5), None),
        "the same, `--effect 0.05`": (flips(0.1, 0.5), 0.05),
        "paired, 0 and 1, 50 % discordant": (flips(0.5, 0.5), None),
        "the same, `--effect 0.05`,": (flips(0.5, 0.5), 0.05),
        "paired, [0, 1], other shapes": (judged, None),
        "unpaired, rates of 0.8": (unpaired(0.8, 0.8), None),
        "unpaired, rates of 0.02, three times as many in B": (unpaired(0.02, 0.02, 3), None),
    }
    for name, (draw, effect) in cases.items():
        print(f"| {name} | {np.isfinite(times(draw, 1000, number, effect)).mean():.2%} |")
    few = max(CHUNK, number // 5)
    print("\n| A right in | discordant pairs, mean (most) | McNemar, Bonferroni over looks |")
    print("| ---: | ---: | ---: |")
    for rate in (0.6, 0.7, 0.8, 0.9):
        mean, most = taken(times(flips(1.0, rate), int(24 / (rate - 0.5) ** 2), few), 0.9)
        other, looks = bonferroni(rate, 0.9, few)
        print(f"| {rate:.0%} | {mean:.0f} ({most:.0f}) | {other:.0f} ({looks}) |")
    print("\n| difference, discordant | power | McNemar once | `--look-often`, mean (most) "
          "| with `--effect` | saved | planned |")  # fmt: skip
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for effect, share in ((0.05, 0.1), (0.05, 0.2), (0.1, 0.2), (0.1, 0.4)):
        draw = flips(share, (1 + effect / share) / 2)
        for power in (0.8, 0.9):
            fixed = fixed_pairs(effect, share, power)
            any_mean, any_most = taken(times(draw, 6 * fixed, few), power)
            mean, most = taken(times(draw, 6 * fixed, few, effect), power)
            plan = plan_difference(effect, share, power)
            print(
                f"| {effect:g}, {share:.0%} | {power:g} | {fixed} | {any_mean:.0f} ({any_most:.0f})"
                f" | {mean:.0f} ({most:.0f}) | {1 - mean / fixed:.0%} | {plan.mean} ({plan.most}) |"
            )


def fixed_pairs(effect: float, share: float, power: float) -> int:
    """Pairs for McNemar's exact test, whatever their number of discordant ones."""
    rate = (1 + effect / share) / 2

    def enough(n: int) -> bool:
        counts = np.arange(n + 1)
        chances = np.exp(
            scipy.special.gammaln(n + 1) - scipy.special.gammaln(counts + 1)
            - scipy.special.gammaln(n - counts + 1) + counts * math.log(share)
            + (n - counts) * math.log1p(-share)
        )  # fmt: skip
        likely = np.flatnonzero(chances > 1e-9)
        powers = [_sign_power(int(one), rate, 0.05) for one in likely]
        return float(chances[likely] @ np.array(powers)) >= power

    found = least_number(enough, 1 << 14)
    assert found is not None
    return found


if __name__ == "__main__":
    main()
