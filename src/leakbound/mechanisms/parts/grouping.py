"""How many examples each partition or expert of a service gets: a rule over public facts only.

The grouping must not depend on any row, so this module sees no rows. Its result becomes part of the
mechanism's options, and hence of the manifest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from leakbound.privacy import calibrate_gaussian

# smallest number in a partition, as in DP-ICL; with fewer, the model repeats the label it was shown
LEAST_EXAMPLES = 4
NOISE_WIDTHS = 6  # a lead of half of 6 sigma is two standard deviations of two noisy counts


@dataclass(frozen=True, slots=True)
class PublicFacts:
    """Public facts that may decide how the examples of a service are grouped.

    Attributes:
        shots: J, the number of examples in the context; public under replace_one.
        labels: Number of labels of the task; 0 if answers are free.
        epsilon: epsilon of the claim for one answer, above 0.
        delta: delta of the claim; in (0, 1) for votes with Gaussian noise.
    """

    shots: int
    labels: int
    epsilon: float
    delta: float

    @property
    def least(self) -> int:
        """Number of examples that a vote should see: one for each label, and at least 4."""
        return max(LEAST_EXAMPLES, self.labels)

    @property
    def per_expert(self) -> int:
        """Number of examples behind one score vector. With labels it is two, to distinguish a label
        that fits from one that is merely shown. It is one if answers are free.
        """
        return 2 if self.labels else 1

    def partitions(self, examples: int) -> int:
        """As many partitions as the noise requires, as long as each sees enough examples.

        Args:
            examples: Smallest number of examples in a partition, if there are enough.

        Returns:
            J/examples, rounded down. At most 6 sigma, rounded up, where sigma is the noise of votes
            at the claim: beyond that, larger partitions help more than additional votes. This limit
            does not apply at delta = 0, where no noise is Gaussian. At least 1.

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
