"""Reports: pure functions from results to text, figures and HTML."""

from leakbound.report.audit import comparison_table, page, summary

__all__ = ["comparison_table", "page", "summary"]
