"""Shipped tests: what every mechanism and every estimator must hold, for your own as well."""

from leakbound.testing.conformance import INVARIANTS, Invariant, assert_conforms, conform
from leakbound.testing.conformance_parts import Check
from leakbound.testing.estimators import (
    ESTIMATOR_INVARIANTS,
    assert_estimator_conforms,
    conform_estimator,
)

__all__ = [
    "ESTIMATOR_INVARIANTS", "INVARIANTS", "Check", "Invariant", "assert_conforms",
    "assert_estimator_conforms", "conform", "conform_estimator",
]  # fmt: skip
