"""Results as compact cards in a notebook.

They show numbers and figures, and no text of rows, contexts or responses.
"""

from __future__ import annotations

from collections.abc import Sequence

from leakbound.attribution import Attribution, InfluenceRecord
from leakbound.auditing import AuditResult
from leakbound.auditing.plan import Plan
from leakbound.auditing.result.sentences import (
    attacker_sentence,
    attacks_sentence,
    first_line,
    odds_sentence,
    subject_of,
    verdict_words,
)
from leakbound.gating.compare import Comparison
from leakbound.gating.gate import GateResult
from leakbound.report.audit.page import trial_figures
from leakbound.report.audit.words import (
    bound_sentence,
    check_sentence,
    reason_sentences,
    setup_sentence,
)
from leakbound.report.decisions.comparison import contrast_sentence
from leakbound.report.influence.page import position_figures
from leakbound.report.influence.spans import name_of_decoding, readings_by_context, top_spans
from leakbound.report.pages import render
from leakbound.report.sweep.words import setting_name, subjects_of, tally_sentence, worst_sentences
from leakbound.report.words import decimal, sentence, verdict_text
from leakbound.stats import cut
from leakbound.sweeping.record import SweepRecord

SHOWN = 5  # contexts in a cell; to_pandas has all
HEAD = (
    "context", "decoding", "influence of the context", "ex-post privacy loss ε",
    "top-attributed span", "its influence",
)  # fmt: skip


def audit_card(result: AuditResult) -> str:
    """What the first screen of the report says, what was tried, and the figures of the trials."""
    meaning = (attacker_sentence(result), odds_sentence(result), bound_sentence(result))
    tried = f"Tried: {setup_sentence(result)} {check_sentence(result)}"
    lines = (*meaning, *reason_sentences(result), *result.warnings, tried, attacks_sentence(result))
    title = first_line(verdict_words(result), [subject_of(result)])
    figures = [svg for svg, _ in trial_figures(result)]
    return render_card(title, list(filter(None, lines)), figures=figures)


def influence_card(record: InfluenceRecord) -> str:
    """Influence of the first contexts, by positions."""
    contexts = len(record.attributions)
    shown = f"; the first {SHOWN} are shown" if contexts > SHOWN else ""
    plural = "" if contexts == 1 else "s"
    return render_card(
        f"Influence of {contexts} context{plural} on the responses of {record.model}",
        (f"Numbers are computed from private contexts{shown}. {record.notes[1]}",),
        HEAD,
        [row for at, one in enumerate(record.attributions[:SHOWN]) for row in _rows(at, one)],
        position_figures(readings_by_context([record])[0]) if contexts else (),
    )


def _rows(at: int, one: Attribution) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for reading in one.readings:
        whole, top = reading.grids[-1], top_spans(one, reading.grids[0], 1)[0]
        rows.append((
            str(at + 1), name_of_decoding(reading), f"{whole.totals[0]:.3f}",
            f"{whole.ex_post_privacy_losses[0]:.3f}", f"tokens {top.first + 1} to {top.end}",
            f"{top.influence:.3f}",
        ))  # fmt: skip
    return rows


def render_card(
    title: str,
    lines: Sequence[str],
    head: Sequence[str] = (),
    table: Sequence[Sequence[str]] = (),
    figures: Sequence[str] = (),
) -> str:
    """A card. Styles stand at their elements, so that it changes nothing else of the notebook."""
    return render(
        "notebook.html.j2", package="leakbound_hosts", head=head, title=title,
        lines=list(map(sentence, lines)), table=table, figures=figures,
    )  # fmt: skip


POINT_HEAD = ("setting", "seed", "verdict", "claim ε", "ε ≥", "pairs")
RUN_HEAD = ("", "system", "verdict", "claim ε", "ε ≥", "pairs", "model calls")
POWER_HEAD = ("if the system leaks", "probability of a rejection", "from", "to")


def plan_card(found: Plan) -> str:
    """What an audit costs at most, the largest certifiable epsilon, and the power."""
    dollars = "no price is known" if found.cost is None else f"at most US$ {found.cost:.2f}"
    asked = [] if found.subject is None else [found.subject]
    lines = (
        first_line("Plan", asked),
        f"under test: {found.tested}, by {found.estimator}",
        f"by its score alone, a perfect attack certifies at most ε = {cut(found.largest_epsilon)}",
        f"the power assumes that the model notices a canary with probability "
        f"{found.assumption.hit:g} and raises a false alarm with probability "
        f"{found.assumption.false_alarm:g}",
    )
    rows = [
        (f"{factor:g} times what is tested", *map(decimal, (power.chance, *power.interval)))
        for factor, power in found.power
    ]
    title = f"{found.pairs} pairs, {found.model_calls} model calls ({dollars})"
    said = lines if rows else lines[:3]
    rows += [
        (f"an attack that is right {at:.0%} of the time", *map(decimal, (p.chance, *p.interval)))
        for at, p in found.guessing_power
    ]
    return render_card(title, said, POWER_HEAD, rows)


def gate_card(found: GateResult) -> str:
    return render_card(f"{found.outcome.upper()}: {found.run}", (found.why,))


def comparison_card(found: Comparison) -> str:
    """Runs beside each other, and what is known of their differences."""
    unknown = [f"not compared: {reason}" for reason in found.not_compared]
    rows = [
        (run.letter, run.system, verdict_text(run.verdict), f"{run.claim:g}", cut(run.epsilon),
         str(run.pairs), str(run.model_calls))
        for run in found.runs
    ]  # fmt: skip
    asked = first_line("Compared", [run.subject for run in found.runs])
    lines = (asked, *map(contrast_sentence, found.contrasts), *unknown, *found.caveats)
    return render_card(f"{len(rows)} runs compared", lines, RUN_HEAD, rows)


def sweep_card(record: SweepRecord) -> str:
    """The points of a sweep, and its worst bound."""
    rows = [
        (setting_name(one.changes), str(one.seed), verdict_text(one.verdict),
         f"{one.claim.epsilon:g}", cut(one.bound.epsilon), str(one.pairs))
        for one in record.points
    ]  # fmt: skip
    asked = first_line("Audited", subjects_of(record))
    worst = worst_sentences(record) if record.points else ()
    return render_card(f"Sweep: {tally_sentence(record)}", (asked, *worst), POINT_HEAD, rows)
