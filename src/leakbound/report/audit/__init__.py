"""Reports of one audit, or of several side by side."""

from leakbound.report.audit.page import page
from leakbound.report.audit.screen import summary
from leakbound.report.audit.words import comparison_table

__all__ = ["comparison_table", "page", "summary"]
