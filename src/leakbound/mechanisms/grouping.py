"""How many examples each partition or expert of a service gets: a rule over public facts alone.

One row must not decide it, so nothing here sees a row. What the rule gives stands in the options of
the mechanism, and so in the manifest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from leakbound.privacy import calibrate_gaussian

__all__ = ["PublicFacts"]

# of a partition, as in DP-ICL: with fewer it repeats the label that it was shown
LEAST_EXAMPLES = 4
NOISE_WIDTHS = 6  # a lead of half of so many sigma is two standard deviations of two noisy counts


@dataclass(frozen=True, slots=True)
class PublicFacts:
    """What may decide how the examples of a service are grouped.

    Attributes:
        shots: J, the number of examples of the context; public under replace_one.
        labels: Number of labels of the task; 0 where answers are free.
        epsilon: epsilon of the claim of one answer, above 0.
        delta: delta of the claim, in (0, 1) for what votes with Gaussian noise.
    """

    shots: int
    labels: int
    epsilon: float
    delta: float

    @property
    def least(self) -> int:
        """Examples that a vote should see: one of each label, and at least 4."""
        return max(LEAST_EXAMPLES, self.labels)

    @property
    def per_expert(self) -> int:
        """Examples behind one vector of scores: two where there are labels, which tell a label that
        fits from one that is merely shown; one where answers are free.
        """
        return 2 if self.labels else 1

    def partitions(self, examples: int) -> int:
        """As many partitions as the noise needs, as long as each sees enough examples.

        Args:
            examples: Number of examples that a partition sees at least, where there are so many.

        Returns:
            J/examples, rounded down; at most 6 sigma, rounded up, with the sigma of votes at the
            claim, because beyond it larger partitions help more than further votes, and without
            that limit at delta = 0, where no noise is Gaussian; at least 1.

        Examples:
            >>> PublicFacts(20, 4, 4.0, 1e-5).partitions(4)
            5
            >>> [PublicFacts(400, 4, epsilon, 1e-5).partitions(4) for epsilon in (1.0, 4.0)]
            [32, 10]
        """
        most = self.shots // examples
        if self.delta > 0:
            noise = calibrate_gaussian(self.epsilon, self.delta, math.sqrt(2))
            most = min(most, math.ceil(NOISE_WIDTHS * noise))
        return max(1, most)
