"""Canaries that are images: one like no other, and a real one with a mark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from leakbound.attacks.protocols import Canary
from leakbound.errors import UsageError
from leakbound.models.content import images_in
from leakbound.tasks import Example
from leakbound.tasks.images import as_image, pixels
from leakbound.tasks.synthetic_images import marked, patchwork


@dataclass(frozen=True, slots=True)
class Patchwork(Canary):
    """Squares of random colours, fresh for every pair: an image like no class."""

    name: ClassVar[str] = "patchwork"

    def make(self, held_out: Example, label: str, rng: np.random.Generator) -> Example:
        """Squares coloured by `rng`, under `label`; nothing of `held_out` is used."""
        return Example(as_image(patchwork(rng)), label)


@dataclass(frozen=True, slots=True)
class Marked(Canary):
    """A real image that the context does not hold, with a small random pattern in a corner."""

    name: ClassVar[str] = "marked"

    def make(self, held_out: Example, label: str, rng: np.random.Generator) -> Example:
        """The first image of `held_out` with a mark of `rng`, under its own label, not `label`."""
        images = images_in(held_out.input)
        if not images:
            raise UsageError(
                "the canary marked is a marked image, and the rows hold texts; use hex or natural."
            )
        return Example(as_image(marked(pixels(images[0]), rng)), held_out.label)
