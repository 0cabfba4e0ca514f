"""Plans, decisions of gates, comparisons and sweeps as compact cards in a notebook.

They show names of runs, numbers and sentences, and no text of rows. Importing this module makes
notebooks show them.
"""

from __future__ import annotations

from leakbound._notebook import register_card
from leakbound.auditing.plan import Plan
from leakbound.auditing.result.subject import first_line
from leakbound.gating.compare import Comparison
from leakbound.gating.gate import GateResult
from leakbound.report.decisions.comparison import contrast_sentence
from leakbound.report.notebook.cards import framed
from leakbound.report.sweep.names import setting_name
from leakbound.report.sweep.words import subjects_of, tally_sentence, worst_sentences
from leakbound.report.words import decimal, verdict_text
from leakbound.stats import cut
from leakbound.sweeping.record import SweepRecord

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
        f"a perfect attack certifies at most ε = {cut(found.largest_epsilon)}",
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
    return framed(title, said, POWER_HEAD, rows)


def gate_card(found: GateResult) -> str:
    """Whether a run passed, and why."""
    return framed(f"{found.outcome.upper()}: {found.run}", (found.why,))


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
    return framed(f"{len(rows)} runs compared", lines, RUN_HEAD, rows)


def sweep_card(record: SweepRecord) -> str:
    """The points of a sweep, and its worst bound."""
    rows = [
        (setting_name(one.changes), str(one.seed), verdict_text(one.verdict),
         f"{one.claim.epsilon:g}", cut(one.bound.epsilon), str(one.pairs))
        for one in record.points
    ]  # fmt: skip
    asked = first_line("Audited", subjects_of(record))
    worst = worst_sentences(record) if record.points else ()
    return framed(f"Sweep: {tally_sentence(record)}", (asked, *worst), POINT_HEAD, rows)


register_card(Plan, plan_card)
register_card(SweepRecord, sweep_card)
register_card(GateResult, gate_card)
register_card(Comparison, comparison_card)
