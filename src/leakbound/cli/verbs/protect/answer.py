"""leakbound answer: one query over your rows, paid for in a ledger."""

from __future__ import annotations

import math
import sys
import warnings
from typing import Any

import click

from leakbound.auditing.prepare.build import build_mechanism, build_served, open_models
from leakbound.auditing.prepare.rows import load_data, public_fields, public_task, require_public
from leakbound.auditing.spec.audit_spec import KEYS, AuditSpec
from leakbound.cli.options.collect import call_options
from leakbound.cli.options.endpoint import endpoint_options, local_options
from leakbound.cli.options.ledger import LEDGER, Accounts, accounts_options
from leakbound.cli.options.reply_time import (
    OFF,
    answer_on_time,
    for_private_rows,
    reply_options,
    seconds_of,
)
from leakbound.cli.options.spec import spec_from, spec_options
from leakbound.cli.screen.help_pages import COUNT, Function, cli_command, option, together
from leakbound.cli.screen.output import emit, is_quiet, say
from leakbound.errors import DataError, UsageError
from leakbound.models import Endpoint, Local, Scripted
from leakbound.models.address import BUNDLED
from leakbound.serving import Answer, PrivateICL
from leakbound.serving.ledger import Ledger
from leakbound.serving.private import require_unlimited
from leakbound.tasks import Context, Task
from leakbound.utility.at_best import WORDS, label_whatever_is_shown

ANSWER_KEYS = {
    "config", "assignments", "address", "mechanism", "model", "embedder",
    "trust_remote_code", "data", "data_dir", "input_field", "input_template", "label_field",
    "delimiter", "encoding", "task", "labels", "system_message", "shots", "seed", "epsilon",
    "delta",
}  # fmt: skip
# of the options of a spec; the others say what an audit asks
DEFAULTS = {"mechanism": {"kind": "product_of_experts"}}  # it has a guarantee for every task
MEANINGS = {
    "mechanism": "how answers are made from the context [default: product_of_experts]",
    "epsilon": "epsilon of one answer: its privacy cost, which sets the noise [default: 1.0]",
    "delta": "delta of that epsilon, and of the budget [default: 1e-05]",
    "seed": "seed of random choices: of the bundled rows alone, not of answers [default: 0]",
    "shots": "rows in a context: the first N [default: all rows]",
}


LITTLE = 0.25  # of the way from guessing to certainty: answers hardly depend on the rows
BUDGET_OPTIONS = together(
    option(
        "--budget",
        "total epsilon of all answers at delta, or inf [default: --epsilon: one answer]",
        float,
    ),
    option(
        "--ledger",
        "file, or postgresql://USER@HOST/DATABASE, that records what was spent",
        default=LEDGER,
    ),
    option("--longest-query", "maximum bytes of a query", COUNT, 1000),
)


def answer_options(function: Function) -> Function:
    """The options of a spec that decide an answer, of an endpoint, and of the budget."""
    function = endpoint_options(local_options(accounts_options(function)), tells=False)
    function = spec_options(function)
    options = function.__click_params__  # type: ignore[attr-defined]
    others = KEYS.keys() - ANSWER_KEYS
    options[:] = [
        one for one in options if isinstance(one, click.Argument) or one.name not in others
    ]
    for one in options:
        if isinstance(one, click.Option):
            one.help = MEANINGS.get(str(one.name), one.help)
    return BUDGET_OPTIONS(function)


def load_private(
    config: str | None, assignments: tuple[str, ...], endpoint: Endpoint, flags: dict[str, Any]
) -> tuple[AuditSpec, Context, Task]:
    """The spec of a command, with the number of its examples; the examples; their task.

    What is public is fixed before a row is read. Raises LeakboundError with a sentence for whatever
    cannot be used.
    """
    _require_settings(assignments)
    spec = spec_from(config, assignments, flags, DEFAULTS)
    if endpoint.limits:
        require_unlimited(build_mechanism(_with_shots(spec, sys.maxsize)), endpoint.limits)
    if public_task(spec.design) is None:
        require_public(None, build_mechanism(_with_shots(spec, sys.maxsize)))
    if spec.design.drop_empty:
        raise UsageError(
            "drop_empty would leave out private rows by what they hold, so one row could move all "
            "that follow it into other partitions; take the empty rows out of the data, and leave "
            "drop_empty out."
        )
    rows, task = load_data(spec.design)
    shots = spec.design.shots if "shots" in spec.design.model_fields_set else len(rows)
    if shots > len(rows):
        raise UsageError(
            f"shots is {shots}, and the data has {len(rows)} rows; use at most {len(rows)}."
        )
    return _with_shots(spec, shots), rows[:shots], task


def _tell_bundled(spec: AuditSpec) -> None:
    design = spec.design
    rows = design.data is None and design.rows is None and design.task in (None, "help_desk")
    lines = ["the rows are bundled with leakbound; --data FILE names yours."] * rows
    if spec.system.address is None and spec.system.model in BUNDLED:
        lines.append("the model is bundled with leakbound; --model ADDRESS names yours.")
    for line in [] if is_quiet() else lines:
        say(f"leakbound: {line}", err=True)


def _with_shots(spec: AuditSpec, shots: int) -> AuditSpec:
    return spec.model_copy(update={"design": spec.design.model_copy(update={"shots": shots})})


def _require_settings(assignments: tuple[str, ...]) -> None:
    """--set may name what decides an answer; a file may serve audits too, and is not looked at."""
    for text in assignments:
        key = text.partition("=")[0].strip().partition(".")[0]
        if key in KEYS and key not in ANSWER_KEYS:
            raise UsageError(
                f"--set {key} is a setting of audits, and decides no answer; leave it out."
            )


def open_private(
    config: str | None,
    assignments: tuple[str, ...],
    budget: float | None,
    ledger: str,
    longest_query: int,
    endpoint: Endpoint,
    local: Local,
    accounts: Accounts,
    flags: dict[str, Any],
) -> PrivateICL:
    """Rows, mechanism, model and ledger as the options say; refuses before any model call what can
    be refused.

    Raises LeakboundError with a sentence for whatever cannot be used.
    """
    spec, rows, task = load_private(config, assignments, endpoint, flags)
    _tell_bundled(spec)
    mechanism = build_served(spec, task)
    if application := mechanism.application:
        mechanism = application.called(call_options(endpoint, config, None, disposable=False))
    model = open_models(spec, endpoint, local) if mechanism.needs else Scripted(name=mechanism.name)
    total = spec.decision.epsilon if budget is None else budget
    ids = accounts.ids(spec.design, len(rows))
    if accounts.record_id is not None and load_data(spec.design)[0][: len(rows)] != rows:
        raise DataError(
            "the data changed while they were read, so no id is sure to be that of its row; start "
            "again once nobody writes them."
        )
    warnings.simplefilter("ignore")  # one row alone may set one off
    book = Ledger(ledger, total, spec.decision.delta, accounts.ledger_key)
    return PrivateICL(mechanism, rows, task, model, book, longest=longest_query,
                      dataset=accounts.dataset, record_ids=ids,
                      fields=public_fields(spec.design))  # fmt: skip


@cli_command(
    '--data private.jsonl --labels urgent,normal --epsilon 2 "my card was charged"',
    first="--data --labels --model --mechanism --epsilon --shots --budget --ledger",
)
@answer_options
@reply_options
@click.argument("query")
def command(
    config: str | None, assignments: tuple[str, ...], budget: float | None, ledger: str,
    longest_query: int, reply_after: str | None, longest_row: int | None, query: str,
    endpoint: Endpoint, local: Local, accounts: Accounts, **flags: object,
) -> int:  # fmt: skip
    """Answer QUERY from the private rows. The answer goes to standard output, what was spent to
    standard error.

    The ledger is charged before the model is called, so a crash can lose budget, but never privacy.
    If the budget is exhausted, exits with 5 and releases nothing. Each record has one budget,
    which reordering, adding or dropping rows does not change.
    """
    chosen = reply_after or OFF
    served = open_private(
        config, assignments, budget, ledger, longest_query, for_private_rows(endpoint, chosen),
        local, accounts, flags,
    )  # fmt: skip
    say_at_best(served)
    after = seconds_of(chosen, longest_row, served)
    answer = answer_on_time(served, query, after, ledger)
    say(answer.text)
    if not answer.answered:
        click.echo("no answer: the partitions named none; it costs the same.", err=True)
    click.echo(_describe(answer), err=True)
    click.echo(f"manifest: {answer.manifest}", err=True)
    emit(answer)
    return 0


def say_at_best(served: PrivateICL) -> None:
    """Say what to expect, before anything is spent."""
    if is_quiet():
        return
    if same := label_whatever_is_shown(served.mechanism, served.task, served.model):
        say(
            f"Warning: the model answers {same!r} to a made-up text, whichever of two labels its "
            "examples give that text. It may ignore examples; for a local chat model, try "
            "--chat-template off.",
            err=True,
        )
    share = served.at_best()
    if share is None:
        return
    what = "answers" if served.task.labels else "words of a free answer"
    chance = 1 / (len(served.task.labels) or WORDS)
    little = "; they hardly depend on the rows" * (share < chance + LITTLE * (1 - chance))
    say(
        f"Expect at most {share:.0%} right {what}, even if the rows make the model certain "
        f"(guessing: {chance:.0%}){little}.",
        err=True,
    )


def _describe(answer: Answer) -> str:
    """What was spent, rounded up, and what is left, rounded down."""
    spent, left = (
        "infinite" if math.isinf(value) else f"{turn(value * 1e4) / 1e4:g}"
        for value, turn in ((answer.spent, math.ceil), (answer.remaining, math.floor))
    )
    return f"spent so far: ε = {spent} at δ = {answer.delta:g}; remaining: {left}"
