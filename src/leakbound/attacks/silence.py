"""A score of silence: that there was no answer can tell two contexts apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from leakbound.attacks.protocols import Floats, RenderedQuery, Score
from leakbound.stats import Fixed, ThresholdRule
from leakbound.tasks import Access, Outputs


@dataclass(frozen=True, slots=True)
class Unanswered(Score):
    """1 where the output is none of the answers, else 0: a refusal, a content filter, no text.

    It finds a model or a service that answers, and keeps silent once the canary is in its context.
    """

    name: ClassVar[str] = "unanswered"
    access: ClassVar[Access] = "black_box"
    threshold: ClassVar[ThresholdRule] = Fixed(0.5)

    def levels(self, voters: int) -> Floats:
        """The one threshold there is, for any number of `voters`."""
        return np.array([0.5])

    def score(self, outputs: Outputs, rendered: RenderedQuery, answers: tuple[str, ...]) -> Floats:
        """(draws,) is what `outputs` say none of the `answers` to `rendered`?"""
        return np.asarray(outputs.answers >= len(answers), float)
