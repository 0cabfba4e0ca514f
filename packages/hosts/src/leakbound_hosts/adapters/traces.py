"""Traces as evidence: each run of an audit is a trace, whose id names its context and question.

`record_traces(system)` makes a trace of each answer of a live audit. What was exported of them then
stands for the application (`--system traces:spans.jsonl`): files of OpenTelemetry, Phoenix and
Langfuse hold one structure, spans with parents, under other names.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any, ClassVar

from leakbound.errors import DataError, TargetError, UsageError
from leakbound.models.content import Private, readable
from leakbound.systems.callable import Answerer, answerer, is_async
from leakbound.systems.http.system import value_at
from leakbound.systems.protocol import FunctionSession, Reply
from leakbound.systems.replies import as_reply, finish, finish_async
from leakbound.tasks import Context
from leakbound_hosts.adapters.agents import INPUTS, OUTPUTS, channels_of, steps_of, text_of
from leakbound_hosts.summary import host_error

FOUND = "retrieved"  # a channel: what a search returned
REPLY = "leakbound.reply"  # of the span that `record_traces` makes: all of a reply, as JSON
# Where a span says what, by OpenTelemetry (JSON of a collector, or of the SDK), Phoenix, Langfuse.
TRACE = ("traceId", "trace_id", "context.trace_id")
SPAN = ("spanId", "span_id", "context.span_id", "id")
PARENT = ("parentSpanId", "parent_id", "parent_span_id", "parentObservationId")
START = ("startTimeUnixNano", "start_time_unix_nano", "start_time", "startTime")
KIND = (
    "attributes.gen_ai.operation.name",
    "span_kind",
    "attributes.openinference.span.kind",
    "type",
)
NAME = ("attributes.gen_ai.tool.name", "attributes.tool.name", "name")
INPUT = ("attributes.gen_ai.tool.call.arguments", "attributes.input.value", "input")
OUTPUT = (
    "attributes.gen_ai.tool.call.result", "attributes.gen_ai.output.messages",
    "attributes.output.value", "attributes.final_result", "output",
)  # fmt: skip
OWN = (f"attributes.{REPLY}", f"metadata.attributes.{REPLY}", f"metadata.{REPLY}")
TOOLS, SEARCHES = ("execute_tool", "tool"), ("retrieval", "retriever")
MODELS = ("chat", "text_completion", "generate_content", "llm", "generation")
BETWEEN = re.compile(r"[\s,]*")  # two values of JSON in a file
WITHIN = ("resourceSpans", "scopeSpans", "spans", "data", "observations")  # what holds spans


@dataclass(frozen=True, slots=True, repr=False)
class _Span(Private):
    trace: str
    id: str
    parent: str
    start: str
    fields: Mapping[str, object]

    def value(self, names: Sequence[str]) -> object:
        found = (value_at(self.fields, name) for name in names)
        return next((_json_in(one) for one in found if one is not None), None)

    def steps(self) -> Iterator[tuple[str, str]]:
        kind, output = str(self.value(KIND)).lower(), self.value(OUTPUT)
        if kind in TOOLS:
            yield INPUTS, text_of({"name": self.value(NAME), "args": self.value(INPUT)})
            yield OUTPUTS, text_of(output)
        elif kind in SEARCHES:
            yield FOUND, text_of(output)
        elif kind in MODELS:
            yield from steps_of(output)


def _json_in(value: object) -> object:
    with suppress(ValueError, RecursionError):
        if isinstance(value, str) and value.startswith(("{", "[")):
            return json.loads(value)
    return value


def spans_in(found: object) -> Iterator[_Span]:
    """The spans in JSON, wherever an export puts them."""
    for one in found if isinstance(found, list) else [found]:
        if not isinstance(one, Mapping):
            continue
        own = {**one, "attributes": _plain({"kvlistValue": {"values": one["attributes"]}})} if (
            isinstance(one.get("attributes"), list)
        ) else one  # fmt: skip
        trace, span, parent, start = (
            next((str(x) for name in names if (x := value_at(own, name)) is not None), "")
            .removeprefix("0x").lower()
            for names in (TRACE, SPAN, PARENT, START)
        )  # fmt: skip
        if trace and span:
            yield _Span(trace, span, parent, start, own)
        for name in WITHIN:
            yield from spans_in(one.get(name))


def _plain(value: Mapping[str, Any]) -> object:
    """A value of OTLP, which says its kind."""
    kind, one = next(((name, x) for name, x in value.items() if x is not None), ("", None))
    if kind.startswith("kvlist") and isinstance(one, Mapping):
        return {each["key"]: _plain(each["value"]) for each in one["values"]}
    return [*map(_plain, one["values"])] if isinstance(one, Mapping) else one


def runs_in(spans: Sequence[_Span]) -> dict[tuple[str, str], list[_Span]]:
    """Spans of one run, by trace and by the span that its uppermost spans name as their parent."""
    known = {(one.trace, one.id): one for one in spans}

    def run_of(span: _Span) -> tuple[str, str]:
        while (above := known.get((span.trace, span.parent))) is not None:
            span = above
        return span.trace, span.parent or span.id

    runs = defaultdict[tuple[str, str], list[_Span]](list)
    for span in sorted(spans, key=lambda one: one.start):
        runs[run_of(span)].append(span)
    return runs


def reply_in(run: Sequence[_Span]) -> Reply | None:
    """What a run replied, with its channels; None of one that ended without an answer."""
    whole = next((found for span in run if (found := span.value(OWN)) is not None), None)
    if whole is None:
        return None
    reply, steps = as_reply(whole, "traces"), [step for span in run for step in span.steps()]
    return replace(reply, channels=channels_of(steps, reply.text) | dict(reply.channels or {}))


def run_id(context: Context, question: str) -> str:
    """The id of the traces of a question in a context: 32 hexadecimal digits."""
    told = json.dumps([[[readable(row.input), row.label] for row in context], question])
    return hashlib.sha256(told.encode()).hexdigest()[:32]


def load_traces(place: str) -> _Traces:
    """The application that the runs in a file of traces are of."""
    file, spans = Path(place), list[_Span]()
    if not file.is_file():
        raise UsageError(f"there is no file {place!r} of traces; name one as traces:spans.jsonl.")
    text, at, decoder = file.read_text(encoding="utf-8").strip(), 0, json.JSONDecoder()
    while at < len(text):
        try:
            found, end = decoder.raw_decode(text, at)
        except ValueError:
            line = text.count("\n", 0, at) + 1
            raise DataError(f"{place!r} is no JSON at line {line}; export as JSON.") from None
        spans += spans_in(found)
        at = BETWEEN.match(text, end).end()  # type: ignore[union-attr]  # of any length
    runs = defaultdict[str, list[Reply]](list)
    for (trace, _), run in runs_in(spans).items():
        runs[trace] += [reply for reply in [reply_in(run)] if reply is not None]
    return _Traces(place, {trace: iter(replies) for trace, replies in runs.items()}, len(spans))


@dataclass(frozen=True, slots=True, repr=False)
class _Traces:
    stateful: ClassVar[bool] = True  # the runs of one question in their order
    name: str
    runs: Mapping[str, Iterator[Reply]]
    spans: int

    def open(self, context: Context) -> FunctionSession:
        return FunctionSession(lambda question: self._next(run_id(context, question)))

    def _next(self, run: str) -> Reply:
        if (reply := next(self.runs.get(run, iter(())), None)) is None:
            raise TargetError(
                f"{self.name!r} has {self.spans} spans, and none of the trace {run}; it must hold "
                "all of a live audit of record_traces(...) with the same rows, options and seed."
            )
        return reply


def record_traces(thing: object) -> Answerer:
    """A function `(context, query)`, or an object with such a method, each of whose answers is a
    trace of OpenTelemetry; what its tools, searches and models did there are channels."""
    try:
        from opentelemetry import trace
    except ModuleNotFoundError:
        raise host_error("opentelemetry-api", "opentelemetry") from None
    answer, watch, provider = answerer(thing, "recorded"), _Watch(), trace.get_tracer_provider()
    if not hasattr(provider, "add_span_processor"):
        raise UsageError("set a TracerProvider of opentelemetry-sdk, with an exporter, before.")
    provider.add_span_processor(watch)

    @wraps(answer)
    def at_once(context: Context, question: str) -> Reply:
        with watch.run(context, question) as replies:
            replies += [as_reply(finish(answer(context, question)), "recorded")]
        return replies[0]

    @wraps(answer)
    async def later(context: Context, question: str) -> Reply:
        with watch.run(context, question) as replies:
            replies += [as_reply(await finish_async(answer(context, question)), "recorded")]
        return replies[0]

    return later if is_async(answer) else at_once


class _Watch:
    """A processor that keeps the spans of runs until they end."""

    def __init__(self) -> None:
        self.seen = defaultdict[str, list[_Span]](list)

    def on_end(self, span: Any) -> None:
        for one in spans_in(json.loads(span.to_json())):
            if one.trace in self.seen:
                self.seen[one.trace].append(one)

    def on_start(self, *given: object, **named: object) -> None: ...

    _on_ending = shutdown = force_flush = on_start

    @contextmanager
    def run(self, context: Context, question: str) -> Iterator[list[Reply]]:
        """A block that puts its reply into a list, which has its channels afterwards."""
        from opentelemetry import trace
        from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

        above, name = RandomIdGenerator().generate_span_id(), run_id(context, question)
        parent = trace.SpanContext(int(name, 16), above, True, trace.TraceFlags(1))
        given, replies = trace.set_span_in_context(trace.NonRecordingSpan(parent)), list[Reply]()
        self.seen[name]  # from now on its spans are kept
        with trace.get_tracer("leakbound").start_as_current_span("leakbound", given) as span:
            yield replies
            parts = ("text", "scores", "tokens", "finish_reason", "tool_calls", "channels")
            told = {one: getattr(replies[0], one) for one in parts}
            span.set_attribute(REPLY, json.dumps({x: y for x, y in told.items() if y is not None}))
        run = runs_in(self.seen.pop(name, [])).get((name, f"{above:016x}"), [])
        replies[:] = [replace(replies[0], channels=(reply_in(run) or replies[0]).channels)]
