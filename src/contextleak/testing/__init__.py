"""Shipped tests: the catalogue of known defects and the self-test of the auditor against it."""

from contextleak.testing.defects import DEFECTS, Defect
from contextleak.testing.selftest import Row, passed, selftest

__all__ = ["DEFECTS", "Defect", "Row", "passed", "selftest"]
