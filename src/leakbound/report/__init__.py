"""Reports: pure functions from records to text and HTML."""

from leakbound.report.html import page
from leakbound.report.terminal import comparison_table, summary

__all__ = ["comparison_table", "page", "summary"]
