"""leakbound plan: cost and power before anything is spent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import ceil, floor
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from leakbound._catalogue import entries_of
from leakbound._install import install_hint
from leakbound.auditing import AuditSpec, prepare
from leakbound.auditing.plan import Plan, plan
from leakbound.auditing.prepare.build import open_models
from leakbound.auditing.prepare.prepared import Prepared
from leakbound.auditing.result.sentences import (
    Subject,
    first_line,
    notes_of,
    odds_beside,
    systems_words,
)
from leakbound.auditing.store.commitments import commit as commit_to
from leakbound.cli.init.sources import with_sources
from leakbound.cli.options.collect import CollectOptions, collect_options
from leakbound.cli.options.endpoint import endpoint_options, local_options
from leakbound.cli.options.spec import spec_from, spec_options
from leakbound.cli.screen.help_pages import RealRange, cli_command, option
from leakbound.cli.screen.output import emit, say
from leakbound.cli.screen.result import show
from leakbound.errors import UsageError
from leakbound.estimators import Claim
from leakbound.models import Endpoint, Local, Model, Scripted
from leakbound.models.address import lacks_torch
from leakbound.privacy import Guarantee, NonPrivate, Subsampled, leaves
from leakbound.report.screen import DEFAULT, SIGNS, WIDTH, lay_out
from leakbound.report.words import number_of
from leakbound.stats import Assumption, Power, beside, cut
from leakbound.stats.power import NO_POWER, PERFECT, Leak
from leakbound.tasks import Query

if TYPE_CHECKING:
    from leakbound.auditing.one_run.prepare import PreparedOneRun

TIMES = (1, 2, 4, 8, 16)  # budgets, in units of the claimed epsilon
# Of guarantees whose composition takes seconds, and of none at all, nothing is said.
UNSAID = (NonPrivate, Subsampled)


def budget_line(cost: Guarantee, epsilon: float, delta: float) -> str | None:
    """How many answers of a mechanism budgets buy, where it is served."""
    if any(isinstance(part, UNSAID) for part in leaves(cost)):
        return None
    from leakbound.serving.ledger import affordable_answers

    budgets = [times * epsilon for times in TIMES]
    bought = [affordable_answers(cost, budget, delta) for budget in budgets]
    if None in bought:
        return None
    shown, counts = ", ".join(f"{one:g}" for one in budgets), ", ".join(map(str, bought))
    return f"served, a budget of ε = {shown} at δ = {delta:g} buys {counts} answers"


RATES = "--assume-hit, --assume-false-alarm"
LEAKS: dict[Leak, str] = {
    "randomised_response": "a system that leaks like randomised response",
    "small_noise": "a mechanism whose noise is too small",
    "noisy_answer": "a system whose yes or no comes from a score with too little noise",
}


@cli_command(
    "private.jsonl app.py:answer",
    "--data private.jsonl --mechanism report_noisy_max --epsilon 4 --pairs 200",
    first="--data --labels --system --model --mechanism --epsilon --pairs --assume-hit",
)
@option(
    "--effect",
    "difference to plan for: of two evaluations, in place of an audit",
    RealRange(0, 1, min_open=True),
)
@option(
    "--discordant", "share of samples on which they differ", RealRange(0, 1, min_open=True), 0.2
)
@click.argument("sources", nargs=-1, metavar="[ROWS] [SYSTEM or MODEL]")
@spec_options
@endpoint_options
@local_options
@collect_options
@option(
    "--commit",
    "write down in --out what the audit will do, before any call; keep the printed digest "
    "elsewhere",
    bool,
)
def command(
    sources: tuple[str, ...], config: str | None, assignments: tuple[str, ...], endpoint: Endpoint,
    local: Local, collecting: CollectOptions, commit: bool, effect: float | None,
    discordant: float, **flags: object,
) -> int:  # fmt: skip
    """What an audit will cost and can show.

    Accepts the options of `audit`; makes no model calls.
    """
    if effect is not None:
        return _plan_difference(effect, discordant)
    spec = spec_from(config, assignments, with_sources(sources, flags))
    prepared: Prepared | PreparedOneRun
    if spec.design.layout == "one_run":
        from leakbound.auditing.one_run import plan_one_run, prepare_one_run

        prepared, things = prepare_one_run(spec), "canaries"
        planned = plan_one_run(prepared)
        lines = [described(planned, prepared.claim(), spec.decision.claim_for, things)]
    else:
        prepared, things = prepare(spec, opener=partial(_open, endpoint=endpoint)), "pairs"
        planned, claim = plan(prepared), prepared.trial_design.claim
        cost = prepared.mechanism.cost(prepared.task, Query("-"))
        named = spec.decision.claim is not None  # a claim of 0 is no budget
        line = None if named else budget_line(cost, claim.epsilon, claim.delta)
        lines = [described(planned, claim), *([line] if line else [])]
    said = "\n".join([*lines, *(f"Warning: {warning}" for warning in prepared.warnings)])
    show(partial(plan_screen, planned, prepared.warnings, things), partial(say, said))
    made = _commit(prepared, collecting.out if commit else None)
    emit({"plan": planned, "warnings": prepared.warnings, **made})
    return 0


def _plan_difference(effect: float, discordant: float) -> int:
    for entry in entries_of("leakbound.plans").select(name="difference"):
        rows, planned = entry.load()(effect, discordant)
        say(lay_out("· PLAN   a difference", rows, "For another share: --discordant", code=0))
        emit({"plan": planned})
        return 0
    raise UsageError("--effect is in the package leakbound-hosts; install packages/hosts.")


def _commit(prepared: Prepared | PreparedOneRun, out: Path | None) -> dict[str, str]:
    if out is None:
        return {}
    address = prepared.spec.system.model
    if isinstance(prepared, Prepared) and prepared.mechanism.needs and lacks_torch(address):
        raise UsageError(
            f"the fingerprint of {address} is part of a commitment, and takes torch: "
            f"{install_hint('local')}."
        )
    digest = commit_to(prepared.folder(out), prepared.manifest).digest
    say(f"commitment: {digest}")
    return {"commitment": digest}


def _open(spec: AuditSpec, endpoint: Endpoint) -> Model:
    """The model; where torch is missing, one that is only counted on, because none is asked."""
    address = spec.system.model
    if not lacks_torch(address):
        return open_models(spec, endpoint=endpoint)
    hint = install_hint("local")
    say(
        f"leakbound: torch is not installed ({hint}), so nothing checked whether the prompts fit "
        f"into {address}.",
        err=True,
    )
    return Scripted(_unasked, _unasked, _unasked, _unasked, _unasked, name=spec.system.model)


def _unasked(*asked: object) -> NoReturn:
    raise AssertionError("a plan asks no model")


def plan_screen(
    p: Plan, warnings: Sequence[str] = (), things: str = "pairs", width: int = WIDTH
) -> str:
    needed, subject = p.pairs_needed, p.subject or Subject("", None, 0.0)
    enough, claim = needed is not None and needed <= p.pairs, subject.epsilon or 0.0
    most, limit = beside(p.largest_epsilon, claim)
    odds, allowed = odds_beside(p.largest_epsilon, claim)
    notes = notes_of(replace(subject, claim_source="unknown"))
    notes += f" ({DEFAULT})" * (subject.claim_source == "default")
    shown, step = f"ε up to {most} (odds × {odds}); claim {limit} ({allowed}){notes}", "audit …"
    if p.largest_epsilon <= claim:
        shown += f"; it tests {p.tested}"
    if not enough:
        least = f"no number of {things}" if needed is None else f"{needed} {things}, not {p.pairs},"
        shown = f"too little: {least} would show a violation"
        step = "plan …" if needed is None else f"audit … --{things} {2 * needed}"
    cost = "price unknown" if p.cost is None else _cost(p.cost)
    costs = f"{number_of(p.model_calls, 'call')} · {p.pairs:,} {things} · {cost}"
    if p.others is not None:
        costs += f" · up to {number_of(p.others.model_calls, 'call')} more if no canary is detected"
    rows = [("costs", costs), ("can show", shown), ("next", f"leakbound {step}")]
    rows += [("also", one) for one in warnings]
    headline = f"{SIGNS['' if enough else 'inconclusive']} PLAN   {systems_words([subject])}"
    return lay_out(headline, rows, "Power and what it assumes: -v", code=0, width=width)


def _cost(most: float | None) -> str:
    if most is None:
        return "unknown, no price is known for this model"
    return f"at most ${ceil(most * 1e4) / 1e4:.4f}, retries not counted"


def described(p: Plan, claim: Claim, claim_for: str = "", things: str = "tested pairs") -> str:
    """A plan with its power; claim_for: of an audit in one run."""
    counted = f"{p.pairs} pairs, {p.model_calls} model calls (cost: {_cost(p.cost)})"
    score, mu, by = (
        "by its score alone, ",
        f", or μ = {cut(p.largest_mu, 3)}",
        f", by {p.estimator}",
    )
    if claim_for:
        counted = f"{p.pairs} canaries in one store, which is built once; {p.model_calls} questions"
        score, mu, by = "", ", of the whole run", ""
    lines = [
        first_line("PLAN", [] if p.subject is None else [p.subject]),
        counted,
        f"under test: {p.tested}{by}",
        f"largest certifiable: {score}a perfect attack certifies at most ε = "
        f"{cut(p.largest_epsilon)} at δ = {claim.delta:g}{mu}",
    ]
    if p.background_copies:
        lines.append(
            f"contexts: worst-case, the canary's text also stands in {p.background_copies} other "
            "partitions of both"
        )
    if p.guarantee_mu is not None:
        lines.append(
            f"the mechanism's own noise guarantees μ = {p.guarantee_mu:.3f}: "
            f"{'within' if (p.largest_mu or 0.0) > p.guarantee_mu else 'beyond'} what so many "
            "pairs can test"
        )
    if p.pairs_needed is not None:
        lines.append(
            f"to reject what is tested, a perfect attack needs {p.pairs_needed} {things} at least"
        )
    elif claim_for:
        lines.append(
            "no number of canaries is enough for a perfect attack to reject what is tested"
        )
    if claim_for == "answer" and claim.epsilon:
        lines.append(
            "a claim for an answer grows with the number of answers: use --design session for it, "
            "or --claim-for run for a claim for the whole run"
        )
    if p.others is not None:
        lines.append(
            "if nothing shows that this attack sees the canary, others are asked, which would show "
            f"a rate that changes by {p.others.change:.2f} with probability 0.9: "
            f"{', '.join(p.others.attacks)} (at most {p.others.pairs} pairs, "
            f"{p.others.model_calls} model calls more, cost: {_cost(p.others.cost)})"
        )
    return "\n".join([*lines, *_powers(p, claim.epsilon)])


def _powers(p: Plan, epsilon: float) -> list[str]:
    if p.guessing_power:
        return [*power_lines(p.guessing_power, "the test")]
    if not p.power:
        return [NO_POWER]
    leak = p.power[0][1].leak
    name, true, what = ("μ", p.guarantee_mu or 0.0, "guarantee")
    if leak == "randomised_response":
        name, true, what = ("ε", epsilon, "claim")
    return [f"power against {LEAKS[leak]},", _assume(p.assumption)] + [
        f"  true {name} = {factor * true:<8.4g} the {what} is rejected with probability "
        f"{_chance(power)}"
        for factor, power in p.power
    ]


def _assume(assumption: Assumption) -> str:
    if assumption == PERFECT:
        return (
            "if the model notices every canary and raises no false alarm, which is the best case "
            f"({RATES}):"
        )
    return (
        f"if the model notices a canary with probability {assumption.hit:g} and raises a false "
        f"alarm with probability {assumption.false_alarm:g} ({RATES}):"
    )


def _chance(power: Power) -> str:
    """A probability, with the interval of a simulation rounded outwards."""
    if power.audits is None:
        return f"{power.chance:.2f} (exact)"
    low, high = (
        edge(100 * end) / 100 for edge, end in zip((floor, ceil), power.interval, strict=True)
    )
    return f"{power.chance:.2f} ({low:.2f} to {high:.2f} by {power.audits} simulated audits)"


def power_lines(powers: Sequence[tuple[float, Power]], method: str) -> Iterator[str]:
    """How probably attacks of known accuracies reject random guessing."""
    if powers:
        yield f"Power of {method} with so many trials, two-sided, against an attack that is right"
    for accuracy, one in powers:
        yield f"  {accuracy:.0%} of the time: {cut(one.safe)} at least ({one.kind})"
