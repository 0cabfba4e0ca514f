"""Reports: pure functions from results to text, figures and HTML."""

from typing import TYPE_CHECKING

from leakbound._sources import import_when_used

if TYPE_CHECKING:
    from leakbound.report.audit import comparison_table, page, summary

__all__ = ["comparison_table", "page", "summary"]

import_when_used(__name__)
