"""Reports of a sweep: its page, its figures as files, and a summary in a terminal."""

from leakbound.report.sweep.figures import FORMATS, figure_files
from leakbound.report.sweep.page import sweep_page
from leakbound.report.sweep.words import sweep_summary

__all__ = ["FORMATS", "figure_files", "sweep_page", "sweep_summary"]
