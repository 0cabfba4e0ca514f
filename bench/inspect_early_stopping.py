"""How many samples early stopping by e-value saves, and how often it stops where it should not.

    python bench/inspect_early_stopping.py --write docs/measured/inspect.md

Early stopping looks after every sample, as `StopWhenRejected` and `StopAtRate` do; 10,000 simulated
evaluations each. Its cost is the mean number of samples, those of evaluations that end without a
rejection included: they go on to the number at which the wanted share has rejected. A test for a
fixed number of samples takes the smallest number at which it has that power. "Looking on": the same
test read after every sample, at its nominal level, as a dashboard invites to. "Most possible": what
no test of any kind can exceed, even if it knows the leak or the rate beforehand, by Wald's bound on
the mean number of samples at these errors. Two minutes of CPU time, most of it for the numbers of
the unconditional test.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np
from leakbound_hosts.rates import PlannedRateTest, RateTest, _rejection_times
from scipy.optimize import minimize
from scipy.special import rel_entr
from scipy.stats import binom

from leakbound.estimators.simulated_power import PlainTest, YesNo, rejection_times
from leakbound.privacy import ApproxDP
from leakbound.stats import Assumption, binomial_upper
from leakbound.stats.counts.unconditional import unconditional_power
from leakbound.stats.power import clopper_pearson_power

EPSILON, DELTA, CONFIDENCE = 1.0, 1e-5, 0.95
AUDITS, POWER, MOST, LOOKS = 10_000, 0.9, 3000, 500
RATES = [  # limit, the rate that the number of samples is planned for, true rate
    (0.5, 0.6, 0.6), (0.5, 0.6, 0.65), (0.5, 0.6, 0.7), (0.5, 0.65, 0.65), (0.1, 0.2, 0.2),
    (0.1, 0.2, 0.3), (0.9, 0.95, 0.95), (0.9, 0.95, 0.98),
]  # fmt: skip
BEGIN, END = "<!-- made by bench/inspect_early_stopping.py -->", "<!-- until here -->"
AUDIT = PlainTest(ApproxDP(EPSILON, DELTA), CONFIDENCE, DELTA, None)


def response(epsilon: float) -> YesNo:
    """Randomised response: the best attack sees all of it."""
    tpr = 1 / (1 + math.exp(-epsilon))
    return YesNo(tpr, 1 - tpr)


def stopped(scene: YesNo, pairs: int, seed: int) -> np.ndarray:
    """(audits,) paired trials at the rejection; infinity where there is none."""
    found = rejection_times(AUDIT, pairs, AUDITS, scene, np.random.default_rng(seed))
    return np.where(found == 0, np.inf, found)


@lru_cache
def stopped_rate(limit: float, rate: float, samples: int, seed: int) -> np.ndarray:
    """The same of samples that are right at a rate."""
    rng = np.random.default_rng(seed)
    return _rejection_times(RateTest(limit), rate, samples, AUDITS, rng)


def cost(times: np.ndarray) -> tuple[float, int]:
    """Mean number of samples, and the most, at the wanted power."""
    most = int(np.quantile(times, POWER, method="higher"))
    return float(np.minimum(times, most).mean()), most


def smallest(power: Callable[[int], float]) -> int:
    return next(n for n in range(2, MOST) if power(n) >= POWER)


def paired(scene: YesNo, of: Callable[..., float]) -> int:
    seen = Assumption(scene.tpr, scene.fpr)
    return smallest(lambda n: of(n, math.inf, EPSILON, DELTA, CONFIDENCE, seen))


def least_right(n: int, limit: float) -> int:
    """Fewest right answers of n that reject "the rate is at most the limit"."""
    return int(binom.isf(1 - CONFIDENCE, n, limit)) + 1


def binomial(limit: float, rate: float) -> int:
    return smallest(lambda n: float(binom.sf(least_right(n, limit) - 1, n, rate)))


def divergence(true: float, other: float) -> float:
    """Kullback-Leibler divergence of two rates."""
    return float(rel_entr(true, other) + rel_entr(1 - true, 1 - other))


def least(information: float) -> float:
    """Wald's bound: no test with these errors takes fewer samples on average.

    The evidence that a sample gives on average, times their number, is at least that of the
    decision.
    """
    return divergence(POWER, 1 - CONFIDENCE) / information


def least_pairs(scene: YesNo) -> float:
    """The bound against the true claim that is hardest to tell apart from the leak."""
    tprs, slope = np.linspace(1e-4, 1 - 1e-4, 20_001), math.exp(EPSILON)
    allowed = np.maximum((tprs - DELTA) / slope, 1 - slope * (1 - tprs) - DELTA)
    fprs = np.clip(np.maximum(allowed, scene.fpr), 1e-9, 1 - 1e-9)
    nearest = rel_entr(scene.tpr, tprs) + rel_entr(1 - scene.tpr, 1 - tprs)
    nearest += rel_entr(scene.fpr, fprs) + rel_entr(1 - scene.fpr, 1 - fprs)
    return least(float(nearest.min()))


def least_pairs_of_e_values(scene: YesNo) -> float:
    """The same if the two answers of a pair may depend on each other, as e-values allow for.

    The true claim that is hardest to tell apart is then as far away as the best stakes on the two
    lines of the claim make an e-value grow with a pair.
    """
    x, y = np.array([0.0, 0.0, 1.0, 1.0]), np.array([0.0, 1.0, 0.0, 1.0])
    slope, tpr, fpr = math.exp(EPSILON), scene.tpr, scene.fpr
    payoffs = np.stack([x - slope * y - DELTA, (1 - y) - slope * (1 - x) - DELTA], 1)
    chances = np.where(x > 0, tpr, 1 - tpr) * np.where(y > 0, fpr, 1 - fpr)

    def shrinks(stakes: np.ndarray) -> float:
        factors = 1 + payoffs @ np.abs(stakes)
        return -float(chances @ np.log(factors)) if factors.min() > 0 else 1e3

    tried = [
        minimize(shrinks, start, method="Nelder-Mead")
        for start in ((0.1, 0.1), (0.3, 0.01), (0.01, 0.3))
    ]
    return least(-min(one.fun for one in tried))


def saved(mean: float, fixed: int) -> str:
    return f"{1 - mean / fixed:.0%}"


def audits() -> list[str]:
    lines = [
        "| the system leaks | TPR, FPR | e-value: mean (at most) | Clopper-Pearson | saved "
        "| unconditional | saved | most possible | of e-values |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    scenes = {f"ε = {one:g}": response(one) for one in (1.5, 2, 2.5, 3)}
    scenes |= {"half of the canaries": YesNo(0.5, 0.02), "all, with false alarms": YesNo(1, 0.2)}
    for seed, (name, scene) in enumerate({**scenes, "everything": YesNo(1.0, 0.0)}.items()):
        mean, most = cost(stopped(scene, MOST, seed))
        exact, best = paired(scene, clopper_pearson_power), paired(scene, unconditional_power)
        rates = f"{scene.tpr:.2f}, {scene.fpr:.2f}"
        lines.append(
            f"| {name} | {rates} | {mean:.1f} ({most}) | {exact} | {saved(mean, exact)} "
            f"| {best} | {saved(mean, best)} | {saved(least_pairs(scene), best)} "
            f"| {saved(least_pairs_of_e_values(scene), best)} |"
        )
    return lines


def planned() -> list[str]:
    """The number is fixed for the smallest leak that matters, and the system leaks more."""
    fixed = [paired(response(2), of) for of in (clopper_pearson_power, unconditional_power)]
    lines = [
        "| the system leaks | e-value: mean | Clopper-Pearson | saved | unconditional | saved |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    _, most = cost(stopped(response(2), MOST, 100))
    for seed, leak in enumerate((2, 3, 4, 6), 100):
        mean = float(np.minimum(stopped(response(leak), most, seed), most).mean())
        each = " | ".join(f"{one} | {saved(mean, one)}" for one in fixed)
        lines.append(f"| ε = {leak} | {mean:.1f} | {each} |")
    return lines


def rates() -> list[str]:
    lines = [
        "| limit | planned for | true rate | exact binomial | planned test: mean (at most) | saved "
        "| any rate: mean (at most) | saved | most possible |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for seed, (limit, plan, rate) in enumerate(RATES, 200):
        test, fixed = PlannedRateTest(limit, plan), binomial(limit, plan)
        mean, bound = test.expected_samples(rate), least(divergence(rate, limit))
        times = stopped_rate(limit, plan, 600, 200)
        _, most = cost(times)
        times = times if rate == plan else stopped_rate(limit, rate, most, seed)
        open_mean = float(np.minimum(times, most).mean())
        possible = saved(bound, fixed) if plan == rate else ""
        lines.append(
            f"| {limit} | {plan} | {rate} | {fixed} | {mean:.1f} ({test.design.most}) "
            f"| {saved(mean, fixed)} | {open_mean:.1f} ({most}) | {saved(open_mean, fixed)} "
            f"| {possible} |"
        )
    return lines


def planned_errors(limit: float, rate: float, seed: int) -> tuple[float, float, float]:
    """Share of simulated evaluations that a planned test rejects: at the limit, at the plan."""
    test, rng = PlannedRateTest(limit, rate), np.random.default_rng(seed)
    shares = []
    for true in (limit, rate):
        rejected = 0
        for scores in rng.random((AUDITS, test.design.most)) < true:
            one = PlannedRateTest(limit, rate)
            one.observe(scores.astype(int).tolist())
            rejected += one.rejected
        shares.append(rejected / AUDITS)
    return shares[0], test.design.error, shares[1]


def planned_error_rows() -> list[str]:
    lines = [
        "| a planned test | true claim rejected | exactly | planned rate shown |",
        "| --- | --- | --- | --- |",
    ]
    for seed, (limit, rate) in enumerate(((0.5, 0.6), (0.1, 0.2), (0.9, 0.95)), 420):
        simulated, exact, power = planned_errors(limit, rate, seed)
        lines.append(
            f"| limit {limit}, rate {rate} | {simulated:.2%} | {exact:.2%} | {power:.1%} |"
        )
    return lines


def looking_on(scene: YesNo) -> float:
    """Share of audits that a Clopper-Pearson test, read after every pair, ever rejects."""
    rng, ever = np.random.default_rng(300), np.zeros(AUDITS, bool)
    hits = (rng.random((AUDITS, LOOKS)) < scene.tpr).cumsum(1)
    alarms = (rng.random((AUDITS, LOOKS)) < scene.fpr).cumsum(1)
    slope = math.exp(EPSILON)
    for n in range(1, LOOKS + 1):
        upper = binomial_upper(np.arange(n + 1), n, (1 - CONFIDENCE) / 2)
        misses, false = upper[n - hits[:, n - 1]], upper[alarms[:, n - 1]]
        ever |= (1 - misses - DELTA > slope * false) | (1 - false - DELTA > slope * misses)
    return float(ever.mean())


def looking_on_rate(limit: float) -> float:
    right = (np.random.default_rng(301).random((AUDITS, LOOKS)) < limit).cumsum(1)
    least = np.array([least_right(n, limit) for n in range(1, LOOKS + 1)])
    return float((right >= least).any(1).mean())


def errors() -> list[str]:
    lines = [f"| a true claim, {LOOKS} looks | e-value | the fixed test, looking on |",
             "| --- | --- | --- |"]  # fmt: skip
    edge = response(EPSILON)
    scenes = {"ε ≤ 1, exactly at the edge": edge, "ε ≤ 1, rare answers": YesNo(0.1, 0.0368)}
    for seed, (name, scene) in enumerate(scenes.items(), 400):
        share = np.isfinite(stopped(scene, LOOKS, seed)).mean()
        lines.append(f"| {name} | {share:.2%} | {looking_on(scene):.1%} |")
    for seed, limit in enumerate((0.5, 0.1, 0.9), 410):
        share = np.isfinite(stopped_rate(limit, limit, LOOKS, seed)).mean()
        lines.append(
            f"| rate ≤ {limit}, exactly at it | {share:.2%} | {looking_on_rate(limit):.1%} |"
        )
    return lines


def page() -> str:
    return "\n".join([
        f"Paired trials that reject the claim ε = 1 at δ = 1e-5 with {POWER:.0%} power:", "",
        *audits(), "",
        "The number of trials is planned for a leak of ε = 2, and the system leaks more:", "",
        *planned(), "",
        f"Samples that show a rate above a limit with {POWER:.0%} power:", "", *rates(), "",
        f"How often a true claim is rejected at confidence {CONFIDENCE:.0%}, by looking after "
        f"every sample ({AUDITS:,} simulations):", "", *errors(), "", *planned_error_rows(),
    ])  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="also write the tables into this page")
    given, text = parser.parse_args(), page()
    print(text)
    if given.write:
        whole = given.write.read_text(encoding="utf-8")
        before, after = whole.partition(BEGIN)[0], whole.partition(END)[2]
        given.write.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
