"""Records as compact cards in a notebook.

They show numbers and figures, and no text of rows, contexts or responses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leakbound.report.figures import histogram_figure, roc_figure, wealth_figure
from leakbound.report.influence_page import _columns, _figures, hottest, law_name
from leakbound.report.words import bound_sentence, system_name, tried

if TYPE_CHECKING:
    from leakbound.attribution import Attribution, InfluenceRecord
    from leakbound.auditing import AuditResult

__all__ = ["audit_card", "influence_card"]

SHOWN = 5  # contexts in a cell; to_pandas has all


def audit_card(record: AuditResult) -> str:
    """Verdict, bound beside the claim, reasons, warnings, what was tried, and the figures."""
    figures = [roc_figure(record), histogram_figure(record)]
    if record.wealth is not None and record.wealth.pairs:
        figures.append(wealth_figure(record))
    return _card(
        title=f"{record.verdict.upper()}: {system_name(record)}",
        lines=(bound_sentence(record), *record.decision.reasons, *record.warnings, f"Tried: {tried(record)}"), table=(),
        figures=figures,
    )  # fmt: skip


def influence_card(record: InfluenceRecord) -> str:
    """Of the first contexts:

    influence and loss of the whole context, and where the hottest span is, by tokens; figures of
    the first.
    """
    contexts = len(record.attributions)
    shown = f"; the first {SHOWN} are shown" if contexts > SHOWN else ""
    return _card(
        title=f"Influence of {contexts} context{'' if contexts == 1 else 's'} on the responses of {record.model}",
        lines=(f"Numbers are computed from private contexts{shown}. {record.promise[1]}",),
        table=[row for at, one in enumerate(record.attributions[:SHOWN]) for row in _rows(at, one)],
        figures=_figures(_columns([record])[0]) if contexts else (),
    )  # fmt: skip


HEAD = (
    "context",
    "reading",
    "influence of the context",
    "loss (ex-post ε)",
    "hottest span",
    "its influence",
)


def _rows(at: int, one: Attribution) -> list[tuple[str, ...]]:
    """A line for each reading."""
    rows: list[tuple[str, ...]] = []
    for reading in one.readings:
        whole, top = reading.grids[-1], hottest(one, reading.grids[0], 1)[0]
        place = f"tokens {top['first'] + 1} to {top['end']}"
        rows.append((
            str(at + 1), law_name(reading), f"{whole.totals[0]:.3f}", f"{whole.losses[0]:.3f}", place, f"{top['total']:.3f}",
        ))  # fmt: skip
    return rows


def _card(**parts: Any) -> str:
    """All text is escaped; styles stand at their elements, so a card changes nothing else of the
    notebook.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("leakbound.report", "."), autoescape=True, undefined=StrictUndefined
    )
    return environment.get_template("notebook.html.j2").render(head=HEAD, **parts)
