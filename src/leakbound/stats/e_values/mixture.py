"""A weighted mean of e-processes: a single test that is nearly as strong as its best part."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from scipy.special import logsumexp

from leakbound._check import confidence_level
from leakbound.errors import UsageError
from leakbound.privacy import Guarantee
from leakbound.stats.arrays import Bools, Floats
from leakbound.stats.e_values.anytime import AnytimeTest, Evidence, Replay

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
        return int(self.log_e_values.size)

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
        """Heaviest parts first. The sum only grows, so stop once every claim is rejected."""
        heaviest = sorted(self.parts.values(), key=lambda part: -part[0])
        mean = np.full((claims.size, self.pairs), -np.inf)
        for weight, part in heaviest:
            mean = np.logaddexp(mean, np.log(weight) + paths(part, claims))
            if self._reaches(mean).all():
                break
        return self._reaches(mean)

    def _mean(self, paths: Callable[[Evidence], Floats]) -> Floats:
        """(C, pairs) logarithms of the weighted mean."""
        found = [(np.log(weight), paths(part)) for weight, part in self.parts.values()]
        if len({path.shape for _, path in found}) > 1:
            seen = {name: part.log_e_values.size for name, (_, part) in self.parts.items()}
            raise UsageError(
                f"the parts of a mixture have seen {seen} pairs; give every pair to every part."
            )
        if len(found) == 1:
            return np.asarray(found[0][0] + found[0][1])
        return np.asarray(logsumexp([log + path for log, path in found], axis=0))
