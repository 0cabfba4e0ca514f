"""The code bet: an e-process for replies that hold a random code of the canary.

A reply that does not depend on the canary holds its code by chance alone: of a code of k
hexadecimal digits, with a probability of at most q = L / 16^k, where no reply has more than L
characters. Under a claim of (epsilon, delta), a reply to the canary-in context holds it, given the
past, with a probability of at most r = e^epsilon q + delta, whatever else is true of it. So the
false alarms of this reading need not be estimated, and a few quoted codes reject any claim.

For a stated rate p > r, the likelihood ratio of "quoted" has an expectation of at most 1 under each
such probability; ratios are averaged over rates with fixed weights.

References: Ramdas, Grünwald, Vovk and Shafer (Statistical Science 2023), for e-processes; Carlini
et al., "The Secret Sharer" (USENIX Security 2019), for canaries with random digits.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from leakbound._check import confidence_level
from leakbound.errors import UsageError
from leakbound.privacy import Guarantee
from leakbound.stats.arrays import Floats
from leakbound.stats.e_values.e_process import LevelTest, read_levels

RATES = np.array([0.01, 0.05, 0.3, 0.9])  # of replies that quote the code
WEIGHTS = np.array([0.4, 0.2, 0.2, 0.2])


class CodeBet(LevelTest):
    """Anytime-valid test of `claim` by replies that quote a code, where `chance` is the largest
    probability that a reply which does not depend on the canary holds it: if the claim holds for
    every reply given the past, it is rejected with probability at most 1 - confidence, at any
    stopping time.

    Examples:
        >>> from leakbound.privacy import PureDP
        >>> bet = CodeBet(PureDP(1.0), chance=1e-9)
        >>> bet.extend([False] * 30 + [True])
        >>> bet.rejected, bet.rejected_at
        (True, 31)
    """

    def __init__(
        self,
        claim: Guarantee,
        chance: float,
        confidence: float = 0.95,
        deltas: tuple[float, ...] = (1e-5,),
    ) -> None:
        if not 0 < chance < 1:
            raise UsageError(f"chance is {chance!r}; it must be above 0 and below 1.")
        self.claim, self.confidence, self.chance = claim, confidence_level(confidence), chance
        self._levels = read_levels(claim, deltas)
        self._quoted: list[bool] = []

    def extend(self, quoted: npt.ArrayLike) -> None:
        """Observe replies to canary-in contexts in order: whether each holds the code."""
        self._quoted += np.asarray(quoted, bool).tolist()

    @property
    def pairs(self) -> int:
        return len(self._quoted)

    @property
    def hits(self) -> int:
        """Replies that held the code."""
        return sum(self._quoted)

    def _paths(self, epsilons: Floats, deltas: Floats) -> Floats:
        """(C, pairs) log e-values against claims of (C, L) levels, all of which limit the rate."""
        most = (np.exp(epsilons) * self.chance + deltas).min(1)[:, None, None]
        hits = np.cumsum(np.array(self._quoted, float))[None, None]
        misses = np.arange(1, self.pairs + 1)[None, None] - hits
        rates = RATES[None, :, None]
        bets = rates > most  # a rate that the claim allows bets nothing
        yes = np.where(bets, np.log(rates / np.where(bets, most, 0.5)), 0.0)
        no = np.where(bets, np.log((1 - rates) / (1 - np.where(bets, most, 0.0))), 0.0)
        gains = hits * yes + misses * no + np.log(WEIGHTS)[None, :, None]
        return np.asarray(logsumexp(gains, axis=1))
