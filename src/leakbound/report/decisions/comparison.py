"""Comparisons of runs, sweeps and influence, in a terminal and as HTML pages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from leakbound.auditing.result.sentences import (
    Subject,
    claim_words,
    first_line,
    models_of,
    odds_beside,
    systems_words,
)
from leakbound.gating.compare import CAVEATS, RATES, Comparison
from leakbound.models.address import model_names
from leakbound.privacy import gdp_epsilon
from leakbound.report.figures import CLAIM, MEMBER, NONMEMBER, Chart, Plot, svg, wrap_lines
from leakbound.report.pages import render
from leakbound.report.screen import SIGNS, lay_out
from leakbound.report.screen import WIDTH as COLUMNS
from leakbound.report.words import (
    VERDICTS,
    TableCell,
    align,
    facts,
    number_of,
    rate_text,
    sentence,
    verdict_text,
)
from leakbound.stats import beside, cut

if TYPE_CHECKING:
    from leakbound.attribution import InfluenceComparison, InfluenceDifference
    from leakbound.gating.compare import ComparedRun, Comparison, Contrast
    from leakbound.sweeping.compare import SweepComparison


SYSTEMS = (
    "Bounds beside claims. What each system was shown to leak at least, what was claimed, and what "
    "is guaranteed. An arrow beyond the claim is a violation."
)
NAME = 20  # characters of a line of a name in a figure


def bounds_figure(systems: Sequence[tuple[str, float, float, float]]) -> str:
    """Bound, claim and guarantee beside each name."""
    marks, rows = list[Plot](), range(len(systems) - 1, -1, -1)
    names, bounds, claims, guarantees = zip(*systems, strict=True)
    for row, bound in zip(rows, bounds, strict=True):
        marks.append(Plot((0, bound), (row, row), MEMBER, width=5, alpha=0.4))
    for values, color, name, marker, size in (
        (bounds, MEMBER, "leaks at least (bound)", ">", 8),
        (claims, CLAIM, "claimed", "|", 18),
        (guarantees, NONMEMBER, "guaranteed", "D", 6),
    ):
        if any(map(math.isfinite, values)):
            marks.append(Plot(values, rows, color, name, "", 2.5, marker, size))
    lines = [wrap_lines(name, NAME) for name in names]
    return svg(Chart(
        "bound, claim and guarantee of each system", "ε", "", marks,
        height=(36 + 12 * max(name.count("\n") for name in lines)) * len(systems),
        x_ends=(0, 1.1 * max(filter(math.isfinite, (*bounds, *claims)), default=1.0) or 1.0),
        y_ends=(-0.6, len(systems) - 0.4), y_ticks=list(zip(rows, lines, strict=True)),
    ))  # fmt: skip


HEAD = (
    "", "system", "verdict", "claim ε", "ε ≥", "μ ≥", "by", *map(str.upper, RATES), "pairs",
    "model calls",
)  # fmt: skip
SOURCES = {"model": "models", "model_fingerprint": "weights", "data_fingerprint": "rows"}
MOST = 3  # differences in the answer; all stand below


def comparison_text(found: Comparison) -> str:
    parts = [
        first_line("COMPARISON", [run.subject for run in found.runs]),
        align(HEAD, *map(_cells, found.runs)), _settings(found),
        *map(contrast_sentence, found.contrasts),
    ]  # fmt: skip
    parts += [f"Not compared: {reason}" for reason in found.not_compared]
    return "\n".join([*parts, *(f"Note: {caveat}" for caveat in found.caveats)])


RUNS = 2  # on a screen


def comparison_screen(found: Comparison, *, code: int, width: int = COLUMNS) -> str:
    """The largest bounds beside their claims, and whether runs differ by more than noise."""
    ranked = sorted(found.runs, key=lambda one: (one.verdict != "violation", -(one.epsilon or 0.0)))
    rows = []
    for run in ranked[:RUNS]:
        shown, limit = beside(run.epsilon, run.claim)
        text = f"{verdict_text(run.verdict)}, ε ≥ {shown}, claim {limit}   {run.system}"
        rows.append((run.letter, text))
    odds, allowed = odds_beside(ranked[0].epsilon, ranked[0].claim)
    rows.append(("odds", f"{ranked[0].letter}: × {odds} or more; its claim allows {allowed}"))
    answer = _answer(found) if found.contrasts else f"not compared: {found.not_compared[0]}"
    rows += [("difference", answer), ("next", "leakbound gate … --max-epsilon, to decide")]
    more = len(found.runs) - RUNS
    others = f", {more} more runs" if more > 0 else ""
    last = f"Rates, settings{others} and what this does not show: -v"
    subjects = [run.subject for run in found.runs]
    return lay_out(_headline(subjects), rows, last, code=code, width=width)


def _headline(subjects: Sequence[Subject]) -> str:
    return f"{SIGNS['']} COMPARE   {systems_words(subjects)}"


def _cells(run: ComparedRun) -> tuple[str, ...]:
    return (
        run.letter, run.system, verdict_text(run.verdict), f"{run.claim:g}",
        f"{cut(run.epsilon)} at δ {run.delta:g}", cut(run.mu, 3),
        f"{run.method}, {run.confidence:.0%}", *(rate_text(run.rates.get(name)) for name in RATES),
        str(run.pairs), str(run.model_calls),
    )  # fmt: skip


def _settings(found: Comparison) -> str:
    if not found.differing_settings:
        return "No setting differs."
    rows = [(key, *map(_value, values)) for key, values in found.differing_settings.items()]
    return align(("differs in", *(run.letter for run in found.runs)), *rows)


def _value(value: object) -> str:
    return "–" if value in (None, "", {}) else str(value)


def contrast_sentence(one: Contrast) -> str:
    limits = f"[{cut(one.low, 3)}, {cut(one.high + 1e-3, 3)}]"
    shown = "significant" if one.significant else "not significant"
    what = f"{RATES[one.rate]}, {one.second} minus {one.first}"
    return f"{what}: {one.difference:+.3f} {limits}, {shown}."


def comparison_page(found: Comparison) -> str:
    runs, differing = found.runs, found.differing_settings
    other = " and ".join(what for name, what in SOURCES.items() if name in differing)
    guarantees = [
        math.inf if run.guarantee_mu is None else gdp_epsilon(run.guarantee_mu, run.delta)
        for run in runs
    ]
    bounds = [
        (f"{run.letter}: {run.system}", run.epsilon or 0.0, run.claim, guarantee)
        for run, guarantee in zip(runs, guarantees, strict=True)
    ]
    return render(
        "decisions/comparison.html.j2",
        title=f"{len(runs)} runs compared",
        tone=next((v for v in VERDICTS if any(run.verdict == v for run in runs)), ""),
        facts=facts(
            system=", ".join(f"{run.letter}: {run.system}" for run in runs),
            model=models_of([run.subject for run in runs]),
            data=f"{other} differ, see the settings" if other else "the same model and rows in all",
            claim=", ".join(f"{run.letter}: {claim_words([run.subject])}" for run in runs),
            cost=number_of(sum(run.model_calls for run in runs), "model call"),
        ),
        verdicts=[
            (run.verdict, f"{run.letter}: {verdict_text(run.verdict)}, ε ≥ {cut(run.epsilon)}")
            for run in runs
        ],
        answer=_answer(found),
        svg=bounds_figure(bounds), caption=SYSTEMS,
        confidence=f"{found.confidence:.0%}",
        head=("run", *HEAD[1:], "folder"), rows=list(map(_row, runs)),
        setting_head=("setting", *(run.letter for run in runs)),
        settings=[(key, *map(_value, row)) for key, row in differing.items()],
        contrasts=[sentence(contrast_sentence(one)) for one in found.contrasts],
        not_compared=found.not_compared, limits=found.caveats,
    )  # fmt: skip


def _answer(found: Comparison) -> str:
    shown = [one for one in found.contrasts if one.significant]
    if not found.contrasts:
        return "Their success rates cannot be compared; the reasons stand below."
    if not shown:
        return "No difference of their success rates is significant."
    return " ".join(sentence(contrast_sentence(one)) for one in shown[:MOST])


def _row(run: ComparedRun) -> list[TableCell | str]:
    cells = _cells(run)
    verdict = TableCell(cells[2], kind=f"{run.verdict} nowrap")
    return [*cells[:2], verdict, *cells[3:], TableCell(run.run, kind="break")]


MEASURES = {
    "context": "the whole context", "span": "a span, mean", "top_attributed": "the top span",
}  # fmt: skip


def sweeps_text(found: SweepComparison) -> str:
    from leakbound.sweeping import describe  # the page of an audit draws its figures with this file

    head = ("point", "seed", "A", "B", "ε ≥ A", "ε ≥ B", *(f"{name}, B − A" for name in RATES))
    rows = [
        (describe(point.changes), str(point.seed), *_cells_of_runs(point.comparison))
        for point in found.points
    ]
    shared = dict.fromkeys(key for p in found.points for key in p.comparison.differing_settings)
    subjects = [run.subject for point in found.points for run in point.comparison.runs]
    lines = [
        first_line("SWEEPS COMPARED", subjects),
        align(head, *rows),
        f"Settings that differ: {', '.join(shared) or 'none'}.",
        f"All intervals hold together with {found.confidence:.0%}; * excludes 0.",
    ]
    for name, points in (("A", found.only_first), ("B", found.only_second)):
        lines += [f"Only in {name}: {'; '.join(points)}."] if points else []
    reasons = dict.fromkeys(why for p in found.points for why in p.comparison.not_compared)
    lines += [f"Not compared: {reason}" for reason in reasons]
    return "\n".join([*lines, *(f"Note: {caveat}" for caveat in CAVEATS)])


def sweeps_screen(found: SweepComparison, *, code: int, width: int = COLUMNS) -> str:
    contrasts = [one for point in found.points for one in point.comparison.contrasts]
    shown = sum(one.significant for one in contrasts)
    alone = {"A": found.only_first, "B": found.only_second}
    only = [f"{len(points)} only in {name}" for name, points in alone.items() if points]
    rows = [
        ("points", ", ".join([f"{len(found.points)} in both", *only])),
        ("difference", f"{shown} of {len(contrasts)} differences of rates are significant"),
    ]
    last = "Every point, settings and what this does not show: -v"
    subjects = [run.subject for point in found.points for run in point.comparison.runs]
    return lay_out(_headline(subjects), rows, last, code=code, width=width)


def influences_screen(found: InfluenceComparison, *, code: int, width: int = COLUMNS) -> str:
    rows = [(name, model_names([model])) for name, model in zip("AB", found.models, strict=True)]
    for one in found.differences[:3]:
        of, *_, interval = _measure(one)
        rows.append(("B − A", f"{of}, λ = {one.lam:g}: {interval}"))
    last = f"Nats a token, all with {found.confidence:.0%} together; * excludes 0. More: -v"
    return lay_out(f"{SIGNS['']} COMPARE   influence", rows, last, code=code, width=width)


def _cells_of_runs(found: Comparison) -> tuple[str, ...]:
    one, other = found.runs
    by_rate = {contrast.rate: contrast for contrast in found.contrasts}
    return (
        verdict_text(one.verdict), verdict_text(other.verdict), cut(one.epsilon),
        cut(other.epsilon),
        *(
            _interval(by_rate[name].difference, by_rate[name].low, by_rate[name].high)
            if name in by_rate
            else "–"
            for name in RATES
        ),
    )  # fmt: skip


# limits are rounded outwards
def _interval(middle: float, low: float, high: float) -> str:
    if math.isinf(low):
        return f"{middle:+.3f} (too few contexts)"
    mark = " *" if low > 0 or high < 0 else ""
    limits = (math.floor(low * 1e3) / 1e3, math.ceil(high * 1e3) / 1e3)
    return f"{middle:+.3f} [{limits[0]:.3f}, {limits[1]:.3f}]{mark}"


def influences_text(found: InfluenceComparison) -> str:
    head = ("influence of", "λ", "temperature", "contexts", "B larger", "B smaller",
            "median of B − A, nats a token")  # fmt: skip
    first, second = (model_names([model]) for model in found.models)
    differing = ", ".join(f"{k}: {a} | {b}" for k, (a, b) in found.differing_settings.items())
    lines = [
        f"A: {first}", f"B: {second}", align(head, *map(_measure, found.differences)),
        f"Settings that differ: {differing or 'none'}.",
        f"All intervals hold together with {found.confidence:.0%}; * excludes 0.",
    ]  # fmt: skip
    if any(found.unmatched):
        only = "{} contexts of A and {} of B stand in one record only.".format(*found.unmatched)
        lines.append(only)
    return "\n".join([*lines, *(f"Note: {caveat}" for caveat in found.caveats)])


def _measure(one: InfluenceDifference) -> tuple[str, ...]:
    size = one.unit or (f"{one.n} tokens" if one.n else "")
    return (
        f"{MEASURES[one.of]}{f' ({size})' if size else ''}", f"{one.lam:g}", f"{one.temperature:g}",
        str(one.contexts), str(one.larger), str(one.smaller),
        _interval(one.median, one.low, one.high),
    )  # fmt: skip
