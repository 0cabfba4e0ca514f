"""leakbound init: a configuration file for a file of rows or a system."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click

from leakbound.auditing import make_spec, prepare
from leakbound.auditing.plan import plan
from leakbound.auditing.prepare import Prepared, open_models
from leakbound.auditing.rows import public_fields
from leakbound.cli.help_pages import cli_command
from leakbound.cli.init_fields import FoundFields, found_fields
from leakbound.cli.init_files import config_text, kept_settings
from leakbound.cli.output import emit, write_output
from leakbound.cli.plan_command import described
from leakbound.cli.screen import say
from leakbound.errors import UsageError
from leakbound.models import Endpoint
from leakbound.models.address import BUNDLED, is_address
from leakbound.stats.witness import ReplyFacts
from leakbound.tasks import Job, Query, Votes, reply_of

__all__ = ["command"]

FIELDS = ("input_field", "input_template", "label_field")
NAMES = {"data": "a file of rows", "system": "a system", "model": "a model"}
KINDS = {
    "words": "answers with the words that a query allows, so the membership query fits",
    "text": "answers in free text, so the audit asks it to repeat the canary",
    "labels": "answers a label whatever it is asked, so a mislabeled canary fits",
    "same": "gives the same answer to two questions, such as a refusal; name a query that it "
    "answers (--query), or the audit will see nothing",
    "silence": "refuses, or does not answer; see --debug of audit, and docs/systems.md",
}


@dataclass(frozen=True, slots=True)
class _Sources:
    """What the user named, by what it is."""

    data: str | None
    address: str | None
    model: str | None

    @classmethod
    def of(cls, names: Sequence[str]) -> _Sources:
        """Raises UsageError for a name of no kind, and for two of a kind."""
        found: dict[str, str] = {}
        for name in names:
            kind = _kind(name)
            if kind in found:
                raise UsageError(
                    f"{found[kind]!r} and {name!r} are both read as {NAMES[kind]}; name one."
                )
            found[kind] = name
        return cls(found.get("data"), found.get("system"), found.get("model"))

    def values(self) -> dict[str, Any]:
        """Flat keys of a configuration, as far as something was named."""
        named = {"data": self.data, "address": self.address, "model": self.model}
        return {key: value for key, value in named.items() if value is not None}


def _kind(name: str) -> str:
    if name.startswith(("python:", "http:")) and not name.startswith("http://"):
        return "system"
    if name.startswith(("http://", "https://")):
        raise UsageError(
            f"{name!r} is the address of a server; name its model as openai/MODEL, and give the "
            "address as --base-url to `leakbound probe` and `audit`, or describe an application in "
            "a file (http:FILE.yaml, see docs/systems.md)."
        )
    if name.endswith(".py"):
        raise UsageError(
            f"{name!r} is a file of Python; name the object in it that answers, as "
            f"python:{name}:OBJECT."
        )
    return "model" if is_address(name) else "data"


@cli_command(
    "private.jsonl",
    "private.jsonl python:app.rag:answer --epsilon 1",
    "private.csv openai/my-model --out audit.yaml",
)
@click.argument("sources", nargs=-1, metavar="[ROWS] [SYSTEM or MODEL]")
@click.option("--epsilon", type=float, default=None, help="the claim for one answer [default: 1.0]")
@click.option("--labels", default=None, help="public labels, such as work,home")
@click.option("--input-field", default=None, help="field that holds the input")
@click.option("--input-template", default=None, help="an input made of several fields")
@click.option("--label-field", default=None, help="field that holds the label")
@click.option("--drop-empty", is_flag=True, help="leave out rows with an empty input or label")
@click.option("--pairs", type=int, default=None, help="paired trials [default: 100]")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("audit.yaml"),
    show_default=True,
    help="configuration file to write",
)
@click.option("--force", is_flag=True, help="overwrite an existing file")
def command(
    sources: tuple[str, ...],
    out: Path,
    force: bool,
    **given: object,
) -> int:
    """Look at ROWS (a file) and at a SYSTEM (python:FILE:OBJECT, http:FILE) or MODEL, and write a
    commented configuration, the plan of its audit and the next command.

    A system is asked twice, about bundled or your rows, to see what kind of answers it gives; a
    model is asked nothing. Without a terminal, everything comes from the command line.
    """
    named = _Sources.of(sources or _asked())
    if out.exists() and not force:
        raise UsageError(f"{str(out)!r} exists; add --force, or name another file with --out.")
    if any(parent.exists() and not parent.is_dir() for parent in out.parents):
        raise UsageError(f"{str(out)!r} lies below a file; name another file with --out.")
    values = named.values()
    values |= {key: value for key, value in given.items() if value not in (None, False)}
    fields = found_fields(named.data, values) if named.data else FoundFields()
    prepared, kind = _tried(values | dict(fields.chosen))
    say(_seen(prepared, named, kind, fields))
    write_output(out, config_text(prepared, kind, fields.why))
    planned, following = plan(prepared), f"leakbound audit --config {out}"
    say(f"\n{described(planned, prepared.claim)}\n\nWritten: {out}")
    say(f"Next: {following}")
    emit({
        "config": out, "answers": kind, "settings": kept_settings(prepared, kind), "plan": planned,
        "next": following,
    })  # fmt: skip
    return 0


def _asked() -> list[str]:
    """What a person at a terminal answers; nobody is asked elsewhere."""
    if not sys.stdin.isatty():
        raise UsageError("name a file of rows, a system or a model; see leakbound init --help.")
    rows = click.prompt("File of private rows (empty: bundled ones)", default="", type=str)
    system = click.prompt("System or model, such as python:app.py:answer or openai/MODEL",
                          default="pocket", type=str)  # fmt: skip
    return [name for name in (rows.strip(), system.strip()) if name]


def _tried(values: dict[str, Any]) -> tuple[Prepared, str | None]:
    """The audit that the answers of the system call for, and their kind; None for a model."""
    prepared = _prepared(values)
    if prepared.mechanism.needs:
        return prepared, None
    kind = _kind_of_answers(prepared)
    if kind == "text":
        return _prepared({**values, "query": "repeat", "task": "generation", "labels": None}), kind
    if kind == "labels":
        return _prepared({**values, "query": "input_output", "canary": "mislabeled"}), kind
    return prepared, kind


def _prepared(values: dict[str, Any]) -> Prepared:
    return prepare(make_spec(values), opener=partial(open_models, endpoint=Endpoint()))


def _kind_of_answers(prepared: Prepared) -> str:
    """Two questions: the audit's own, and an ordinary one."""
    pair = prepared.pairs[0]
    row = pair.nonmember.context[0]
    ordinary = Job(pair.nonmember.context, Query(str(row.input)))
    found = list(
        prepared.mechanism.collect(
            prepared.task, [pair.member, ordinary], [pair.draw, pair.draw], prepared.model
        )
    )
    first = found[0]
    if isinstance(first, Votes) and any(first.counts[:-1]):
        return "words"
    replies = [reply_of(one) for one in found]
    said = [one.text.strip() for one in replies if isinstance(one, ReplyFacts)]
    return _kind_of_texts(said, prepared.task.labels)


def _kind_of_texts(said: Sequence[str], labels: Sequence[str]) -> str:
    """Of two answers that use no word of the query."""
    if not any(said):
        return "silence"
    if {one.casefold() for one in said} <= {label.casefold() for label in labels}:
        return "labels"
    return "same" if len(set(said)) < len(said) else "text"


def _seen(prepared: Prepared, named: _Sources, kind: str | None, fields: FoundFields) -> str:
    """What was found out, in lines."""
    spec, task = prepared.spec, prepared.task
    shown, label = public_fields(spec.design)
    usual = "" if shown or label or not named.data else " (fields found by their usual names)"
    lines = [f"Rows: {named.data or 'bundled with leakbound; these are not yours'}{usual}"]
    lines += [fields.line] if fields.line else []
    lines += [f"Task: {'labels ' + ', '.join(task.labels) if task.labels else 'free text'}"]
    if kind is not None:
        lines += [f"System: {spec.system.address} {KINDS[kind]}"]
    elif spec.system.model in BUNDLED:
        lines += [f"Model: {spec.system.model}, bundled with leakbound: it is not your model"]
    else:
        lines += [f"Model: {spec.system.model}"]
    return "\n".join(lines)
