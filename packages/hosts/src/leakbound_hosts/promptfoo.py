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
from leakbound.tasks.rows.datasets import load_rows

_Fields = Mapping[str, object]
_all_rows = cache(load_rows)


def call_api(prompt: str, options: _Fields, context: _Fields) -> dict[str, object]:
    """Ask a system with private rows in its context: the provider."""
    try:
        config = _config(options)
        with closing(_system(_text(config, "system")).open(_rows(config))) as session:
            return {"output": session.ask(prompt).text}
    except LeakboundError as error:
        return {"error": str(error)}


def get_assert(output: str, context: _Fields) -> dict[str, object]:
    """Whether a finished audit passes a gate: the assertion."""
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
