"""A study of influence as one HTML page, and as a table in a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from leakbound.models.address import model_names
from leakbound.report.figures import COLORS, Chart, Plot, name_ticks, number_ticks, svg
from leakbound.report.pages import render
from leakbound.report.words import facts, number_of

if TYPE_CHECKING:
    from leakbound_lab.studies.record import Mean, StudyRecord, StudyRow, Utility

SCORES = {"rouge_l": "ROUGE-L", "bertscore": "BERTScore", "factkb": "FactKB"}
COUNTS = {
    "repeat_text": "repeat, by the text", "repeat_program": "repeat, by the program",
    "rouge_text": "rouge, by the text", "rouge_program": "rouge, by the program",
}  # fmt: skip
MANY = 40  # positions in a terminal; the page and the exports have all
BARS = " Bars are intervals."


def study_page(record: StudyRecord) -> str:
    return render(
        "study.html.j2",
        package="leakbound_lab.studies",
        title=f"Influence by {record.factor}",
        tone="", facts=_facts(record), answer=_answer(record),
        record=record, position_head=("Position", "Contexts", "Mean influence"),
        head=("Setting", "Expected influence of the context", *SCORES.values(), *COUNTS.values()),
        settings=[_cells(row) for row in _settings(record)],
        positions=[
            (row.setting, str(row.influence.count), _mean(row.influence))
            for row in _positions(record)
        ],
        figures=_figures(record),
    )  # fmt: skip


def _facts(record: StudyRecord) -> dict[str, str]:
    responses = record.contexts * max(1, len(_settings(record)))
    return facts(
        model=model_names(record.models), data=number_of(record.contexts, "context"),
        cost=f"{number_of(responses, 'response')} attributed",
    )  # fmt: skip


def _answer(record: StudyRecord) -> str:
    """Where the influence is largest and smallest."""
    rows = _settings(record) or _positions(record)
    if not rows:
        return "Nothing was measured."
    most = max(rows, key=lambda row: row.influence.mean)
    least = min(rows, key=lambda row: row.influence.mean)
    if most.influence.mean == least.influence.mean:
        return f"The mean influence of the context is {_mean(most.influence)} nats everywhere."
    return (
        f"The mean influence of the context is largest at {most.setting}, with "
        f"{_mean(most.influence)} nats, and smallest at {least.setting}, with "
        f"{_mean(least.influence)}."
    )


def _cells(row: StudyRow) -> tuple[str, ...]:
    scores, counts = _scores(row.utility), _counts(row.utility)
    return (
        row.setting, _mean(row.influence), *(_mean(scores[name]) for name in SCORES),
        *(_count(counts[name]) for name in COUNTS),
    )  # fmt: skip


def _scores(utility: Utility | None) -> Mapping[str, Mean | None]:
    return {name: None if utility is None else getattr(utility, name) for name in SCORES}


def _counts(utility: Utility | None) -> Mapping[str, int | None]:
    return {name: None if utility is None else getattr(utility, name) for name in COUNTS}


def _settings(record: StudyRecord) -> list[StudyRow]:
    return [row for row in record.rows if row.utility is not None]


def _positions(record: StudyRecord) -> list[StudyRow]:
    return [row for row in record.rows if row.utility is None]


def _mean(mean: Mean | None, digits: int = 3) -> str:
    if mean is None:
        return "not measured"
    if mean.count < 2:
        return f"{mean.mean:.{digits}f} (one context, no interval)"
    return f"{mean.mean:.{digits}f} [{mean.low:.{digits}f}, {mean.high:.{digits}f}]"


def _count(count: int | None) -> str:
    return "not measured" if count is None else str(count)


def _figures(record: StudyRecord) -> list[tuple[str, str]]:
    """Influence, and each score that was measured, over the factor of the study."""
    rows = _positions(record) or _settings(record)
    influence = {row: row.influence for row in rows}
    y = "mean influence on a response"
    found = [(_figure(record, influence, y), "Mean influence." + BARS)]
    rows = _settings(record)
    for name, title in SCORES.items():
        means = {row: mean for row in rows if (mean := _scores(row.utility)[name]) is not None}
        if 1 < len(rows) == len(means):
            caption = f"{title} of the responses." + BARS
            found.append((_figure(record, means, title), caption))
    return found


def _figure(record: StudyRecord, means: Mapping[StudyRow, Mean], y: str) -> str:
    chart = Chart(f"{y} by {record.factor}", record.factor, y, y_ends=(0, None))
    names, by_model = list(dict.fromkeys(row.line for row in means)), record.study == "models"
    for at, name in enumerate(names):
        points = [(row.x, mean) for row, mean in means.items() if row.line == name]
        color, shown = COLORS[at % len(COLORS)], name if len(names) > 1 else ""
        x, middles = [x for x, _ in points], [mean.mean for _, mean in points]
        chart.marks.append(Plot(x, middles, color, shown, "" if by_model else "-", 1.4, "."))
        for place, mean in points:
            if mean.count > 1:  # one context alone has no interval
                ends = mean.low, mean.high
                chart.marks.append(Plot((place, place), ends, color, width=1, alpha=0.6))
    if by_model:
        name_ticks(chart, [row.setting for row in means], [row.x for row in means])
    if record.study == "context-size":
        chart.x_log = True
        number_ticks(chart, sorted({row.x for row in means}))
    return svg(chart)


def study_table(record: StudyRecord) -> str:
    head = (
        f"{record.study}: means over {record.contexts} contexts with {record.confidence:.0%} "
        "intervals"
    )
    lines = [_line(row) for row in _settings(record)]
    positions = _positions(record)
    lines += [f"  {row.setting}: influence {_mean(row.influence)}" for row in positions[:MANY]]
    if len(positions) > MANY:
        lines.append(f"  {len(positions) - MANY} more positions are in the report and the exports.")
    lines += [
        f"  {name} was not measured: {reason}" for name, reason in record.not_measured.items()
    ]
    return "\n".join([head, *lines, *record.notes])


def _line(row: StudyRow) -> str:
    scores, counts = _scores(row.utility), _counts(row.utility)
    measured = [
        f"{SCORES[name]} {_mean(mean)}" for name, mean in scores.items() if mean is not None
    ]
    counted = [f"{COUNTS[name]} {_count(count)}" for name, count in counts.items()]
    return f"  {row.setting}: " + "; ".join(
        [f"influence {_mean(row.influence)}", *measured, *counted]
    )
