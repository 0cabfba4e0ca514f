"""Base of anytime-valid tests: an e-value after each pair, and bounds from a scan of claims.

A claim is rejected once its e-value reaches 1/alpha. The claims of a scan are nested. The bound is
the largest claim on a fixed grid for which it and all smaller claims are rejected.

References: Ville (1939); Ramdas, Grünwald, Vovk and Shafer, "Game-theoretic statistics and safe
anytime-valid inference" (Statistical Science 2023).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np

from leakbound._check import delta_value
from leakbound.errors import UsageError
from leakbound.privacy import Guarantee, gdp_epsilon
from leakbound.stats.arrays import Bools, Floats
from leakbound.stats.estimate import IMPLIED, Estimate

# claims that a bound scans: 1 % apart, up to 20; no practical number of pairs certifies more
GRID = np.concatenate([[0.0], 0.01 * 1.01 ** np.arange(765)])
CHUNK = 192  # claims tested at once; most scans end within the first few chunks
CELLS = 4_000_000  # claims times pairs held at once; about 100 MB of gains and paths
ASSUMES = ("pairs are independent, or drawn so that the claim holds for each given the past",)
CHOSEN = "chosen before each pair from earlier pairs"


class EValueTest(ABC):
    """A test of one claim by an e-value, which rejects once it reaches 1/alpha.

    Attributes:
    """

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
        """Number of pairs, or scores, after which the claim was first rejected; None if it was
        not."""
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
    def log_e_values(self) -> Floats:
        """(pairs,) logarithm of the e-value against the tested claim after each pair."""

    def epsilon_paths(self, epsilons: Floats, delta: float) -> Floats:
        """Replay the pairs against claims of (epsilon, delta)-DP."""

    def mu_paths(self, mus: Floats) -> Floats:
        """Replay the pairs against claims of mu-GDP."""


Replay = Callable[[Evidence, Floats], Floats]


class AnytimeTest(EValueTest):
    """A test of a claim about pairs by an e-value. It can be read and stopped after any pair.

    Attributes:
        claim: Guarantee that is tested.
    """

    claim: Guarantee

    @property
    @abstractmethod
    def pairs(self) -> int:
        """Pairs seen so far."""

    @abstractmethod
    def epsilon_paths(self, epsilons: Floats, delta: float) -> Floats:
        """Replay the pairs against claims of (epsilon, delta)-DP: (C, pairs) log e-values.

        Args:
            epsilons: (C,) claimed values, at least 0.
            delta: Failure probability of all claims, in [0, 1).
        """

    @abstractmethod
    def mu_paths(self, mus: Floats) -> Floats:
        """Replay the pairs against claims of (C,) mu-GDP: (C, pairs) log e-values."""

    def epsilon_lower_bound(self, delta: float) -> Estimate:
        """Largest epsilon for which it and all smaller values are rejected at `delta`, in [0, 1).

        Guarantee:
            Exceeds the true epsilon(delta) with probability at most 1 - confidence, at any
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
