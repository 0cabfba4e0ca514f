"""Reports of influence: heat maps of contexts, also in a terminal."""

from leakbound.report.influence.page import influence_page
from leakbound.report.influence.terminal import influence_summary, print_heat

__all__ = ["influence_page", "influence_summary", "print_heat"]
