"""Shipped tests: known defects, the self-test of the auditor, the conformance of mechanisms."""

from leakbound.testing.conformance import (
    INVARIANTS,
    Check,
    Invariant,
    assert_conforms,
    conform,
)
from leakbound.testing.defects import DEFECTS, Defect
from leakbound.testing.estimators import (
    ESTIMATOR_INVARIANTS,
    assert_estimator_conforms,
    conform_estimator,
)
from leakbound.testing.selftest import Row, passed, selftest

__all__ = [
    "DEFECTS",
    "ESTIMATOR_INVARIANTS",
    "INVARIANTS",
    "Check",
    "Defect",
    "Invariant",
    "Row",
    "assert_conforms",
    "assert_estimator_conforms",
    "conform",
    "conform_estimator",
    "passed",
    "selftest",
]
