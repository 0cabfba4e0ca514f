"""May an estimator that sees no output, and takes the noise as declared, find no violation?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from leakbound.auditing.verdict import Obstacle, rejections
from leakbound.estimators import Estimator, TrialDesign
from leakbound.estimators.base import Reads
from leakbound.stats import Estimate, NoiseFit

OUTPUTS: frozenset[Reads] = frozenset({"trials", "text", "replies"})  # what is released
Found = Mapping[Estimator, tuple[Estimate, ...]]


def noise_obstacles(
    design: TrialDesign, estimator: Estimator, found: Found, noise: NoiseFit | None
) -> tuple[Obstacle, ...]:
    """What refutes the declared noise, where the deciding estimator takes it as declared."""
    if estimator.reads & OUTPUTS:
        return ()
    why = (*_untested(design, noise), *_rejected(design, found))
    rest = f"{estimator.name} takes the noise as declared; use --estimator e_process."
    return tuple(("declared_noise", f"{each}, and {rest}") for each in why)


def _untested(design: TrialDesign, noise: NoiseFit | None) -> Iterator[str]:
    if noise is None and design.sigma is not None:
        yield "the noise of the outputs could not be tested"
    if noise is not None and not noise.fits:
        yield str(noise)


def _rejected(design: TrialDesign, found: Found) -> Iterator[str]:
    """One bound that reads outputs and holds at any time: many bounds would err more often."""
    for other, bounds in found.items():
        reading = other.anytime and other.reads & OUTPUTS
        if reading and bounds and rejections(design, other, bounds):
            yield f"{other.name}, which reads the outputs, rejects what is tested"
