"""Reports: pure functions from records to text and HTML."""

from contextleak.report.html import page
from contextleak.report.terminal import comparison_table, summary

__all__ = ["comparison_table", "page", "summary"]
