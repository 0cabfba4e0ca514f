"""Traces of a live audit stand for the application: the same verdict, from real exports."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import leakbound
from leakbound.errors import DataError, TargetError, UsageError
from leakbound.systems import load_system

pytestmark = [pytest.mark.hosts, pytest.mark.filterwarnings("ignore")]
pytest.importorskip("opentelemetry.sdk")
ROWS = [(f"note {i} on the lamp of desk {i % 7}", "ab"[i % 2]) for i in range(60)]
GIVEN: dict[str, Any] = {
    "query": "recall", "canary": "coded", "pairs": 24, "shots": 3, "epsilon": 0.2,
    "simulations": 0, "state_check": 0.2,
}  # fmt: skip


class Exports:
    """Where the provider of this process writes: one line of the SDK's JSON a span."""

    file: Path

    def __call__(self, span: Any) -> str:
        return f"{json.dumps(json.loads(span.to_json()))}\n"

    def write(self, text: str) -> None:
        with self.file.open("a") as out:
            out.write(text)

    def flush(self) -> None: ...


@pytest.fixture(scope="module")
def exports() -> Exports:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

    made, provider = Exports(), TracerProvider()
    exporter = ConsoleSpanExporter(out=made, formatter=made)  # type: ignore[arg-type]
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return made


def instrumented(context: Any, query: str, leaks: bool) -> str:
    """A tool finds the note that begins as the query does; the answer quotes nothing."""
    from opentelemetry import trace

    tracer = trace.get_tracer("desk")
    with tracer.start_as_current_span("execute_tool lookup") as span:
        found = next((str(one) for one in context if str(one).startswith(query[:12])), "nothing")
        span.set_attribute("gen_ai.operation.name", "execute_tool")
        span.set_attribute("gen_ai.tool.name", "lookup")
        span.set_attribute("gen_ai.tool.call.arguments", json.dumps({"words": query[:12]}))
        span.set_attribute("gen_ai.tool.call.result", found if leaks else "1 note was found")
    with tracer.start_as_current_span("chat") as span:
        said = [{"role": "assistant", "parts": [{"type": "text", "content": "See the handbook."}]}]
        span.set_attribute("gen_ai.operation.name", "chat")
        span.set_attribute("gen_ai.output.messages", json.dumps(said))
    return "See the handbook."


def leaky(context: Any, query: str) -> str:
    return instrumented(context, query, leaks=True)


async def leaky_later(context: Any, query: str) -> str:
    return instrumented(context, query, leaks=True)


def sound(context: Any, query: str) -> str:
    return instrumented(context, query, leaks=False)


def quoting(context: Any, query: str) -> dict[str, object]:
    return {"answer": next(iter(context)), "sources": [len(context)]}


@pytest.mark.parametrize(
    ("desk", "channels"),
    [(leaky, ("all",)), (leaky_later, ("all",)), (sound, ("all",)), (quoting, None)],
)
def test_a_file_of_traces_has_the_verdict_of_the_live_audit(
    exports: Exports, desk: Callable[..., Any], channels: Any, tmp_path: Path
) -> None:
    from leakbound_hosts.adapters.traces import record_traces

    exports.file = tmp_path / "spans.jsonl"
    live = leakbound.audit(
        ROWS, system=record_traces(desk), channels=channels, out=tmp_path / "live", **GIVEN
    )
    found = leakbound.audit(
        ROWS, system=f"traces:{exports.file}", channels=channels, out=tmp_path / "found", **GIVEN
    )
    assert (found.verdict, found.reason) == (live.verdict, live.reason)
    assert (found.bound, found.e_values) == (live.bound, live.e_values)
    assert [(one.name, one.verdict) for one in found.channels] == [
        (one.name, one.verdict) for one in live.channels
    ]
    accused = {one.name for one in found.channels if one.verdict == "violation"}
    if channels and desk in (leaky, leaky_later):
        assert accused == {"tool_outputs"}
    elif desk is sound:
        assert found.verdict != "violation"
        assert not accused


def spans_of(forms: str) -> list[dict[str, Any]]:
    """One run, as each project exports it: a tool, then a model, below a root without answer."""
    run = [
        ("a1", "", "desk", "", None, '{"text": "See the handbook."}'),
        ("a2", "a1", "lookup", "execute_tool", {"words": "gate"}, "the gate code is 4711"),
        ("a3", "a1", "chat", "chat", None, [{"role": "assistant", "content": "See the handbook."}]),
    ]
    made = []
    for at, (span, parent, name, kind, given, said) in enumerate(run):
        start, texts = 1_764_500_000_000_000_000 + at, [json.dumps(x) for x in (given, said)]
        if forms == "otlp":
            output = "gen_ai.tool.call.result" if given else "gen_ai.output.messages"
            values = {"gen_ai.operation.name": kind, "gen_ai.tool.name": name}
            values |= {"gen_ai.tool.call.arguments": texts[0]} if given else {}
            values |= {output: said if given else texts[1]} if kind else {"leakbound.reply": said}
            attributes = [{"key": x, "value": {"stringValue": y}} for x, y in values.items()]
            made.append({"traceId": "f" * 32, "spanId": span, "parentSpanId": parent, "name": name,
                         "startTimeUnixNano": str(start), "attributes": attributes})  # fmt: skip
        else:
            types = {"execute_tool": "TOOL", "chat": "GENERATION", "": "SPAN"}
            made.append({"id": span, "traceId": "f" * 32, "type": types[kind], "name": name,
                         "parentObservationId": parent or None, "input": given,
                         "output": said if kind else None, "startTime": f"2026-11-30T15:00:0{at}Z",
                         "metadata": {"attributes": {} if kind else {"leakbound.reply": said}},
                         })  # fmt: skip
    return made


@pytest.mark.parametrize("form", ["otlp", "langfuse", "phoenix"])
def test_exports_of_other_projects_hold_the_same_run(form: str) -> None:
    """OTLP JSON of a collector; observations of Langfuse's API; and what Phoenix 20.26 wrote."""
    from leakbound_hosts.adapters.traces import reply_in, runs_in, spans_in

    if form == "phoenix":
        found: Any = json.loads((Path(__file__).parent / "phoenix_spans.json").read_text())
    elif form == "otlp":
        found = {"resourceSpans": [{"scopeSpans": [{"spans": spans_of("otlp")}]}]}
    else:
        found = {"data": spans_of("langfuse"), "meta": {"page": 1}}
    ((_, run),) = runs_in([*spans_in(found)]).items()
    reply = reply_in(run)
    assert reply is not None
    assert reply.text == "See the handbook."
    assert reply.channels is not None
    assert reply.channels["tool_outputs"] == "the gate code is 4711"
    assert json.loads(reply.channels["tool_inputs"])["args"] == {"words": "gate"}


def test_what_is_no_file_of_this_audit_is_refused(exports: Exports, tmp_path: Path) -> None:
    from leakbound_hosts.adapters.traces import record_traces

    with pytest.raises(UsageError, match="there is no file"):
        load_system(f"traces:{tmp_path / 'none.jsonl'}")
    exports.file = tmp_path / "spans.jsonl"
    leakbound.audit(ROWS, system=record_traces(quoting), out=tmp_path / "live", **GIVEN)
    with pytest.raises(TargetError, match="the same rows, options and seed"):
        leakbound.audit(ROWS, system=f"traces:{exports.file}", out=tmp_path, **GIVEN, seed=5)
    exports.write("{]")
    with pytest.raises(DataError, match="is no JSON at line"):
        load_system(f"traces:{exports.file}")
