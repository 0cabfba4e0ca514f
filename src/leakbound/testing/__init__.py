"""Shipped tests: what every mechanism must hold, for your own as well.

`leakbound_lab.estimator_conformance` has those of estimators.
"""

from leakbound.testing.conformance import INVARIANTS, Invariant, assert_conforms, conform
from leakbound.testing.conformance_parts import Check

__all__ = ["INVARIANTS", "Check", "Invariant", "assert_conforms", "conform"]
