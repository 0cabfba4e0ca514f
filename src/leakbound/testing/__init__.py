"""Shipped tests: known defects, the self-test of the auditor, the conformance of mechanisms."""

from leakbound.testing.conformance import (
    INVARIANTS,
    Check,
    Invariant,
    assert_conforms,
    conform,
)
from leakbound.testing.defects import DEFECTS, Defect
from leakbound.testing.selftest import Row, passed, selftest

__all__ = [
    "DEFECTS",
    "INVARIANTS",
    "Check",
    "Defect",
    "Invariant",
    "Row",
    "assert_conforms",
    "conform",
    "passed",
    "selftest",
]
