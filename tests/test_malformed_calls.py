"""Calls of the Python interface with what a user could really hand over by mistake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from malformed import PRIVATE

import leakbound
from leakbound.errors import UsageError

ROWS = [(f"{PRIVATE} {i}", "ab"[i % 2]) for i in range(20)]
NAN = float("nan")


def _audit(rows: Any = ROWS, **settings: Any) -> object:
    small: dict[str, Any] = {"pairs": 2, "shots": 4, "controls": 0, "system": lambda c, q: "no"}
    return leakbound.audit(rows, **{**small, **settings})


def _log(used: Any = ("a b",), held_out: Any = ("c d",), outputs: Any = ("e",), **more: Any) -> Any:
    return leakbound.audit_log(used, held_out, outputs, **more)


CALLS: list[tuple[Callable[[], object], str]] = [
    (lambda: _audit(pairs=0), "pairs is 0; it must be greater than or equal to 1."),
    (lambda: _audit(pairs=2.5), "pairs is 2.5; it must be a whole number."),
    (lambda: _audit(pairs=NAN), "pairs is nan; it must be a"),
    (lambda: _audit(pairs=True), "pairs is True; it must be a whole number."),
    (lambda: _audit(epsilon="1"), "epsilon is '1'; it must be a number."),
    (lambda: _audit(delta=1), "delta is 1; it must be less than 1."),
    (lambda: _audit(confidence=95), "Did you mean 0.95?"),
    (lambda: _audit(seed=None), "seed is empty; it must be a whole number."),
    (lambda: _audit(threshold=NAN), "and its value is NaN; it must be a number."),
    (lambda: _audit(system="app.py"), "Did you mean 'python:app.py:OBJECT'?"),
    (lambda: _audit("rows.jsonl"), "rows is str; it must be a data frame, or a list of (input, "),
    (lambda: _audit("rows.jsonl"), "A file of rows is named with data=..."),
    (lambda: _audit(5), "rows is int; it must be a data frame"),
    (lambda: _audit([]), "and the data has 0; use fewer examples"),
    (lambda: _audit([("a",)] * 9), "a row is tuple of 1 values; it must be a pair"),
    (lambda: _audit([(PRIVATE, "a", "b")] * 9), "a row is tuple of 3 values; it must be a"),
    (lambda: _audit([{"text": PRIVATE}] * 9), "rows has the fields text, none of them a usual"),
    (lambda: _audit([{"text": PRIVATE}, ("a", "b")]), "a row is dict; it must be a pair"),
    (lambda: _audit([(1, 2)] * 9), "the input of a row is int; it must be text"),
    (lambda: _audit(data="rows.jsonl"), "rows are handed over, and data names others; leave one"),
    (lambda: _audit(settings={"nope": 1}), "the configuration key 'nope' is not known."),
    (lambda: _audit(settings={"pairs": 3}), "which is a parameter of its own; give it as pairs=."),
    (lambda: _audit(settings={"labels": [1, 2]}), "labels is [1, 2]; it must be a list of texts"),
    (lambda: _audit(query="membershp"), "Did you mean 'membership'?"),
    (lambda: _audit(mechanism="few_shot"), "system is audited in place of a mechanism; leave one"),
    (lambda: _audit(out=5), "out is int; it must be the folder of the runs, such as 'runs'."),
    (lambda: leakbound.plan(data=""), "data is empty; it must be a file or folder of rows"),
    (lambda: leakbound.load_result("nowhere"), "'nowhere' does not exist; give the folder of"),
    (lambda: leakbound.gate("nowhere", max_epsilon=1), "'nowhere' does not exist"),
    (lambda: leakbound.gate([], max_epsilon=1), "a result is list; it must be an AuditResult"),  # type: ignore[arg-type]
    (lambda: leakbound.compare("run"), "results is 'run'; it must be a list of results or run"),  # type: ignore[arg-type]
    (lambda: _log(used=5), "used is int; it must be a list of texts, or a file of rows."),
    (lambda: _log(held_out=[5]), "held_out is a list that holds more than texts; it must"),
    (lambda: _log(outputs=[None]), "outputs is a list that holds more than texts; it must"),
    (lambda: _log(held_out=("A, b!",), used=("A, b!",)), "every held-out record is a used record"),
    (lambda: _log(used=("",)), "the used records hold no words"),
    (lambda: _log(seed=-1), "seed is -1; it must be a whole number of at least 0."),
    (lambda: _log(confidence="0.9"), "confidence is '0.9'; it must be above 0 and below 1"),
    (lambda: _log(fdr="x"), "fdr is 'x'; it must be between 0 and 1."),
    (lambda: leakbound.PureDP("1"), "epsilon is '1'; it must be a number of at least 0."),  # type: ignore[arg-type]
    (lambda: leakbound.PureDP(NAN), "epsilon is nan; it must be a number of at least 0."),
]


@pytest.mark.parametrize(("call", "sentence"), CALLS, ids=map(str, range(len(CALLS))))
def test_mistaken_calls(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: Callable[[], object],
    sentence: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as error:
        call()
    assert sentence in str(error.value)
    assert PRIVATE not in str(error.value)
    assert not list(tmp_path.iterdir())
