"""Estimators: values that turn paired trials into bounds. `ESTIMATORS` holds those that may decide.

A new one is one class (see `Estimator`), and one line here or an entry point in the group
`leakbound.estimators`.
"""

from __future__ import annotations

from leakbound._catalogue import Catalogue
from leakbound.estimators.accuracy_bound import AccuracyBound
from leakbound.estimators.accuracy_log_odds import AccuracyLogOdds
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
from leakbound.estimators.clopper_pearson import ClopperPearson
from leakbound.estimators.e_process import EProcess
from leakbound.estimators.exact import Exact
from leakbound.estimators.joint_beta import JointBeta
from leakbound.estimators.unconditional import Unconditional
from leakbound.estimators.votes import VoteBand

__all__ = [
    "ESTIMATORS", "REPORTED", "AccuracyBound", "AccuracyLogOdds", "Bounds", "Claim",
    "ClopperPearson", "EProcess", "Estimator", "Exact", "JointBeta", "Observations",
    "Observer", "PairedScores", "TrialDesign", "Unconditional", "VoteBand", "require_deciding",
    "threshold_rule",
]  # fmt: skip

ESTIMATORS: Catalogue[Estimator] = Catalogue(
    "the estimator",
    "leakbound.estimators",
    (EProcess, ClopperPearson, VoteBand, Unconditional),
)
REPORTED: tuple[Estimator, ...] = (
    EProcess(), ClopperPearson(), AccuracyBound(), JointBeta(), AccuracyLogOdds(), VoteBand(),
    Exact(),
)  # fmt: skip  # every result holds what these say, each where it can read the design
