"""Checks of parts of your own: what every mechanism and every estimator must hold."""

from leakbound_lab.conformance.estimators import assert_estimator_conforms, conform_estimator
from leakbound_lab.conformance.mechanisms import INVARIANTS, Invariant, assert_conforms, conform
from leakbound_lab.conformance.parts import Check

__all__ = [
    "INVARIANTS", "Check", "Invariant", "assert_conforms", "assert_estimator_conforms", "conform",
    "conform_estimator",
]  # fmt: skip
