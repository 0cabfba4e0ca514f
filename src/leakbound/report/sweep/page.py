"""A sweep as one HTML file: verdicts first, then figures, then a table to sort and filter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from leakbound.auditing.result.sentences import claim_words, models_of
from leakbound.report.pages import render, script_file
from leakbound.report.sweep.figure_data import FigureData, figures_of
from leakbound.report.sweep.figures import figure_svg
from leakbound.report.sweep.words import (
    answer_sentence,
    calls_sentence,
    grid_sentence,
    joint_confidence,
    key_name,
    not_tried_sentence,
    setting_name,
    subjects_of,
    tally,
    worst_sentences,
)
from leakbound.report.words import KINDS, LIMITS, TableCell, decimal, facts, rate_text, verdict_text
from leakbound.stats import cut

if TYPE_CHECKING:
    from leakbound.gating.rates import Rate
    from leakbound.sweeping import SweepPoint, SweepRecord, SweepUtility

CAPTIONS = {
    "bound": "Lower bounds that the attack certifies. A bound above the claim's line is evidence "
    "against the claim; a bound below it proves nothing.",
    "utility": "Accuracy or ROUGE-L of private outputs for held-out queries, between the zero-shot "
    "baseline and the non-private upper bound.",
    "frontier": "A point a setting, numbered as in the table where there are many. Further left is "
    "less leakage to this attack, further up is more useful.",
}
SPREAD = (
    " Bands and bars span the repeats, from least to largest, and are no confidence bounds; every "
    "marker of a bound is the median of lower bounds."
)
UTILITY = ("utility", "zero-shot", "non-private")
ALWAYS = ("no.", "verdict", "ε ≥")  # columns that stand there with one value in all points, too
NONE = -1.0  # where a cell without a number is sorted: before all numbers


def sweep_page(record: SweepRecord, title: str | None = None) -> str:
    warnings = dict.fromkeys(warning for point in record.points for warning in point.warnings)
    settings = enumerate(record.settings, 1)  # repeats of one setting have its number
    rows = [_row(record, at, point) for at, points in settings for point in points]
    head = _head(record)
    shown, same = _columns(head, rows)
    return render(
        "sweep/page.html.j2",
        script=script_file("sweep/page.js"),
        title=title or f"Sweep over {', '.join(map(key_name, record.grid)) or 'seeds'}",
        tone=_tone(record), facts=_facts(record), answer=answer_sentence(record),
        tally=[(name, verdict_text(name), count) for name, count in tally(record).items()],
        lines=_lines(record),
        figures=[(figure_svg(data), _caption(data)) for data in figures_of(record)],
        head=[head[at] for at in shown],
        rows=[
            {"cells": [row[at] for at in shown], "searched": _search(head, row)} for row in rows
        ],
        same="; ".join(f"{name} {text}" for name, text in same),
        missing=[
            (setting_name(one.changes), str(one.seed), verdict_text(one.cause), one.reason)
            for one in record.missing
        ],
        warnings=list(warnings),
        limits=LIMITS, shared=[record.base, record.provenance],
    )  # fmt: skip


def _columns(
    head: Sequence[str], rows: Sequence[Sequence[TableCell]]
) -> tuple[list[int], list[tuple[str, str]]]:
    """The columns that differ between points, and those that are the same in all."""
    same = [
        at for at, name in enumerate(head)
        if len(rows) > 1 and name not in ALWAYS and len({row[at].text for row in rows}) == 1
    ]  # fmt: skip
    shown = [at for at in range(len(head)) if at not in same]
    return shown, [(head[at], rows[0][at].text) for at in same]


def _search(head: Sequence[str], row: Sequence[TableCell]) -> str:
    """All columns as name=text."""
    return " ".join(f"{name}={one.text}".lower() for name, one in zip(head, row, strict=True))


def _tone(record: SweepRecord) -> str:
    found = {point.verdict for point in record.points}
    return next((v for v in ("violation", "inconclusive", "no_violation") if v in found), "")


def _facts(record: SweepRecord) -> dict[str, str]:
    base, subjects = record.base, subjects_of(record)
    data = base.get("data") or base.get("data_dir")
    return facts(
        system=", ".join(dict.fromkeys(one.system for one in subjects)),
        model=models_of(subjects) if subjects else "",
        data=PurePath(str(data)).name if data else "",
        claim=claim_words(subjects),
        cost=calls_sentence(record).removesuffix("."),
    )


def _lines(record: SweepRecord) -> dict[str, str]:
    if not record.points:
        return {}
    return {
        "Worst": " ".join(worst_sentences(record)),
        "Tried": grid_sentence(record), "Not tried": not_tried_sentence(record),
        "Confidence": joint_confidence(record),
    }  # fmt: skip


def _caption(data: FigureData) -> str:
    lost = f" {data.left_out} points have no finite value and are not shown."
    return (
        CAPTIONS[data.name] + (SPREAD if data.repeats > 1 else "") + (lost if data.left_out else "")
    )


def _head(record: SweepRecord) -> tuple[str, ...]:
    return (
        "no.", *map(key_name, record.grid), "seed", "verdict", "claimed ε", "ε ≥", "by", "TPR",
        "FPR", "μ ≥", "guaranteed μ", "exact ε", *(UTILITY if record.utilities else ()), "pairs",
        "model calls", "run",
    )  # fmt: skip


def _row(record: SweepRecord, number: int, point: SweepPoint) -> list[TableCell]:
    bound, claim = point.bound, point.claim.epsilon
    by = f"{bound.method}, {bound.confidence or 0:.0%} {KINDS[bound.kind]}"
    return [
        TableCell(str(number), number), *(_plain(point.changes.get(key)) for key in record.grid),
        _plain(point.seed), TableCell(verdict_text(point.verdict), None, point.verdict),
        _number(claim, f"{claim:g}"), _number(bound.epsilon, cut(bound.epsilon)), TableCell(by),
        *(_rate(point.rates.get(name)) for name in ("tpr", "fpr")),
        _number(point.mu_bound, cut(point.mu_bound, 3)), _number(point.guarantee.mu),
        _number(point.exact_epsilon), *(_utility(point.utility) if record.utilities else ()),
        _plain(point.pairs), _plain(point.model_calls), TableCell(point.run, kind="break"),
    ]  # fmt: skip


def _plain(value: object) -> TableCell:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return TableCell("none" if value is None else str(value), float(str(value)) if number else None)


def _number(value: float | None, text: str | None = None) -> TableCell:
    return TableCell("–", NONE) if value is None else TableCell(text or decimal(value), value)


def _rate(rate: Rate | None) -> TableCell:
    return TableCell(rate_text(rate), NONE if rate is None else rate.share)


def _utility(found: SweepUtility | None) -> tuple[TableCell, ...]:
    if found is None:
        return (_number(None),) * len(UTILITY)
    return tuple(map(_number, (found.value, found.zero_shot, found.non_private)))
