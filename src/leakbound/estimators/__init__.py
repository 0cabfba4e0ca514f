"""Estimators: values that turn paired trials into bounds. `ESTIMATORS` lists those that may decide.

To add one, write a class (see `Estimator`), and add a line here or an entry point in the group
`leakbound.estimators`.
"""

from __future__ import annotations

from leakbound._catalogue import Catalogue
from leakbound.estimators.base import (
    Bounds,
    Claim,
    Estimator,
    Observations,
    Observer,
    PairedScores,
    TrialDesign,
    require_deciding,
    threshold_rule,
)
from leakbound.estimators.e_process import EProcess
from leakbound.estimators.error_counts import (
    AccuracyBound,
    AccuracyLogOdds,
    ClopperPearson,
    FixedPairs,
    JointBeta,
    Unconditional,
)
from leakbound.estimators.exact import Exact
from leakbound.estimators.score_bounds import ScoreBounds, ScoredTrials, score_bounds

__all__ = [
    "ESTIMATORS", "REPORTED", "Bounds", "Claim",
    "ClopperPearson", "EProcess", "Estimator", "Exact", "FixedPairs", "Observations",
    "Observer", "PairedScores", "ScoreBounds", "ScoredTrials", "TrialDesign", "Unconditional",
    "require_deciding", "score_bounds", "threshold_rule",
]  # fmt: skip

ESTIMATORS: Catalogue[Estimator] = Catalogue(
    "the estimator", "leakbound.estimators", (EProcess, ClopperPearson, Unconditional, FixedPairs)
)
REPORTED: tuple[Estimator, ...] = (
    EProcess(), ClopperPearson(), AccuracyBound(), JointBeta(), AccuracyLogOdds(), Exact(),
)  # fmt: skip  # every result has the estimates of these, if they can read the design
