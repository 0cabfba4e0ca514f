"""Records as one HTML file that opens from disk and asks nothing of the network."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from leakbound.report.figures import histogram_figure, profile_figure, roc_figure, wealth_figure
from leakbound.report.words import LIMITS, bound_sentence, estimate_row, system_name, tried
from leakbound.stats import cut

if TYPE_CHECKING:
    from leakbound.auditing import AuditResult

__all__ = ["page"]


DATA = re.compile(r"(data:image/png;base64,[A-Za-z0-9+/=]+)")


def page(records: Sequence[AuditResult], title: str | None = None) -> str:
    """The page of one audit, or of several side by side. All text is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("leakbound.report", "."), autoescape=True, undefined=StrictUndefined
    )
    return environment.get_template("page.html.j2").render(
        records=records, title=title or f"Audit of {system_name(records[0])}", name=system_name, sentence=bound_sentence,
        tried=tried, number=cut, row=estimate_row, limits=LIMITS, roc=roc_figure, histogram=histogram_figure,
        wealth=wealth_figure, profile=profile_figure, parts=DATA.split,
    )  # fmt: skip
