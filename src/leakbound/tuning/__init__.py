"""Tuning: a better wording for the query, searched on pilot pairs that no audit of the same
seed ever sees.
"""

from leakbound.tuning.pilot import OutOfCalls, Pilot
from leakbound.tuning.search import Tuned, attack_file, dspy_metric, open_pilot, save_attack, tune
from leakbound.tuning.words import REFLECTION, REWRITES

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
]
