"""The score of attacks on documents: what the attack makes of the replies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from leakbound.attacks.protocols import Floats, RenderedQuery, Score
from leakbound.attacks.retrieval.attack import DocumentQuery
from leakbound.attacks.texts import output_texts
from leakbound.errors import UsageError
from leakbound.stats import Split, ThresholdRule
from leakbound.tasks import Access, Outputs


@dataclass(frozen=True, slots=True)
class DocumentScore(Score):
    """The number from -1 to 1 that an attack on a document makes of all replies about it.

    Its threshold is chosen on other documents than those of the bound: on the control canaries of a
    one_run design, on the first pairs of others. With `--threshold rank` there is none.
    """

    name: ClassVar[str] = "document"
    access: ClassVar[Access] = "black_box"
    threshold: ClassVar[ThresholdRule] = Split(0.2)
    free: ClassVar[bool] = True

    def levels(self, voters: int) -> Floats:
        """Tenths from -0.95 to 0.95, between most scores, for any number of `voters`."""
        return np.arange(-9.5, 10.0) / 10

    def score(self, outputs: Outputs, rendered: RenderedQuery, answers: tuple[str, ...]) -> Floats:
        """(draws,) what the attack of `rendered` makes of `outputs`; `answers` is empty."""
        if not isinstance(rendered, DocumentQuery):
            raise UsageError(
                "the score document is that of queries about documents, such as mba; use --score "
                "contains_canary."
            )
        return np.array([rendered.evaluate(text) for text in output_texts(outputs)])
