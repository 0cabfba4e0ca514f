"""What replies could have certified where they alone show the canary, and no score does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle, islice

import numpy as np

from leakbound.estimators.base import (
    Bounds,
    Estimator,
    Observations,
    PairedScores,
    ReplyPair,
    TrialDesign,
)


def reach_of_replies(
    design: TrialDesign, estimator: Estimator, pairs: int, shown: Sequence[tuple[ReplyPair, str]]
) -> Bounds:
    """The bounds if the replies of every pair differ as those of the controls do.

    A witness has to learn what a score knows from the start, so it certifies less with as many
    pairs. A system that leaks by its failures alone shows no score anything.
    """
    tested = estimator.tested_pairs(design, pairs) - len(shown)
    if tested <= 0 or not shown:
        return Bounds(0.0, 0.0)
    shorter = replace(design, pairs=max(1, design.pairs - len(shown)), first_look=None)
    values, silent, drawn = estimator.begin(shorter), np.zeros(tested), np.zeros((tested, 1))
    values.observe(
        Observations(
            design.pilot,
            tested,
            trial_scores=PairedScores(silent, silent),
            simulated_scores=PairedScores(drawn, drawn),
            reply_pairs=tuple(islice(cycle(shown), tested)),
        )
    )
    epsilon, mu = values.bounds()
    return Bounds(epsilon.epsilon or 0.0, mu.mu or 0.0)
