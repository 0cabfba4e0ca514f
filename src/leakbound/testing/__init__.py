"""Shipped tests: the catalogue of known defects, the self-test of the auditor, and the laws that
every mechanism must keep.
"""

from leakbound.testing.conformance import LAWS, Check, Law, assert_conforms, conform
from leakbound.testing.defects import DEFECTS, Defect
from leakbound.testing.selftest import Row, passed, selftest

__all__ = [
    "DEFECTS",
    "LAWS",
    "Check",
    "Defect",
    "Law",
    "Row",
    "assert_conforms",
    "conform",
    "passed",
    "selftest",
]
