"""Results as compact cards in a notebook.

They show numbers and figures, and no text of rows, contexts or responses. Importing this module
makes notebooks show them.
"""

from __future__ import annotations

from collections.abc import Sequence

from leakbound._notebook import register_card
from leakbound.attribution import Attribution, InfluenceRecord
from leakbound.auditing import AuditResult
from leakbound.auditing.result.attack_coverage import tried_sentence
from leakbound.auditing.result.subject import first_line, subject_of
from leakbound.auditing.result.summary import attacker_sentence, odds_sentence, verdict_words
from leakbound.report.audit.page import trial_figures
from leakbound.report.audit.words import (
    bound_sentence,
    check_sentence,
    reason_sentences,
    setup_sentence,
)
from leakbound.report.influence.figures import position_figures
from leakbound.report.influence.spans import decoding_name, readings_by_context, top_spans
from leakbound.report.pages import render
from leakbound.report.words import sentence

SHOWN = 5  # contexts in a cell; to_pandas has all
HEAD = (
    "context", "decoding", "influence of the context", "ex-post privacy loss ε",
    "top-attributed span", "its influence",
)  # fmt: skip


def audit_card(result: AuditResult) -> str:
    """What the first screen of the report says, what was tried, and the figures of the trials."""
    meaning = (attacker_sentence(result), odds_sentence(result), bound_sentence(result))
    tried = f"Tried: {setup_sentence(result)} {check_sentence(result)}"
    lines = (*meaning, *reason_sentences(result), *result.warnings, tried, tried_sentence(result))
    title = first_line(verdict_words(result), [subject_of(result)])
    figures = [svg for svg, _ in trial_figures(result)]
    return framed(title, list(filter(None, lines)), figures=figures)


def influence_card(record: InfluenceRecord) -> str:
    """Influence of the first contexts, by positions."""
    contexts = len(record.attributions)
    shown = f"; the first {SHOWN} are shown" if contexts > SHOWN else ""
    plural = "" if contexts == 1 else "s"
    return framed(
        f"Influence of {contexts} context{plural} on the responses of {record.model}",
        (f"Numbers are computed from private contexts{shown}. {record.notes[1]}",),
        HEAD,
        [row for at, one in enumerate(record.attributions[:SHOWN]) for row in _rows(at, one)],
        position_figures(readings_by_context([record])[0]) if contexts else (),
    )


def _rows(at: int, one: Attribution) -> list[tuple[str, ...]]:
    """A line for each reading."""
    rows: list[tuple[str, ...]] = []
    for reading in one.readings:
        whole, top = reading.grids[-1], top_spans(one, reading.grids[0], 1)[0]
        rows.append((
            str(at + 1), decoding_name(reading), f"{whole.totals[0]:.3f}",
            f"{whole.ex_post_privacy_losses[0]:.3f}", f"tokens {top.first + 1} to {top.end}",
            f"{top.influence:.3f}",
        ))  # fmt: skip
    return rows


def framed(
    title: str,
    lines: Sequence[str],
    head: Sequence[str] = (),
    table: Sequence[Sequence[str]] = (),
    figures: Sequence[str] = (),
) -> str:
    """A card. Styles stand at their elements, so that it changes nothing else of the notebook."""
    return render(
        "notebook/notebook.html.j2", head=head, title=title, lines=list(map(sentence, lines)),
        table=table, figures=figures,
    )  # fmt: skip


register_card(AuditResult, audit_card)
register_card(InfluenceRecord, influence_card)
