"""A study of influence as one HTML page (table and figures) and as a table in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from leakbound.report.figures import _canvas, _svg
from leakbound.report.influence_page import COLORS

if TYPE_CHECKING:
    from leakbound.attribution.study_record import Mean, Row, StudyRecord

__all__ = ["study_page", "study_table"]

SCORES = {"rouge_l": "ROUGE-L", "bertscore": "BERTScore", "factkb": "FactKB"}
COUNTS = {"repeat_text": "repeat, by the text", "repeat_program": "repeat, by the program", "rouge_text": "rouge, by the text",
          "rouge_program": "rouge, by the program"}  # fmt: skip
MANY = 40  # positions in a terminal; the page and the exports have all


def study_page(record: StudyRecord) -> str:
    """The page of a study: opens from disk, asks nothing of the network, has no script and no
    private text.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("leakbound.report", "."), autoescape=True, undefined=StrictUndefined
    )
    return environment.get_template("influence_study.html.j2").render(
        record=record, settings=_settings(record), positions=_positions(record), scores=SCORES, counts=COUNTS, told=_told,
        counted=_counted, figures=_figures(record),
    )  # fmt: skip


def _settings(record: StudyRecord) -> list[Row]:
    return [row for row in record.rows if row.utility is not None]


def _positions(record: StudyRecord) -> list[Row]:
    return [row for row in record.rows if row.utility is None]


def _told(mean: Mean | None, digits: int = 3) -> str:
    """A mean with its interval."""
    if mean is None:
        return "not measured"
    if mean.count < 2:
        return f"{mean.mean:.{digits}f} (one context, no interval)"
    return f"{mean.mean:.{digits}f} [{mean.low:.{digits}f}, {mean.high:.{digits}f}]"


def _counted(count: int | None) -> str:
    return "not measured" if count is None else str(count)


def _figures(record: StudyRecord) -> list[tuple[str, str]]:
    """Influence, and each score that was measured, over what the study changes; bars are the
    intervals.
    """
    rows = _positions(record) or _settings(record)
    out = [
        (
            _figure(record, rows, [row.influence for row in rows], "mean influence on a response"),
            "Mean influence.",
        )
    ]
    rows = _settings(record)
    for name, title in SCORES.items():
        means = [getattr(row.utility, name) for row in rows]
        if len(rows) > 1 and None not in means:
            out.append((_figure(record, rows, means, title), f"{title} of the responses."))
    return out


def _figure(record: StudyRecord, rows: Sequence[Row], means: Sequence[Mean], y: str) -> str:
    figure, axes = _canvas(record.factor, y)
    for at, line in enumerate(dict.fromkeys(row.line for row in rows)):
        style: Any = {"color": COLORS[at % len(COLORS)], "label": line}
        pairs = [(row.x, mean) for row, mean in zip(rows, means, strict=True) if row.line == line]
        x, y_values = [x for x, _ in pairs], [mean.mean for _, mean in pairs]
        axes.plot(
            x, y_values, lw=1.4, marker=".", ls="" if record.study == "models" else "-", **style
        )
        known = [(x, mean) for x, mean in pairs if mean.count > 1]
        axes.vlines([x for x, _ in known], [m.low for _, m in known], [m.high for _, m in known], color=style["color"], lw=1, alpha=0.6)  # fmt: skip
    if record.study == "models":
        axes.set_xticks(
            [row.x for row in rows], [row.setting for row in rows], rotation=20, ha="right"
        )
    if record.study == "context-size":
        axes.set_xscale("log", base=2)
    axes.set_ylim(bottom=0)
    if len({row.line for row in rows}) > 1:
        axes.legend(fontsize=8, frameon=False, labelcolor="#010203")
    return _svg(figure, f"{y} by {record.factor}")


def study_table(record: StudyRecord) -> str:
    """Plain text: a line a setting (and a position, if there are few), then why a column is missing
    and what made the numbers.
    """
    head = f"{record.study}: means over {record.contexts} contexts with {record.confidence:.0%} intervals"
    lines = [_line(row) for row in _settings(record)]
    positions = _positions(record)
    lines += [f"  {row.setting}: influence {_told(row.influence)}" for row in positions[:MANY]]
    if len(positions) > MANY:
        lines.append(f"  {len(positions) - MANY} more positions are in the report and the exports.")
    lines += [
        f"  {name} was not measured: {reason}" for name, reason in record.not_measured.items()
    ]
    return "\n".join([head, *lines, *record.notes])


def _line(row: Row) -> str:
    scores = [f"{title} {_told(getattr(row.utility, name))}" for name, title in SCORES.items()
              if getattr(row.utility, name) is not None]  # fmt: skip
    counts = [f"{title} {_counted(getattr(row.utility, name))}" for name, title in COUNTS.items()]
    return f"  {row.setting}: " + "; ".join([f"influence {_told(row.influence)}", *scores, *counts])
