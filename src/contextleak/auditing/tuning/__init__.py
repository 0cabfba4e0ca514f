"""Tuning: a better wording for the audit query, searched on pilot pairs that no audit of the same seed ever sees."""

from contextleak.auditing.tuning.pilot import OutOfCalls, Pilot
from contextleak.auditing.tuning.search import Tuned, attack_file, dspy_metric, open_pilot, save_attack, tune
from contextleak.auditing.tuning.words import REFLECTION, REWRITES

__all__ = [
    "REFLECTION", "REWRITES", "OutOfCalls", "Pilot", "Tuned", "attack_file", "dspy_metric", "open_pilot", "save_attack", "tune",
]  # fmt: skip
