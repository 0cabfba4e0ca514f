"""Audits as one HTML file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np

from leakbound.auditing.result.record import is_withheld
from leakbound.auditing.result.sentences import (
    MOST_ODDS,
    attack_classes,
    attacker_sentence,
    claim_words,
    models_of,
    odds_beside,
    odds_sentence,
    subject_of,
    system_name,
    systems_words,
    verdict_words,
)
from leakbound.gating.compare import flat_settings
from leakbound.gating.rates import rates_of
from leakbound.privacy import ApproxDP, gdp_trade_off, trade_off
from leakbound.report.audit.remedies import next_step, remedy
from leakbound.report.audit.words import (
    CHANNEL_HEAD,
    ESTIMATE_HEAD,
    REMEDY,
    bound_sentence,
    channel_row,
    channels_sentence,
    check_sentence,
    estimate_row,
    limits_of,
    reason_sentences,
    setup_sentence,
)
from leakbound.report.decisions.comparison import SYSTEMS, bounds_figure
from leakbound.report.figures import CLAIM, INK, MEMBER, NONMEMBER, Chart, Plot, svg
from leakbound.report.pages import render
from leakbound.report.words import (
    VERDICTS,
    TableCell,
    decimal,
    facts,
    number_of,
    sentence,
    verdict_text,
)
from leakbound.stats import beside, cut

if TYPE_CHECKING:
    from leakbound.auditing import AuditResult
    from leakbound.auditing.result.record import EValuePath, TrialView
    from leakbound.estimators.exact import Profile

GRID = np.concatenate([[0.0], np.logspace(-6, -2, 60), np.linspace(0.01, 1, 200)])
LEAST_DELTA = 1e-12  # where the logarithmic axis of delta ends


def _rates_chart(result: AuditResult, what: str, x: str, y: str, claimed: str) -> Chart:
    """What claim and guarantee allow of the rates of an attack."""
    claim, mu = ApproxDP(result.claim.epsilon, result.claim.delta), result.guarantee.mu
    marks = [
        Plot((0, 1), (0, 1), width=0.6, alpha=0.5),
        Plot(GRID, trade_off(claim, GRID), CLAIM, claimed.format(claim), "--"),
    ]
    if mu is not None:
        marks.append(Plot(GRID, gdp_trade_off(GRID, mu), INK, f"guarantee: μ={mu:.3g}", ":"))
    title, square = f"{what} of the attack on {result.attack['mechanism']}", (-0.02, 1.02)
    return Chart(title, x, y, marks, x_ends=square, y_ends=square)


def roc_figure(result: AuditResult) -> str:
    names = "false-positive rate", "true-positive rate", "claim: ε={0.value:g}, δ={0.delta:g}"
    chart = _rates_chart(result, "ROC curve", *names)
    observed = f"observed (AUROC {result.curves.auroc:.3f})"
    chart.marks.append(Plot(result.curves.fpr, result.curves.tpr, MEMBER, observed, width=2))
    for estimate in result.estimates:
        if estimate.method == "clopper_pearson" and estimate.confidence:
            limits = estimate.details
            at = [limits["fpr_upper"]], [1 - limits["fnr_upper"]]
            chart.marks.append(Plot(*at, INK, "Clopper-Pearson limits", "", marker="o"))
    return svg(chart)


def histogram_figure(result: AuditResult) -> str:
    title = f"score histograms of both contexts for {result.attack['mechanism']}"
    chart, curves = (
        Chart(title, f"score: {result.attack['score']}", "share of outputs"),
        result.curves,
    )
    edges = np.repeat(curves.edges, 2)
    for shares, color, name in (
        (curves.nonmember, NONMEMBER, "canary out"),
        (curves.member, MEMBER, "canary in"),
    ):
        steps = [0.0, *np.repeat(shares, 2), 0.0]
        chart.marks += [
            Plot(edges, steps, color, alpha=0.35, low=[0.0] * len(steps)),
            Plot(edges, steps, color, name, width=1.4),
        ]
    if len(curves.edges) == 3:
        middle = [(a + b) / 2 for a, b in zip(curves.edges, curves.edges[1:], strict=False)]
        chart.x_ticks = list(zip(middle, "01", strict=True))
    return svg(chart)


def e_value_figure(path: EValuePath, mechanism: str) -> str:
    title = f"e-value of the test of {mechanism}"
    return svg(Chart(title, "paired trials", "ln of the e-value", [
        Plot((), (0,), width=0.6, alpha=0.5),
        Plot((0, *path.pairs), (0.0, *path.log_e_values), MEMBER, "e-value", width=2),
        Plot((), (path.level,), CLAIM, f"rejected above {path.level:.3g}", "--"),
    ]))  # fmt: skip


def profile_figure(profile: Profile, result: AuditResult) -> str:
    title = f"exact privacy profile of the pairs of {result.attack['mechanism']}"
    claim = [result.claim.epsilon], [max(result.claim.delta, LEAST_DELTA)]
    marks = [
        Plot(profile.epsilon, np.maximum(values, LEAST_DELTA), color, name, width=2)
        for values, color, name in (
            (profile.worst, MEMBER, "worst pair"),
            (profile.mean, NONMEMBER, "mean of the pairs"),
        )
    ]
    marks.append(Plot(*claim, CLAIM, "claim", "", marker="D", size=6))
    return svg(Chart(title, "ε", "δ(ε) of the pair", marks, y_log=True, y_ends=(LEAST_DELTA, 2)))


REFERENCE_HEAD = ("Item", "What it asks", "What this audit says")

TRIED_HEAD = ("Class of attack", "Tried", "How to try it")


def attack_rows(result: AuditResult) -> tuple[tuple[str, str, str], ...]:
    done = f"yes, {result.counts['model_calls']} calls"
    return tuple(
        (one.name, done, "") if one.tried else (one.name, "no", one.how)
        for one in attack_classes(result)
    )


def reference_rows(result: AuditResult) -> tuple[tuple[str, ...], ...]:
    return tuple(
        (
            f"{one.document}: {one.item}",
            one.asks,
            f"{one.status.replace('_', ' ').capitalize()}. {one.answer}",
        )
        for one in result.references
    )


def rates_figure(result: AuditResult) -> str:
    names = "said “canary” where it was not", "said “canary” where it was"
    chart = _rates_chart(result, "rates", *names, "allowed by the claim ε={0.value:g}")
    claim = ApproxDP(result.claim.epsilon, result.claim.delta)
    bottom = 1 - trade_off(claim, 1 - GRID)
    chart.marks.insert(0, Plot(GRID, trade_off(claim, GRID), CLAIM, alpha=0.18, low=bottom))
    rates = rates_of(result, 1 - (result.bound.confidence or 0.95))
    hit, alarm = rates["tpr"], rates["fpr"]
    low, high = hit.limits
    label = "observed, with intervals"
    if low <= 0 and high >= 1 and alarm.limits[0] <= 0 and alarm.limits[1] >= 1:
        label = "observed; no interval after an early end"
    else:
        interval = Plot(alarm.limits, (high, high), MEMBER, alpha=0.3, low=(low, low))
        chart.marks.append(interval)
    chart.marks.append(Plot([alarm.share], [hit.share], MEMBER, label, "", marker="o", size=7))
    return svg(chart)


OUTCOMES = {
    "violation": "leak more than was claimed", "no_violation": "show no violation",
    "inconclusive": "were not decided",
}  # fmt: skip
OUTCOME = {
    "violation": "leaks more than was claimed", "no_violation": "shows no violation",
    "inconclusive": "was not decided",
}  # fmt: skip


def _data(result: AuditResult) -> str:
    named = result.spec.get("data") or result.spec.get("data_dir")
    if named:
        return PurePath(str(named)).name
    bundled = result.spec.get("task") in (None, "help_desk")
    if bundled and not {"rows", "task"} & {*result.handed}:
        return "the help desk that is bundled with leakbound: not your rows"
    return f"rows with fingerprint {result.provenance['data_fingerprint']}"


IMAGE = re.compile(r"(data:image/png;base64,[A-Za-z0-9+/=]+)")
HISTOGRAM = (
    "Scores with the canary in the context and without it. Contexts that cannot be told apart have "
    "the same histogram."
)
PROFILE = (
    "Exact privacy loss of the paired trials, from aggregates and the declared output "
    "distribution. It is internal: no attacker sees it. A curve above the claim's point is "
    "evidence against the claim."
)


RATES = (
    "Hits and false alarms. How often the attack said that the canary was present, in contexts "
    "with and without it. The shaded region is what the claim allows; a point whose interval lies "
    "outside it is evidence against the claim."
)
OVERVIEW = (
    "System", "Verdict", "ε ≥", "Claimed ε", "μ ≥", "Guaranteed μ", "AUROC (point estimate)",
    "Model calls",
)  # fmt: skip


def page(results: Sequence[AuditResult], title: str | None = None) -> str:
    """The page of one audit, or of several side by side."""
    every = (text for one in results for e in one.estimates for text in e.assumptions)
    numbers = {text: at for at, text in enumerate(dict.fromkeys(every), start=1)}
    alone, subjects = len(results) == 1, list(map(subject_of, results))
    answers = []  # which systems have which verdict
    for verdict in VERDICTS:
        names = [system_name(one) for one in results if one.verdict == verdict]
        outcome = OUTCOMES if len(names) > 1 else OUTCOME
        if names:
            text = f"{len(names)} of {len(results)} {outcome[verdict]}: {', '.join(names)}."
            answers.append((verdict, text))
    found = {one.verdict for one in results}
    bounds = [
        (system_name(one), one.bound.epsilon or 0.0, one.claim.epsilon, one.guarantee.epsilon)
        for one in results
    ]
    return render(
        "audit/page.html.j2",
        title=title or f"Audit of {system_name(results[0])}",
        tone=next(v for v in ("violation", "inconclusive", "no_violation") if v in found),
        facts=facts(
            system=system_name(results[0]) if alone else number_of(len(results), "system"),
            model=models_of(subjects),
            data=", ".join(dict.fromkeys(map(_data, results))),
            claim=claim_words(subjects),
            stored=", ".join(dict.fromkeys(one.stored_on for one in results if one.stored_on)),
            cost=number_of(sum(one.counts["model_calls"] for one in results), "model call"),
            day=", ".join(dict.fromkeys(
                day for one in results if (day := one.provenance.get("begun", ""))
            )),
        ),
        answers=answers, overview_head=OVERVIEW,
        overview=[_overview(at, result) for at, result in enumerate(results, start=1)],
        sections=[_section(result, numbers) for result in results],
        several=() if alone else ((bounds_figure(bounds), SYSTEMS),),
        assumptions=numbers, head=ESTIMATE_HEAD, channel_head=CHANNEL_HEAD, tried_head=TRIED_HEAD,
        reference_head=REFERENCE_HEAD,
        limits=limits_of(results), cut=cut,
    )  # fmt: skip


def _overview(at: int, result: AuditResult) -> tuple[TableCell | str, ...]:
    mu, claim = result.guarantee.mu, result.claim
    bound, claimed = beside(result.bound.epsilon, claim.epsilon)
    return (
        TableCell(system_name(result), link=f"#r{at}"),
        TableCell(verdict_text(result.verdict), kind=f"{result.verdict} nowrap"),
        bound, f"{claimed} at δ {claim.delta:g}",
        cut(result.mu_bound.mu, 3), "none" if mu is None else decimal(mu),
        decimal(result.curves.auroc), str(result.counts["model_calls"]),
    )  # fmt: skip


def _section(result: AuditResult, numbers: Mapping[str, int]) -> dict[str, object]:
    drawn, gaussian = trial_figures(result), result.guarantee.mu is not None
    if result.profile is not None:
        drawn.append((profile_figure(result.profile, result), PROFILE))
    rows = {e.method: estimate_row(e, numbers, gaussian) for e in result.estimates}
    claim, least = result.claim.epsilon, min(result.bound.epsilon or 0.0, MOST_ODDS)
    whole = 1.15 * max(claim, least) or 1.0  # what the bar is as long as
    shown, limit = beside(result.bound.epsilon or 0.0, claim)
    return {
        "bar": (100 * least / whole, 100 * claim / whole, shown, limit),
        "allowed": odds_beside(result.bound.epsilon, claim)[1],
        "result": result,
        "name": system_name(result),
        "system": systems_words([subject_of(result)]),
        "attacker": attacker_sentence(result),
        "odds": odds_sentence(result),
        "bound": bound_sentence(result),
        "remedy": _remedy(result),
        "leaked": _trial_that_leaks(result),
        "setup": setup_sentence(result),
        "checked": check_sentence(result),
        "verdict": verdict_words(result).replace("_", " "),
        "reasons": reason_sentences(result),
        "main": drawn[:1],
        "figures": drawn[1:],
        "channels": tuple(map(channel_row, result.channels)),
        "by_channel": channels_sentence(result),
        "deciding": tuple(rows[method] for method in result.decided_by),
        "others": tuple(row for method, row in rows.items() if method not in result.decided_by),
        "tried": attack_rows(result),
        "references": reference_rows(result),
        "prompt": tuple(IMAGE.split(result.example_prompt)),
        "settings": flat_settings(result.spec),
    }


def _remedy(result: AuditResult) -> tuple[tuple[str, str], ...]:
    if result.verdict == "violation":
        leaked, change, command = remedy(result)
        texts = f"{sentence(leaked)}.", f"{sentence(change)}.", command
        return tuple(zip(REMEDY, texts, strict=True))
    step = next_step(result) if result.verdict == "inconclusive" else ""
    return (("What to do next", step),) if step else ()


def _trial_that_leaks(result: AuditResult) -> TrialView | None:
    if result.verdict != "violation" or result.reading.of == "distribution":
        return None
    for trial in result.trials:
        wrong = result.reading.of == "score" and trial.right not in (None, (True, True))
        one, other = trial.answers
        if one != other and not wrong and not any(map(is_withheld, trial.answers)):
            return trial
    return None


def trial_figures(result: AuditResult) -> list[tuple[str, str]]:
    """The figures of what the attack saw: its scores, and the test after each paired trial."""
    binary = len(result.curves.edges) == 3 and bool(rates_of(result, 0.05))  # scores are 0 or 1
    found = [(rates_figure(result), RATES)] if binary else [
        (roc_figure(result), _roc_caption(result)),
        (histogram_figure(result), HISTOGRAM),
    ]  # fmt: skip
    if result.e_values is not None and result.e_values.pairs:
        path = result.e_values
        at = path.rejected_at
        caption = (
            f"e-value of the test of {path.tested} after each paired trial. If what is tested is "
            "true, this line ever reaches the dashed one with a probability of at most "
            f"{1 - result.spec['confidence']:.2g}; "
            f"{'it did not' if at is None else f'it did so at pair {at}'}."
        )
        found.append((e_value_figure(path, result.attack["mechanism"]), caption))
    return found


def _roc_caption(result: AuditResult) -> str:
    simulated = result.counts["simulated_outputs"] > 2 * result.counts["pairs"]
    how = ", simulated with the mechanism's own release code" if simulated else ""
    read = result.reading
    other = (
        "" if read.of == "score" and not read.channel else f" The bound was read from {read.words}."
    )
    return (
        f"ROC curve of the score of the attack ({result.curves.outputs} outputs{how}), and the "
        "highest curve that the claim allows. A curve above the dashed line is evidence against "
        f"the claim; only the bound decides.{other}"
    )
