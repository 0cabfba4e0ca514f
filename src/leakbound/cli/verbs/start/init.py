"""leakbound init: a configuration file for a file of rows or a system."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from shlex import join
from typing import Any, NamedTuple

import click

from leakbound.auditing import make_spec, prepare
from leakbound.auditing.collect.collect import CollectionPlan
from leakbound.auditing.collect.quotes import pieces_of
from leakbound.auditing.observe.controls import check_channels
from leakbound.auditing.observe.release import Releaser
from leakbound.auditing.plan import plan
from leakbound.auditing.prepare.build import Handed, open_models
from leakbound.auditing.prepare.prepared import FEW_WORDS, QUESTION, Prepared, attack_name
from leakbound.auditing.prepare.rows import public_fields
from leakbound.cli.init.fields import FoundFields, config_text, found_fields, kept_settings
from leakbound.cli.init.server import ServerOptions, Target, system_file, targets_of, written
from leakbound.cli.init.sources import Sources, asked_sources
from leakbound.cli.screen.help_pages import FILE, cli_command, option
from leakbound.cli.screen.output import emit, say, write_output
from leakbound.cli.screen.result import show
from leakbound.cli.verbs.audit.plan import described, plan_screen
from leakbound.errors import TargetError, UsageError
from leakbound.models import Endpoint
from leakbound.models.address import BUNDLED
from leakbound.report.words import number_of
from leakbound.systems import SystemMechanism
from leakbound.systems.channels import ALL, SECONDS, TOOL_CALLS
from leakbound.systems.http.config import describe_rows
from leakbound.systems.replies import REPLY
from leakbound.tasks import ANSWER, Aggregate, Job, Query, Votes, reply_of
from leakbound.witness import ReplyFacts

KINDS = {
    "words": "answers with the words that a query allows, so the membership query fits",
    "text": "answers in free text, so the audit asks it for what a record says",
    "labels": "answers a label whatever it is asked, so a mislabeled canary fits",
    "same": "gives the same answer to two questions, such as a refusal; name a query that it "
    "answers (--query), or the audit will see nothing",
    "silence": "refuses, or does not answer; see --debug of audit, and docs/systems.md",
}
FREE = {"task": "generation", "labels": None}
TWO_WORDS = {**FEW_WORDS, "words": 2}
# Attacks that fit the kinds of answers, of which the first that shows a single canary is written.
ATTACKS: dict[str, tuple[dict[str, Any], ...]] = {
    "text": (
        {"query": "recall", "canary": "coded", **FREE},
        {"query": FEW_WORDS, "canary": "coded", **FREE},
        {"query": QUESTION, "canary": "coded", **FREE},
        {"query": TWO_WORDS, "canary": "coded", **FREE},
        {"query": "repeat", "canary": "hex", **FREE},
        {"query": "if_then_explicit", "canary": "hex", **FREE},
        {"query": "membership", "canary": "hex"},
        {"query": "input_output", "canary": "mislabeled"},
    ),
    "words": (
        {"query": "membership", "canary": "hex"},
        {"query": "recall", "canary": "coded", **FREE},
        {"query": FEW_WORDS, "canary": "coded", **FREE},
        {"query": QUESTION, "canary": "coded", **FREE},
        {"query": "repeat", "canary": "hex", **FREE},
    ),
    "labels": ({"query": "input_output", "canary": "mislabeled"},),
}
ATTACKS["same"] = ATTACKS["text"]  # an application that knows nothing of both questions
FIRST = re.compile(r"\W*\w+\s*[^\w\s]")  # a word and a mark: "No, ...", and no "No receipt of it."
NUMBER = re.compile(r"\d+")
QUOTED = 4  # words in a row that an answer has from a row
USUAL = 6  # questions, each about a row, that are asked with the row and without it
UNREAD = (
    "Nothing shows that it answers usual questions: most got one reply, which did not depend on "
    "their rows. So an audit must not pass (`detect_change: 0`): name a question that it answers "
    "from its rows (docs/systems.md), and take that line out; or take it out if it is to read none"
)
TRIED, SEEN = 8, 0.05  # pairs of contexts for each of these, and the p-value from which it shows


@cli_command(
    "private.jsonl",
    "private.jsonl python:app.rag:answer --epsilon 1",
    "private.jsonl http://127.0.0.1:8000/answer",
    "private.csv openai/my-model http://127.0.0.1:8000/v1 --save audit.yaml",
)
@click.argument("sources", nargs=-1, metavar="[ROWS] [SYSTEM, MODEL or URL]")
@option("--epsilon", "epsilon of one answer: the claim, a limit on its leak [default: 1.0]", float)
@option("--labels", "public labels, such as work,home")
@option("--task", "task: generation, or one by name [default: found by the labels]")
@option("--input-field", "field that holds the input")
@option("--input-template", "an input made of several fields")
@option("--label-field", "field that holds the label")
@option("--encoding", "encoding of a file of rows, such as cp1252 [default: UTF-8]")
@option("--drop-empty", "leave out rows with an empty input or label", bool)
@option("--pairs", "paired trials [default: 100]", int)
@option("--shots", "rows in a context [default: 20]", int)
@option("--save", "YAML file to write", FILE, Path("audit.yaml"), name="out")
@option("--force", "overwrite an existing file", bool)
@option(
    "--body",
    "JSON that the application at URL expects, "
    'such as \'{"notes": "{context}", "q": "{query}"}\' [default: found by trying]',
    metavar="JSON",
)
@option(
    "--answer",
    "path of the answer in an output, such as data.text [default: found by trying]",
    metavar="PATH",
)
@option("--key-env", "environment variable that holds the key (of URL)", metavar="NAME")
@option("--insecure", "allow plain http to other machines", bool)
def command(
    sources: tuple[str, ...], out: Path, force: bool, body: str | None, answer: str | None,
    key_env: str | None, insecure: bool, **given: object,
) -> int:  # fmt: skip
    """Look at ROWS (a file) and a SYSTEM (python:FILE:OBJECT, http:FILE), MODEL or URL. Write a
    commented configuration, and print the plan of its audit and the next command.

    URL is an application that takes a context and a query as JSON, or an OpenAI-compatible server
    (its base URL, which ends in /v1). Requests about made-up rows show how to call it. A system
    then gets two queries, which show what kind of answers it gives, and 16 with each attack that
    fits, until one detects a single canary. If none does, it gets up to 12 more, with and without
    rows. All are about your rows, or bundled ones; a MODEL gets no rows. Fields with unusual names
    are guessed from their contents. Without a terminal, init asks nothing.
    """
    named = Sources.of(sources or asked_sources())
    _require_free(out, force, named)
    values = {
        key: value for key, value in given.items() if value is not None and value is not False
    }
    application = named.model is None and not named.is_model_server
    fields = found_fields(named.data, values, application) if named.data else FoundFields()
    targets = targets_of(named, ServerOptions(key_env, insecure, body, answer), out)
    values |= {**named.values(), **fields.chosen}
    if named.names_no_system:
        return _unfinished(values, fields, out)
    with written(system_file(out), targets[0].file):
        target, (prepared, kind, tried, _) = _likeliest(targets, values, out)
        say(_seen(prepared, named, kind, fields, target, given["labels"], tried) + "\n")
        write_output(out, config_text(prepared, kind, fields.why, target.settings), "--save")
    planned, following = plan(prepared), f"leakbound audit --config {out}"
    listed = " and ".join(map(str, [out, *([system_file(out)] if target.file else [])]))
    said = described(planned, prepared.trial_design.claim)
    show(partial(plan_screen, planned), partial(say, said))
    say(f"\nWritten: {listed}\nNext: {following}")
    emit({
        "config": out, "answers": kind, "settings": kept_settings(prepared, kind, target.settings),
        "plan": planned, "next": following,
    })  # fmt: skip
    return 0


def _unfinished(values: dict[str, Any], fields: FoundFields, out: Path) -> int:
    unnamed = Handed(mechanism=SystemMechanism(lambda context, query: "", "TODO"))
    prepared = prepare(make_spec(values), handed=unnamed)
    lines = _rows_seen(prepared, values["data"], fields)
    write_output(out, config_text(prepared, "todo", fields.why, {}), "--save")
    given = ((key, str(one)) for key, one in values.items() if key not in ("data", *fields.chosen))
    flags = [word for key, one in given for word in (f"--{key.replace('_', '-')}", one)]
    words = ["leakbound", "init", str(values["data"]), "SYSTEM", *flags, "--save", str(out)]
    following = join([*(word for word in words if word != "True"), "--force"])
    say("\n".join([
        *lines,
        f"Written: {out}. No system is named: replace TODO in it, with python:app.py:answer for a "
        "function or http:FILE.yaml for a service; for a model, write `model: openai/NAME` there.",
        f"Or let init look at it: {following}, where SYSTEM is app.py:answer, or the address of a "
        "service, such as http://127.0.0.1:8000/answer",
    ]))  # fmt: skip
    settings = kept_settings(prepared, "todo", {})
    emit({"config": out, "answers": None, "settings": settings, "plan": None, "next": following})
    return 0


def _require_free(out: Path, force: bool, named: Sources) -> None:
    is_application = named.url is not None and not named.is_model_server
    for file in (out, system_file(out)) if is_application else (out,):
        if file.exists() and not force:
            raise UsageError(f"{str(file)!r} exists; add --force, or name another file (--save).")
    if any(parent.exists() and not parent.is_dir() for parent in out.parents):
        raise UsageError(f"{str(out)!r} lies below a file; name another file with --save.")


class Tried(NamedTuple):
    """The audit that the answers of a system call for."""

    prepared: Prepared
    kind: str | None  # of its answers; None of a model
    line: str  # what was seen of a single canary
    sees: bool


def _likeliest(
    targets: Sequence[Target], values: dict[str, Any], out: Path
) -> tuple[Target, Tried]:
    """The first way to ask a service in which an attack sees a single canary, or else the first."""
    found = []
    for target in targets:
        if target.file:
            write_output(system_file(out), target.file, "--save")
        found.append((target, _try_out({**values, **target.values}, target.endpoint)))
        if found[-1][1].sees:
            return found[-1]
    if targets[0].file:
        write_output(system_file(out), targets[0].file, "--save")
    return found[0]


def _try_out(values: dict[str, Any], endpoint: Endpoint) -> Tried:
    prepared = _prepare(values, endpoint)
    if prepared.mechanism.needs:
        return Tried(prepared, None, "", False)
    every = _prepare({**values, "channels": [ALL]}, endpoint)
    kind, channels = _kind_of_answers(every)
    whole = values
    if channels:
        values = {**values, "channels": [ANSWER, *channels]}
        prepared = _prepare(values, endpoint)
    first: dict[str, Any] | None = None
    least, told = SEEN / max(1, len(ATTACKS.get(kind, ()))), None  # by calls, fields, replies
    for attack in ATTACKS.get(kind, ()):
        # not of such rows, or a question at which the system fails
        with suppress(UsageError, TargetError):
            tried = _prepare({**values, **attack}, endpoint)
            # where nothing is seen, many attacks are to be asked, which read replies as a whole
            all_of = {*channels} <= {REPLY, TOOL_CALLS}
            other = {**(whole if all_of else values), **attack}
            first = first or other
            by_text, by_replies = _p_values(tried)
            if by_replies <= least:
                least, told = by_replies, other
            if by_text <= SEEN:
                shown = f"Tried: {attack_name(tried.attack)} detects a single canary"
                kind = "labels" if attack in ATTACKS["labels"] else kind
                return Tried(tried, "text" if kind == "same" else kind, shown, True)
    if first is None:
        return Tried(prepared, kind, "", False)
    if told is not None:
        prepared = _prepare(told, endpoint)
        shown = f"Tried: {attack_name(prepared.attack)} changes replies for a single canary"
        return Tried(prepared, kind, f"{shown}, and no reply shows it", True)
    none = (
        f"Tried: {number_of(len(ATTACKS[kind]), 'kind')} of questions, and no reply shows a single "
        "canary: the system shows none, or these do not reach it (docs/rag.md)"
    )
    if kind != "labels" and not _answers_questions(every):
        return Tried(
            _prepare({**first, "detect_change": 0}, endpoint), kind, f"{none}\n{UNREAD}", False
        )
    return Tried(_prepare(first, endpoint), kind, none, False)


def _answers_questions(prepared: Prepared) -> bool:
    """Do at least half of some usual questions, each half of a row or all of it, get a reply of
    their own, numbers aside, or one that changes where another row stands in place of theirs?"""
    own, other = (pair.nonmember.context for pair in prepared.pairs[:2])
    spare = [row for row in other if row not in own][:1]
    rows = [str(row.input).split() for row in own[:USUAL] if spare]
    halves = [" ".join(words[: (len(words) + 1) // 2]) for words in rows]
    texts, changed = list[str](), 0
    for at, half in enumerate(halves):
        asked = half if halves.count(half) == 1 else " ".join(rows[at])
        without = (*own[:at], *spare, *own[at + 1 :])
        jobs = [Job(each, Query(asked)) for each in (own, without)]
        try:
            found = [*prepared.mechanism.collect(prepared.task, jobs, [0, 0], prepared.model)]
        except TargetError:  # a question at which it fails
            continue
        here, there = (_said(one, asked) for one in found)
        texts.append(NUMBER.sub("#", repr(here)))
        changed += here != there
    apart = len(texts) - max(map(texts.count, texts), default=0)
    return 2 * max(apart, changed) >= len(texts)


def _said(found: Aggregate, asked: str) -> object:
    one = reply_of(found)  # without the question, which some repeat
    texts = {key: of.text for key, of in found.channels.items() if key not in (ALL, SECONDS)}
    return one.text.replace(asked, "") if isinstance(one, ReplyFacts) else one, texts


def _p_values(prepared: Prepared) -> tuple[float, float]:
    """p-values of contexts with one canary and without it: of its text, and of other readings."""
    pairs = prepared.controls[:TRIED]
    asked = replace(CollectionPlan.of(prepared), size=TRIED)
    rows = asked.ask(-len(prepared.controls), prepared.model).rows
    reader = Releaser(
        prepared.task, prepared.mechanism, prepared.attack.score, prepared.spec.design.seed,
        pilot=0, draws=1, answers=1, reads=frozenset(),
    )  # fmt: skip
    batch = [*zip(pairs, rows, strict=True)]
    channels = prepared.spec.attack.channels or (ANSWER,)
    checks = check_channels(batch, reader.control_scores(batch), channels).values()
    each = zip(*((one.p_value, one.witness) for one in checks), strict=True)
    by_text, by_replies = (min((p for p in some if p is not None), default=1.0) for some in each)
    return len(channels) * by_text, len(channels) * by_replies


def _prepare(values: dict[str, Any], endpoint: Endpoint) -> Prepared:
    return prepare(make_spec(values), opener=partial(open_models, endpoint=endpoint))


def _kind_of_answers(prepared: Prepared) -> tuple[str, list[str]]:
    """Of two questions, the audit's own and the first half of a row; and the channels of the
    replies beside those of every system."""
    pair = prepared.pairs[0]
    words = str(pair.nonmember.context[0].input).split()
    half = (len(words) + 1) // 2
    rest = " ".join(words[half:])
    ordinary = Job(pair.nonmember.context, Query(" ".join(words[:half])))
    found = list(
        prepared.mechanism.collect(
            prepared.task, [pair.member, ordinary], [pair.draw, pair.draw], prepared.model
        )
    )
    channels = sorted({name for one in found for name in one.channels} - {ALL, ANSWER, SECONDS})
    first = found[0]
    replies = [reply_of(one) for one in found]
    said = [one.text.strip() for one in replies if isinstance(one, ReplyFacts)]
    pieces = partial(pieces_of, long=QUOTED)  # that a row has, and not the question
    rows = {one for row in pair.member.context for one in pieces(str(row.input))}
    quoted = any(
        not (rows - {*pieces(str(job.query.text))}).isdisjoint(pieces(text))
        for job, one, reply in zip((pair.member, ordinary), found, replies, strict=True)
        for text in (
            *(beside.text for beside in one.channels.values()),
            reply.text if isinstance(reply, ReplyFacts) else "",
        )
    )
    silent = bool(channels) and not any(said)  # an agent that calls tools, and says nothing
    if quoted or silent or (rest and rest in " ".join(said[-1].split())):
        return "text", channels
    alone = all(len(one.split()) <= 4 or FIRST.match(one) for one in said[:1])
    if isinstance(first, Votes) and any(first.counts[:-1]) and alone:
        return "words", channels
    return _kind_of_texts(said, prepared.task.labels), channels


def _kind_of_texts(said: Sequence[str], labels: Sequence[str]) -> str:
    """Of two answers that use no word of the query."""
    if not any(said):
        return "silence"
    if {one.casefold() for one in said} <= {label.casefold() for label in labels}:
        return "labels"
    return "same" if len(set(said)) < len(said) else "text"


def _seen(
    prepared: Prepared, named: Sources, kind: str | None, fields: FoundFields, target: Target,
    labels: object, tried: str,
) -> str:  # fmt: skip
    spec = prepared.spec
    lines = [*_rows_seen(prepared, named.data, fields), *target.lines]
    shots, application = spec.design.shots, prepared.mechanism.application
    if target.body is not None:
        lines += [f"Sent: {describe_rows(target.body, shots)}"]
    elif application is not None and application.takes:
        lines += [f"Sent: {application.takes.format(n=shots)}"]
    if beside := [one for one in spec.attack.channels or () if one != ANSWER]:
        lines += [f"Read beside the answer, as channels: {', '.join(beside)}"]
    if kind is not None:
        lines += [f"System: {spec.system.address} {KINDS[kind]}", *filter(None, [tried])]
        if labels and kind == "text":
            lines += ["Not used: --labels, because the system does not answer with labels alone"]
    elif spec.system.model in BUNDLED:
        lines += [f"Model: {spec.system.model}, test model, not yours"]
    else:
        lines += [f"Model: {spec.system.model}"]
    return "\n".join(lines)


def _rows_seen(prepared: Prepared, data: str | None, fields: FoundFields) -> list[str]:
    labels = prepared.task.labels
    shown, label = public_fields(prepared.spec.design)
    usual = "" if shown or label or not data else " (fields found by their usual names)"
    return [
        f"Rows: {data or 'bundled with leakbound; these are not yours'}{usual}",
        *filter(None, [fields.line]),
        f"Task: {'labels ' + ', '.join(labels) if labels else 'free text'}",
    ]
