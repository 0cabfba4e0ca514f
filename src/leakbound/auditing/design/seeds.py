"""Seeds: every random choice derives from (root seed, purpose, indices), so order and resuming
never change a result.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

Purpose = Literal[
    "data", "design", "release", "simulate", "pilot", "tuning", "utility", "order", "control",
    "state", "coin",
]  # fmt: skip
_STREAMS: dict[Purpose, int] = {
    "data": 0, "design": 1, "release": 2, "simulate": 3, "pilot": 4, "tuning": 5, "utility": 6,
    "order": 7, "control": 8, "state": 9, "coin": 10,
}  # fmt: skip


def generator(root: int, purpose: Purpose, *index: int) -> np.random.Generator:
    """Make the generator of one purpose and index; no two of them share a stream."""
    return np.random.default_rng(
        np.random.SeedSequence(root, spawn_key=(_STREAMS[purpose], *index))
    )
