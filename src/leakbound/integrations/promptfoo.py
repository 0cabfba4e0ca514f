"""A provider of promptfoo that asks a system over private rows, and an assertion by a gate.

promptfoo puts the folder of a Python file first in the search path, so name a file of your own that
imports these functions, and not this one.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from functools import cache

from leakbound.auditing import load_result
from leakbound.errors import LeakboundError, UsageError
from leakbound.gating.gate import Gate, check_gate
from leakbound.systems import as_system
from leakbound.systems.load import load_system
from leakbound.systems.protocol import System
from leakbound.tasks import Context
from leakbound.tasks.datasets import read_rows

__all__ = ["call_api", "get_assert"]

_Fields = Mapping[str, object]


def call_api(prompt: str, options: _Fields, context: _Fields) -> dict[str, object]:
    """Ask a system with private rows in its context: the provider.

    Args:
        prompt: The rendered prompt.
        options: Its `config` names `system`, an address as `leakbound audit --system` takes it;
            `data`, a file of rows; and `shots`, how many of the first rows are the context (all
            where it is missing).
        context: Variables of the test; not read.

    Returns:
        The `output`, or the `error` in a sentence. Each call is made anew.
    """
    try:
        config = _config(options)
        with closing(_system(_text(config, "system")).open(_rows(config))) as session:
            return {"output": session.ask(prompt).text}
    except LeakboundError as error:
        return {"error": str(error)}


def get_assert(output: str, context: _Fields) -> dict[str, object]:
    """Whether a finished audit passes a gate: the assertion.

    Args:
        output: Of the provider; not read, because an audit is about the application.
        context: Its `config` names `run`, a run folder or a record, and `max_epsilon`, the largest
            lower bound that passes (the claim of the audit where it is missing).

    Returns:
        `pass`, the sentence of the gate as `reason`, and the lower bound on epsilon among
        `namedScores`. An audit that could have found nothing does not pass.
    """
    try:
        config = _config(context)
        result = load_result(_text(config, "run"))
        limit = float(str(config.get("max_epsilon", result.claim.epsilon)))
        found = check_gate(result, Gate(limit, no_violation=True))
    except (LeakboundError, ValueError) as error:
        return {"pass": False, "score": 0.0, "reason": str(error)}
    passed, bound = found.outcome == "passed", result.bound.epsilon
    named = {} if bound is None else {"leakbound_epsilon": bound}
    return {"pass": passed, "score": float(passed), "reason": found.why, "namedScores": named}


def _config(given: _Fields) -> dict[str, object]:
    found = given.get("config") or {}
    return dict(found) if isinstance(found, Mapping) else {}


def _text(config: _Fields, name: str) -> str:
    if not isinstance(found := config.get(name), str):
        raise UsageError(f"{name} is {found!r}; name it under `config`, as text.")
    return found


@cache
def _system(address: str) -> System:
    return as_system(load_system(address).system, address)


def _rows(config: _Fields) -> Context:
    shots = config.get("shots")
    if shots is not None and (not isinstance(shots, int) or shots < 1):
        raise UsageError(f"shots is {shots!r}; it must be a whole number of at least 1.")
    return _all_rows(_text(config, "data"))[:shots]


@cache
def _all_rows(data: str) -> Context:
    return read_rows(data)
