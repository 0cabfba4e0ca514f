"""Stakes of the e-process: against a twin that follows the documented rule pair by pair."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest

from leakbound.privacy import ApproxDP, Gaussian, Guarantee, gdp_delta
from leakbound.stats import EProcess
from leakbound.stats.e_values import anytime, stakes
from leakbound.stats.e_values.stakes import CAP, CAUTION, DOUBT, STRIDE, restake_points

Floats = npt.NDArray[np.float64]
Line = tuple[float, float, float]  # payoff a + b x + c y
CORNERS = [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)]


def lines_of(points: list[tuple[float, float]]) -> tuple[list[Line], list[Line]]:
    """x <= e^epsilon y + delta for each point of a claim, and the same for 1 - y and 1 - x."""
    first = [(-d, 1.0, -math.exp(e)) for e, d in points]
    # (1 - y) - e^epsilon (1 - x) - delta
    second = [(1 - math.exp(e) - d, math.exp(e), -1.0) for e, d in points]
    return first, second


def tangents(mu: float) -> list[tuple[float, float]]:
    return [(t * mu, float(gdp_delta(t * mu, mu))) for t in (0.0, 0.2, 0.5, 1.0, 2.0)]


def pay(line: Line, x: float, y: float) -> float:
    return line[0] + line[1] * x + line[2] * y


def restakes(pairs: int) -> set[int]:
    """After every pair at first; then, after each twelfth more pairs than before, rounded down."""
    found = [0]
    while found[-1] < pairs:
        found.append(found[-1] + 1 + math.floor(found[-1] / 12))
    return set(found)


class Twin:
    """One claim after another, one line and threshold after another."""

    def __init__(
        self, x: Floats, y: Floats, prior: list[tuple[Floats, Floats, float]],
        horizon: int | None = None, support: list[tuple[float, float]] | None = None,
        confidence: float = 0.95,
    ) -> None:  # fmt: skip
        self.x, self.y, self.prior, self.horizon = x, y, prior, horizon
        self.support, self.level = support or CORNERS, math.log(1 / (1 - confidence))

    def past(self, line: Line, k: int, seen: int) -> tuple[float, float, float]:
        """Weight, mean payoff and mean squared payoff of the pairs before."""
        pairs = [(x[k], y[k], w) for x, y, w in self.prior]
        pairs += [(self.x[t, k], self.y[t, k], 1.0) for t in range(seen)]
        weight = sum(w for *_, w in pairs)
        mean = sum(w * pay(line, x, y) for x, y, w in pairs) / weight
        square = sum(w * pay(line, x, y) ** 2 for x, y, w in pairs) / weight
        return weight, mean, square

    def stake(self, line: Line, k: int, seen: int) -> tuple[float, float]:
        """The stake, and the growth that it is expected to have brought."""
        weight, mean, square = self.past(line, k, seen)
        if mean <= 0:
            return 0.0, 0.0
        variance = max(square - mean**2, 1e-12)
        if self.horizon is None:
            share = mean / (square + CAUTION * variance / weight)
        else:
            left = max(self.horizon, seen + 1)
            aim = math.sqrt(2 * self.level / (left * variance))
            doubted = mean - DOUBT * math.sqrt(variance / weight)
            share = max(aim, doubted / max(square, 1e-12))
        worst = max(-min(pay(line, x, y) for x, y in self.support), 1e-6)
        stake = min(share, CAP / worst, (1 - (seen + 2) ** -1.5) / worst)
        return stake, weight * (stake * mean - stake**2 * square / 2)

    def paths(self, claims: list[list[tuple[float, float]]]) -> Floats:
        """(claims, pairs) log e-values; `STRIDE` neighbours share lines and thresholds."""
        found = np.zeros((len(claims), len(self.x)))
        changes = restakes(len(self.x))
        for c, claim in enumerate(claims):
            own, leader = lines_of(claim), lines_of(claims[c - c % STRIDE])
            now = 0.0
            for t in range(len(self.x)):
                if t in changes:
                    best = [
                        max(  # of equally good ones the first
                            (
                                (self.stake(side[i], k, t)[1], i, k)
                                for i, k in product(range(len(side)), range(self.x.shape[1]))
                            ),
                            key=lambda one: one[0],
                        )
                        for side in leader
                    ]
                    total = sum(math.exp(growth) for growth, *_ in best)
                    bets = [
                        (math.exp(growth) / total * self.stake(side[i], k, t)[0], side[i], k)
                        for side, (growth, i, k) in zip(own, best, strict=True)
                    ]
                gain = sum(s * pay(line, self.x[t, k], self.y[t, k]) for s, line, k in bets)
                now += math.log1p(gain)
                found[c, t] = now
        return found


def scores(seed: int, pairs: int, thresholds: int = 2) -> tuple[Floats, Floats]:
    """Members score higher, never twice the same: no two thresholds are equally good."""
    x, y = np.random.default_rng(seed).random((2, pairs, thresholds))
    return 1 - 0.6 * x, 0.5 * y


@pytest.mark.parametrize(
    ("claim", "points"),
    [
        (ApproxDP(0.4, 0.01), [(0.4, 0.01)]),
        (Gaussian(0.3, 1.0), tangents(0.3)),
    ],
)
@pytest.mark.parametrize("horizon", [None, 20, 5000])
@pytest.mark.parametrize("higher", [True, False])
def test_the_running_e_value_follows_the_rule(
    claim: Guarantee, points: list[tuple[float, float]], horizon: int | None, higher: bool
) -> None:
    """Members that score lower as well: then both directions lose, and stakes end."""
    x, y = scores(3, 30)
    x, y = (x, y) if higher else (np.where(np.arange(30)[:, None] < 4, x, y), x)
    process = EProcess(claim, deltas=(), horizon=horizon)
    process.extend(x[:7], y[:7])
    process.extend(x[7:], y[7:])
    certain = [(np.ones(2), np.zeros(2), 1.0)]  # the pair that is assumed before any data
    twin = Twin(x, y, certain, horizon).paths([points])
    assert process.log_e_values == pytest.approx(twin[0], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("horizon", [None, 25])
def test_claims_of_a_scan_follow_it_too(horizon: int | None) -> None:
    """Twenty neighbours: the last four share another choice than the first sixteen."""
    x, y = scores(5, 20)
    process = EProcess(ApproxDP(1.0, 1e-5), horizon=horizon, confidence=0.9)
    process.extend(x, y)
    certain = [(np.ones(2), np.zeros(2), 1.0)]
    twin = Twin(x, y, certain, horizon, confidence=0.9)
    values = 0.05 * 1.2 ** np.arange(20)
    wanted: dict[str, tuple[Floats, Callable[[float], list[tuple[float, float]]]]] = {
        "epsilon": (process.epsilon_paths(values, 0.02), lambda e: [(e, 0.02)]),
        "mu": (process.mu_paths(values), tangents),
    }
    for name, (found, points) in wanted.items():
        slow = twin.paths([points(float(value)) for value in values])
        assert found == pytest.approx(slow, rel=1e-9, abs=1e-12), name


def test_a_known_support_and_an_expected_pair_enter_the_rule() -> None:
    """The expected pair counts as two; stakes grow until the support could lose all."""
    x, y = scores(7, 16, 1)
    x, y = 0.5 + x / 10, 0.4 + y / 10
    support = [(0.5, 0.4), (0.6, 0.4), (0.5, 0.45), (0.6, 0.45)]
    xs, ys = np.array(support).T[:, :, None]
    expected = np.array([0.57]), np.array([0.42])
    process = EProcess(ApproxDP(0.1, 1e-5), support=(xs, ys), expected=expected, deltas=(1e-5,))
    process.extend(x, y)
    twin = Twin(x, y, [(*expected, 2.0)], support=support).paths([[(0.1, 1e-5)]])
    assert process.log_e_values == pytest.approx(twin[0], rel=1e-9)


def test_what_is_held_at_once_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = scores(9, 50)
    process = EProcess(ApproxDP(0.4, 0.01))
    assert (process.e_value, process.rejected_at) == (1.0, None)  # before any pair
    assert process.epsilon_lower_bound(0.0).epsilon == process.mu_lower_bound().mu == 0.0
    process.extend(x, y)
    values = np.array([0.1, 0.4, 2.0])
    whole = process.epsilon_paths(values, 0.01), process.epsilon_lower_bound(0.01)
    for module, name in ((stakes, "BLOCK"), (anytime, "CELLS"), (anytime, "CHUNK")):
        monkeypatch.setattr(module, name, 16)
        assert process.epsilon_paths(values, 0.01) == pytest.approx(whole[0])
        assert process.epsilon_lower_bound(0.01) == whole[1]


def test_stakes_change_after_every_pair_and_then_every_eight_percent() -> None:
    points = restake_points()
    found = [next(points) for _ in range(80)]
    assert set(found) >= set(range(13))
    assert found == sorted(restakes(found[-1]))
    late = np.array(found[60:])
    assert np.diff(late) / late[:-1] == pytest.approx(1 / 12, abs=0.01)
