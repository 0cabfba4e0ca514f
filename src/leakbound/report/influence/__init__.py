"""Reports of influence: heat maps of contexts, studies, and both in a terminal."""

from leakbound.report.influence.page import influence_page
from leakbound.report.influence.study import study_page, study_table
from leakbound.report.influence.terminal import influence_summary, print_heat

__all__ = ["influence_page", "influence_summary", "print_heat", "study_page", "study_table"]
