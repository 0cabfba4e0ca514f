"""What answers cost: guarantees as text, and their composition."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from leakbound.errors import UsageError
from leakbound.privacy import (
    RDP,
    ZCDP,
    ApproxDP,
    BoundedRange,
    DiscreteGaussian,
    Gaussian,
    Guarantee,
    NonPrivate,
    PureDP,
    Subsampled,
    compose,
    leaves,
)

Kept = (
    ApproxDP | BoundedRange | DiscreteGaussian | Gaussian | NonPrivate | PureDP | RDP | Subsampled
    | ZCDP
)  # fmt: skip
KINDS: dict[str, type[Kept]] = {
    kind.__name__: kind
    for kind in (
        ApproxDP,
        BoundedRange,
        DiscreteGaussian,
        Gaussian,
        NonPrivate,
        PureDP,
        RDP,
        ZCDP,
        Subsampled,
    )
}


def to_json(guarantee: Guarantee) -> str:
    """Write a guarantee as JSON, by kinds and public fields."""
    found = [
        {"kind": type(part).__name__, **asdict(part)} for part in map(_kept, leaves(guarantee))
    ]
    return json.dumps(found, sort_keys=True)


def from_json(text: str) -> Guarantee:
    """Read the guarantee that `to_json` wrote."""
    return compose([KINDS[part.pop("kind")](**part) for part in json.loads(text)])


def _kept(part: Guarantee) -> Kept:
    """A guarantee of a kind that the ledger can read back."""
    kind = KINDS.get(type(part).__name__)
    if kind is None or not isinstance(part, Kept) or type(part) is not kind:
        raise UsageError(
            f"the ledger cannot keep a guarantee of the kind {type(part).__name__}; it must be one "
            f"of {', '.join(KINDS)} or a composition of them. State the guarantee as one of these."
        )
    return part


def composed_epsilon(counts: Sequence[tuple[Guarantee, int]], delta: float) -> float:
    """epsilon(delta) of several answers, some with equal guarantees."""
    parts = [part for guarantee, times in counts for part in leaves(guarantee) * times]
    return compose(_merged(parts)).epsilon(delta) if parts else 0.0


def _merged(parts: list[Guarantee]) -> list[Guarantee]:
    """Join subsampled Gaussians of equal noise and rate into one guarantee over all their steps.

    This is valid because each answer draws fresh samples.
    """
    steps: Counter[tuple[float, float]] = Counter()
    for part in parts:
        if isinstance(part, Subsampled):
            steps[part.sigma, part.rate] += part.steps
    rest = [part for part in parts if not isinstance(part, Subsampled)]
    return rest + [Subsampled(sigma, rate, total) for (sigma, rate), total in steps.items()]
