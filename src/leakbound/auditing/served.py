"""Outputs made exactly as production makes them: one draw a call, a fresh generator for each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from leakbound.auditing.design import Pair
from leakbound.auditing.seeds import generator
from leakbound.auditing.store import EvidenceRow
from leakbound.estimators.base import Distribution, DistributionPair
from leakbound.stats import GaussianLaw, NoiseFit, noise_goodness_of_fit
from leakbound.tasks import Aggregate, Mechanism, Outputs, Votes

Floats = npt.NDArray[np.float64]
BETWEEN, DRAWN = 2, 3  # streams of a pair beside those of its two contexts
MOST_BETWEEN = 3  # 0, 1 or 2 outputs between pairs: enough to leave any fixed period
NOISE_LEVEL = 0.001  # of the noise test, apart from the verdict's: one audit in 1,000 finds noise
FEWEST = 8  # outputs below which the noise is not tested
DIGITS = 9  # noise that agrees in so many decimals is the same noise


class ServedOutputs:
    """Releases the outputs of trials, in the order in which the contexts are asked.

    Where the last output has noise that was used before, the last aggregate is released again, a
    drawn number of times, before the next pair: a mechanism that uses each noise for so many
    outputs must not always use it for both contexts of one pair, where no single output shows it.
    Fresh noise never comes back, so a correct mechanism is called once for each output.
    """

    def __init__(self, mechanism: Mechanism, seed: int, answers: int, watched: bool) -> None:
        self._mechanism, self._seed = mechanism, seed
        self._answers, self._watched = answers, watched
        self._last: tuple[Aggregate, Distribution] | None = None
        self._used: set[bytes] = set()
        self._repeated = False
        self.sigma: float | None = None
        self.noise: list[Floats] = []
        self.counted = self.unlike = 0

    def pair(
        self, pair: Pair, row: EvidenceRow, laws: DistributionPair = (None, None)
    ) -> tuple[list[Outputs], list[Outputs]]:
        """The outputs that the trials of a pair see."""
        found: list[list[Outputs]] = [[], []]
        for of in (1, 0) if pair.out_first else (0, 1):
            for k in range(self._answers):
                found[of].append(self._call(row.both[of], laws[of], pair, of, k))
        return found[0], found[1]

    def before(self, pair: Pair) -> Floats | None:
        """Perhaps release the last aggregate again."""
        if not self._watched or self._last is None:
            return None
        if self._repeated:
            drawn = generator(self._seed, "release", abs(pair.index), DRAWN).integers(MOST_BETWEEN)
            for k in range(int(drawn)):
                self._call(*self._last, pair, BETWEEN, k)
        return self.noise[-1] if self.noise else None

    def _call(
        self, aggregate: Aggregate, law: Distribution, pair: Pair, stream: int, k: int
    ) -> Outputs:
        index = (stream, k) if k else (stream,)
        rng = generator(self._seed, "release", abs(pair.index), *index)
        outputs = self._mechanism.release(aggregate, 1, rng)
        self._last = aggregate, law
        self._compare(aggregate, outputs)
        if not isinstance(law, GaussianLaw) or outputs.noisy is None:
            return outputs
        noise = np.asarray(outputs.noisy[0] - law.mean)
        if np.isfinite(noise).all():
            self.sigma = law.sigma
            self.noise.append(noise)
            key = (noise.round(DIGITS) + 0.0).tobytes()
            self._repeated = key in self._used
            self._used.add(key)
        return outputs

    def _compare(self, aggregate: Aggregate, outputs: Outputs) -> None:
        """Is the answer what the released counts say? Only then do scores speak for answers."""
        if not isinstance(aggregate, Votes) or outputs.noisy is None or outputs.choices:
            return
        if outputs.noisy.shape[1] == len(aggregate.counts):
            self.counted += 1
            self.unlike += int(outputs.answers[0]) != int(outputs.noisy[0].argmax())

    def noise_fit(self) -> NoiseFit | None:
        """Does the noise of the outputs so far follow the declared distribution?"""
        if not self.sigma or len(self.noise) < FEWEST:
            return None
        same = len({noise.shape for noise in self.noise}) == 1
        residuals = np.stack(self.noise) if same else np.concatenate(self.noise)
        return noise_goodness_of_fit(residuals, self.sigma, NOISE_LEVEL)


def corrected(outputs: Outputs, noise: Floats | None) -> Outputs | None:
    """Outputs less some noise."""
    if noise is None or outputs.noisy is None or outputs.noisy.shape[1] != noise.size:
        return None
    return replace(outputs, noisy=outputs.noisy - noise)
