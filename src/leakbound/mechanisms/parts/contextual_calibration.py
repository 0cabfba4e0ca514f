"""Contextual calibration: scores of answers minus those for a query without content.

A model that sees few examples tends to repeat the label that they show, whatever the query. The
same prompt with a content-free query measures that tendency, which is then subtracted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from leakbound.mechanisms.parts.tokens import finite
from leakbound.models import ScoreLabels
from leakbound.stats.arrays import Floats
from leakbound.tasks import Context, Query, Task

Prior = Literal["none", "uniform", "content_free"]
CONTENT_FREE = "N/A"  # the first of the content-free inputs of Zhao et al.; public


def score_requests(
    task: Task, parts: Sequence[Context], query: Query, calibrated: bool = True
) -> list[ScoreLabels]:
    """Requests for the scores of each part, then where they are calibrated for each part those of a
    content-free query.

    Guarantee: Both requests of a part depend only on that part and on public information. However
    their replies are combined, replacing an example changes the result of one part.
    """
    answers = task.answers(query)
    asked = (query, Query(CONTENT_FREE)) if calibrated else (query,)
    return [
        ScoreLabels(task.prompt(part, one), answers, alone=True) for one in asked for part in parts
    ]


def less_prior(replies: Sequence[npt.ArrayLike]) -> Floats:
    """Scores minus those of the content-free query (Zhao et al., ICML 2021)."""
    asked, empty = np.split(np.asarray(replies, float), 2)
    shown = np.isfinite(asked) & np.isfinite(empty)
    return np.where(shown, finite(asked) - finite(empty), np.nan)
