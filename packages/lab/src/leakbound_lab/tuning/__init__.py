"""Tuning: a better wording for the query, searched on pilot pairs that no audit of the same
seed ever sees.
"""

from leakbound_lab.tuning.pilot import OutOfCalls, Pilot
from leakbound_lab.tuning.search import (
    Tuned,
    attack_file,
    dspy_metric,
    open_pilot,
    save_attack,
    tune,
    tune_spec,
)
from leakbound_lab.tuning.words import REFLECTION, REWRITES

__all__ = [
    "REFLECTION",
    "REWRITES",
    "OutOfCalls",
    "Pilot",
    "Tuned",
    "attack_file",
    "dspy_metric",
    "open_pilot",
    "save_attack",
    "tune",
    "tune_spec",
]
