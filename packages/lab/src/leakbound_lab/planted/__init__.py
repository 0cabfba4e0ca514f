"""Known defects beside their correct references, and the self-test that audits both: `selftest`."""

from leakbound_lab.planted.defects import DEFECTS, Defect
from leakbound_lab.planted.selftest import Row, passes, selftest

__all__ = ["DEFECTS", "Defect", "Row", "passes", "selftest"]
