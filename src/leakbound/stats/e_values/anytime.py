"""Base of anytime-valid tests: an e-value after each pair, and bounds from a scan of claims.

A claim is rejected once its e-value reaches 1/alpha. The claims of a scan are nested. The bound is
the largest claim on a fixed grid for which it and all smaller claims are rejected.

References: Ville (1939); Ramdas, Grünwald, Vovk and Shafer, "Game-theoretic statistics and safe
anytime-valid inference" (Statistical Science 2023).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

import numpy as np
import scipy

from leakbound._check import confidence_level, delta_value
from leakbound.errors import UsageError
from leakbound.privacy import Guarantee, gdp_epsilon
from leakbound.stats.arrays import Bools, Floats
from leakbound.stats.e_values.stakes import STRIDE
from leakbound.stats.estimate import IMPLIED, Estimate

# claims that a bound scans: 1 % apart, up to 20; no practical number of pairs certifies more
GRID = np.concatenate([[0.0], 0.01 * 1.01 ** np.arange(765)])
CHUNK = 192  # claims tested at once; most scans end within the first few chunks
CELLS = 4_000_000  # claims times pairs held at once; about 100 MB of gains and paths
ASSUMES = ("pairs are independent, or drawn so that the claim holds for each given the past",)
CHOSEN = "chosen before each pair from earlier pairs"


class EValueTest(ABC):
    """A test of one claim by an e-value, which rejects once it reaches 1/alpha."""

    confidence: float

    @property
    @abstractmethod
    def log_e_values(self) -> Floats:
        """(n,) logarithm of the e-value after each pair, or each score of a rate."""

    @property
    def e_value(self) -> float:
        """Current evidence against the claim. Under the claim its expectation is at most 1."""
        path = self.log_e_values
        return math.exp(min(float(path[-1]), 700.0)) if path.size else 1.0  # e^700: largest float

    @property
    def rejected(self) -> bool:
        """Whether the e-value has ever reached 1/alpha."""
        path = self.log_e_values
        if not path.size:
            return False
        return max(float(path.max()), float(path[-1]) + self._last) >= self.log_threshold

    @property
    def rejected_at(self) -> int | None:
        """Number of pairs, or scores, after which the claim was first rejected; or None."""
        over = np.flatnonzero(self.log_e_values >= self.log_threshold)
        if over.size:
            return int(over[0]) + 1
        return self.log_e_values.size if self.rejected else None

    @property
    def log_threshold(self) -> float:
        """ln(1/alpha), the logarithm of the e-value at which the claim is rejected."""
        return -math.log(1 - self.confidence)

    @property
    def _last(self) -> float:
        """Amount that is added to the logarithm after the last pair."""
        return 0.0


class Evidence(Protocol):
    """E-values against claims, pair by pair: one part of a mixture."""

    @property
    def pairs(self) -> int:
        """Pairs seen so far."""

    @property
    def log_e_values(self) -> Floats:
        """(pairs,) logarithm of the e-value against the tested claim after each pair."""

    def epsilon_paths(self, epsilons: Floats, delta: float) -> Floats:
        """Replay the pairs against claims of (epsilon, delta)-DP."""

    def mu_paths(self, mus: Floats) -> Floats:
        """Replay the pairs against claims of mu-GDP."""


Replay = Callable[[Evidence, Floats], Floats]


class AnytimeTest(EValueTest):
    """A test of a claim (a guarantee) about pairs by an e-value, which may stop after any pair."""

    claim: Guarantee

    @property
    @abstractmethod
    def pairs(self) -> int:
        """Pairs seen so far."""

    @abstractmethod
    def epsilon_paths(self, epsilons: Floats, delta: float) -> Floats:
        """(C, pairs) log e-values against claims of (epsilon, delta)-DP, from (C,) epsilons."""

    @abstractmethod
    def mu_paths(self, mus: Floats) -> Floats:
        """Replay the pairs against claims of (C,) mu-GDP: (C, pairs) log e-values."""

    def epsilon_lower_bound(self, delta: float) -> Estimate:
        """Largest epsilon for which it and all smaller values are rejected at `delta`, in [0, 1).

        Guarantee: Exceeds the true epsilon(delta) with probability at most 1 - confidence, at any
        stopping time.
        """
        delta_value(delta)
        value = self._scan(lambda one, epsilons: one.epsilon_paths(epsilons, delta))
        return Estimate(
            "e_process", "lower_bound", value, delta, self.confidence, {"pairs": self.pairs},
            ASSUMES, threshold=CHOSEN,
        )  # fmt: skip

    def mu_lower_bound(self, delta: float = 1e-5) -> Estimate:
        """Largest mu for which its mu-GDP claim and all smaller ones are rejected.

        Args:
            delta: Failure probability in (0, 1) at which `details["implied_epsilon"]` is stated,
                which is a bound only if the mechanism is Gaussian; `epsilon` is None.

        Guarantee:
            Exceeds the true mu of a mu-GDP mechanism with probability at most 1 - confidence, at
            any stopping time.
        """
        if delta_value(delta) == 0:
            raise UsageError(
                "delta is 0; a bound on mu implies no finite epsilon there. Use a delta such as "
                "1e-5."
            )
        mu = self._scan(lambda one, mus: one.mu_paths(mus))
        implied = {"implied_epsilon": gdp_epsilon(mu, delta)}
        return Estimate(
            "e_process_mu", "lower_bound", None, delta, self.confidence, {"pairs": self.pairs},
            (*ASSUMES, IMPLIED), mu=mu, threshold=CHOSEN, details=implied,
        )  # fmt: skip

    def _scan(self, paths: Replay) -> float:
        """The last rejected claim on the grid before the first one that is not rejected.

        The scan errs only if it rejects a true claim. The claims are nested, so the smallest claim
        on the grid above the truth is true. To report more than the truth, the scan would have to
        reject that claim.
        """
        low = 0.0
        for claims, rejected in self._chunks(paths):
            stands = np.flatnonzero(~rejected)
            if stands.size:
                return float(claims[stands[0] - 1]) if stands[0] else low
            low = float(claims[-1])
        return low

    def _chunks(self, paths: Replay) -> Iterator[tuple[Floats, Bools]]:
        """Chunks of the grid, and which claims of each the pairs so far reject."""
        if not self.pairs:
            return
        yield GRID[:1], self._rejects(paths, GRID[:1])  # neighbours share stakes; 0 has none
        size = max(1, min(CHUNK, CELLS // self.pairs))
        for start in range(1, GRID.size, size):
            claims = GRID[start : start + size]
            yield claims, self._rejects(paths, claims)

    @abstractmethod
    def _rejects(self, paths: Replay, claims: Floats) -> Bools:
        """(C,) which claims the pairs so far reject."""

    def _reaches(self, path: Floats) -> Bools:
        """(C,) which of the (C, pairs) logarithms reach the threshold."""
        reached = np.maximum(path.max(1), path[:, -1] + self._last)
        return np.asarray(reached >= self.log_threshold)


ROUNDING = 1e-12  # tolerance for the sum of the weights


class MixedEProcess(AnytimeTest):
    """Anytime-valid test of a claim by the weighted mean of e-values over the same pairs.

    Each part may look at a different aspect of a pair. The mean is taken after each pair and for
    each claim separately. Only then is it stopped or maximised. The mean is an e-process because
    its parts are; a sum of the parts' maxima would not be. A part of weight w needs an e-value 1/w
    times as large as it would need alone.

    Args:
        claim: Guarantee to be tested, the same as that of all parts.
        parts: Evidence by name, each with its weight. Weights are above 0, sum to at most 1, and
            are fixed before the first pair. The caller feeds the parts. They must have seen the
            same number of pairs whenever the mixture is read.

    Raises:
        UsageError: If there is no part, a weight is not above 0, or the weights sum to more than 1.

    Guarantee:
        If the claim holds for every pair given the past, it is rejected with probability at most
        1 - confidence, at any stopping time.

    Reference:
        Vovk and Wang, "E-values: calibration, combination and applications" (Annals of Statistics
        2021).

    Examples:
        >>> from leakbound.privacy import PureDP
        >>> from leakbound.stats import EProcess
        >>> blind, seeing = EProcess(PureDP(0.5)), EProcess(PureDP(0.5))
        >>> mixed = MixedEProcess(PureDP(0.5), {"blind": (0.9, blind), "seeing": (0.1, seeing)})
        >>> blind.extend([[0.5]] * 40, [[0.5]] * 40)
        >>> seeing.extend([[1.0]] * 40, [[0.0]] * 40)
        >>> seeing.rejected_at, mixed.rejected_at
        (8, 12)
    """

    def __init__(
        self,
        claim: Guarantee,
        parts: Mapping[str, tuple[float, Evidence]],
        confidence: float = 0.95,
    ) -> None:
        self.claim, self.confidence = claim, confidence_level(confidence)
        self.parts = dict(parts)
        weights = [weight for weight, _ in self.parts.values()]
        if not (weights and min(weights) > 0 and sum(weights) <= 1 + ROUNDING):
            raise UsageError(
                f"the weights of a mixture are {weights}; they must be above 0 and sum to at most "
                "1."
            )

    @property
    def pairs(self) -> int:
        seen = {name: part.pairs for name, (_, part) in self.parts.items()}
        if len({*seen.values()}) > 1:
            raise UsageError(
                f"the parts of a mixture have seen {seen} pairs; give every pair to every part."
            )
        return min(seen.values())

    @property
    def log_e_values(self) -> Floats:
        return np.asarray(self._mean(lambda part: part.log_e_values[None])[0])

    def epsilon_paths(self, epsilons: Floats, delta: float) -> Floats:
        return self._mean(lambda part: part.epsilon_paths(epsilons, delta))

    def mu_paths(self, mus: Floats) -> Floats:
        return self._mean(lambda part: part.mu_paths(mus))

    def leading(self, replay: Callable[[Evidence], Floats]) -> str:
        """Name of the part with the largest share of the mean, when that was largest.

        Args:
            replay: (1, pairs) logarithms of the e-values of a part against one claim.
        """
        at = int(self._mean(replay)[0].argmax())
        shares = {
            name: np.log(weight) + replay(part)[0, at]
            for name, (weight, part) in self.parts.items()
        }
        return max(shares, key=lambda name: float(shares[name]))

    def _rejects(self, paths: Replay, claims: Floats) -> Bools:
        """Heaviest parts first. The sum only grows, and what it rejects needs no other part."""
        heaviest = sorted(self.parts.values(), key=lambda part: -part[0])
        mean = np.full((claims.size, self.pairs), -np.inf)
        for weight, part in heaviest:
            stands = np.flatnonzero(~self._reaches(mean))
            if not stands.size:
                break
            rest = slice(stands[0] // STRIDE * STRIDE, None)  # neighbours share their stakes
            found = np.log(weight) + paths(part, claims[rest])
            mean[rest] = np.logaddexp(mean[rest], found)
        return self._reaches(mean)

    def _mean(self, paths: Callable[[Evidence], Floats]) -> Floats:
        """(C, pairs) logarithms of the weighted mean."""
        seen = self.pairs
        found = [(np.log(weight), paths(part)[:, :seen]) for weight, part in self.parts.values()]
        if len(found) == 1:
            return np.asarray(found[0][0] + found[0][1])
        return np.asarray(scipy.special.logsumexp([log + path for log, path in found], axis=0))
