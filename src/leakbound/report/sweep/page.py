"""A sweep as one HTML file: verdicts first, then figures, then a table to sort and filter."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from leakbound.auditing.result.sentences import claim_words, models_of
from leakbound.report.figures import svg
from leakbound.report.pages import render, script_file
from leakbound.report.sweep.figure_data import FigureData, figures_of
from leakbound.report.sweep.figures import chart_of
from leakbound.report.sweep.words import (
    UTILITY,
    answer_sentence,
    calls_sentence,
    grid_sentence,
    joint_confidence,
    key_name,
    not_tried_sentence,
    setting_name,
    subjects_of,
    tally,
    utility_of,
    worst_sentences,
)
from leakbound.report.words import KINDS, LIMITS, TableCell, decimal, facts, rate_text, verdict_text
from leakbound.stats import cut

if TYPE_CHECKING:
    from leakbound.sweeping import SweepPoint, SweepRecord

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
ALWAYS = ("no.", "verdict", "ε ≥")  # columns that stand there with one value in all points, too
NONE = -1.0  # where a cell without a number is sorted: before all numbers


def sweep_page(record: SweepRecord, title: str | None = None) -> str:
    warnings = dict.fromkeys(warning for point in record.points for warning in point.warnings)
    head = (
        "no.", *map(key_name, record.grid), "seed", "verdict", "claimed ε", "ε ≥", "by", "TPR",
        "FPR", "μ ≥", "guaranteed μ", "exact ε",
        *(UTILITY.values() if record.utilities else ()), "pairs", "model calls", "run",
    )  # fmt: skip
    settings = enumerate(record.settings, 1)  # repeats of one setting have its number
    rows = [_row(record, at, point) for at, points in settings for point in points]
    same = [  # columns that are the same in all points
        at for at, name in enumerate(head)
        if len(rows) > 1 and name not in ALWAYS and len({row[at].text for row in rows}) == 1
    ]  # fmt: skip
    shown = [at for at in range(len(head)) if at not in same]
    tones = {point.verdict for point in record.points}
    base, subjects = record.base, subjects_of(record)
    data = base.get("data") or base.get("data_dir")
    return render(
        "sweep/page.html.j2",
        script=script_file("sweep/page.js"),
        title=title or f"Sweep over {', '.join(map(key_name, record.grid)) or 'seeds'}",
        tone=next((v for v in ("violation", "inconclusive", "no_violation") if v in tones), ""),
        facts=facts(
            system=", ".join(dict.fromkeys(one.system for one in subjects)),
            model=models_of(subjects) if subjects else "",
            data=PurePath(str(data)).name if data else "",
            claim=claim_words(subjects),
            cost=calls_sentence(record).removesuffix("."),
        ),
        answer=answer_sentence(record),
        tally=[(name, verdict_text(name), count) for name, count in tally(record).items()],
        lines={} if not record.points else {
            "Worst": " ".join(worst_sentences(record)),
            "Tried": grid_sentence(record), "Not tried": not_tried_sentence(record),
            "Confidence": joint_confidence(record),
        },
        figures=[(svg(chart_of(data)), _caption(data)) for data in figures_of(record)],
        head=[head[at] for at in shown],
        rows=[
            {
                "cells": [row[at] for at in shown],
                # what the filter reads: all columns
                "searched": " ".join(
                    f"{name}={one.text}".lower() for name, one in zip(head, row, strict=True)
                ),
            }
            for row in rows
        ],
        same="; ".join(f"{head[at]} {rows[0][at].text}" for at in same),
        missing=[
            (setting_name(one.changes), str(one.seed), verdict_text(one.cause), one.reason)
            for one in record.missing
        ],
        warnings=list(warnings),
        limits=LIMITS, shared=[record.base, record.provenance],
    )  # fmt: skip


def _caption(data: FigureData) -> str:
    lost = f" {data.left_out} points have no finite value and are not shown."
    return (
        CAPTIONS[data.name] + (SPREAD if data.repeats > 1 else "") + (lost if data.left_out else "")
    )


def _row(record: SweepRecord, number: int, point: SweepPoint) -> list[TableCell]:
    bound, claim = point.bound, point.claim.epsilon
    by = f"{bound.method}, {bound.confidence or 0:.0%} {KINDS[bound.kind]}"
    return [
        TableCell(str(number), number), *(_plain(point.changes.get(key)) for key in record.grid),
        _plain(point.seed), TableCell(verdict_text(point.verdict), None, point.verdict),
        _number(claim, f"{claim:g}"), _number(bound.epsilon, cut(bound.epsilon)), TableCell(by),
        *(
            TableCell(rate_text(rate), NONE if rate is None else rate.share)
            for rate in map(point.rates.get, ("tpr", "fpr"))
        ),
        _number(point.mu_bound, cut(point.mu_bound, 3)), _number(point.guarantee.mu),
        _number(point.exact_epsilon), *map(_number, utility_of(record, point)),
        _plain(point.pairs), _plain(point.model_calls), TableCell(point.run, kind="break"),
    ]  # fmt: skip


def _plain(value: object) -> TableCell:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return TableCell("none" if value is None else str(value), float(str(value)) if number else None)


def _number(value: float | None, text: str | None = None) -> TableCell:
    return TableCell("–", NONE) if value is None else TableCell(text or decimal(value), value)
