"""leakbound ledger: what a ledger holds, for operators."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path

import click

from leakbound.cli.options.ledger import LEDGER, ledger_key_option
from leakbound.cli.screen.help_pages import COUNT, SETTINGS, option, subcommand
from leakbound.cli.screen.output import emit, say
from leakbound.errors import StoreError
from leakbound.serving.ledger.inspection import (
    LedgerReport,
    account,
    history,
    problems,
    report,
)
from leakbound.serving.ledger.units import from_json

PRIVATE = "For operators only: who took part, and whose budget is spent, is private."


_ledger_options = option("--ledger", "file, or postgresql://USER@HOST/DATABASE", default=LEDGER)


@click.group(context_settings=SETTINGS)
def command() -> None:
    """Show what a ledger holds, what was answered, or what is wrong with it.

    Example: leakbound ledger show --ledger help.sqlite
    """


@subcommand(command, "show", "--ledger help.sqlite", epilog=PRIVATE)
@_ledger_options
@ledger_key_option
@option("--record", "show only the account of this record id", metavar="ID")
def show(ledger: str, ledger_key: Path | None, record: str | None) -> int:
    """The budget, the data sets, and how far the accounts of the records are spent."""
    if record is None:
        found = report(ledger)
        say("\n".join(_report_lines(found)))
        emit(_finite(asdict(found)))
        return 0
    one = account(ledger, record, ledger_key)
    able = "can" if one.pays else "cannot"
    say(
        f"{one.answers} answers, ε = {one.epsilon:.4g}; it {able} pay for another one at the price "
        "of the newest."
    )
    emit(_finite(asdict(one)))
    return 0


@subcommand(command, "history", "--ledger help.sqlite --last 10", epilog=PRIVATE)
@_ledger_options
@option("--last", "only the newest N answers [default: all]", COUNT)
def show_history(ledger: str, last: int | None) -> int:
    """Every answer: when, from which data set, at what price, and how many records took part."""
    answers = history(ledger, last)
    for answer in answers:
        say(
            f"{answer.number}  {answer.at}  {answer.dataset}  {answer.records} records, "
            f"{answer.left_out} left out  {from_json(answer.guarantee).describe()}"
        )
    shown = [{**asdict(one), "guarantee": json.loads(one.guarantee)} for one in answers]
    emit(_finite(shown))
    return 0


@subcommand(command, "check", "--ledger help.sqlite")
@_ledger_options
@ledger_key_option
def check(ledger: str, ledger_key: Path | None) -> int:
    """Whether a ledger is whole, the newest copy, and overspent nowhere. Exits with 2 if not."""
    found = problems(ledger, ledger_key)
    emit({"problems": found})
    if found:
        raise StoreError(f"the ledger {ledger!r} has problems: {' '.join(found)}")
    say("The ledger is whole, the newest copy that its key file knows, and overspent nowhere.")
    return 0


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _report_lines(found: LedgerReport) -> list[str]:
    counted = f", counted in {found.unit.partition(':')[0]}" if found.unit else ""
    relation = f" under {found.relation}" if found.relation else ""
    lines = [
        f"Ledger {found.address}",
        f"Budget of each record: ε = {found.epsilon:g} at δ = {found.delta:g}{relation}{counted}",
        f"{_count(found.answers, 'answer')}; {_count(found.records, 'record')}, of which "
        f"{found.exhausted} cannot pay for another answer; the most spent by one is "
        f"ε = {found.most_spent:.4g}",
    ]
    return lines + [
        f"  data set {one.name!r}: {_count(one.answers, 'answer')}, ε = {one.epsilon:.4g}"
        for one in found.datasets
    ]
