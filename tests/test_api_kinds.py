"""Values of another kind, wherever the public face takes one: a sentence, not a raw error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from leakbound_lab.tuning import tune

import leakbound
from leakbound.errors import UsageError
from leakbound.models import Scripted

face: Any = leakbound  # each call is one that a type checker refuses
ROWS = [(f"message {i}", "ab"[i % 2]) for i in range(30)]
MODEL = Scripted()
LABELS: dict[str, Any] = {"labels": ["a", "b"]}
CALLS: dict[str, tuple[Callable[[Path], object], str]] = {
    "influence model": (
        lambda out: face.influence("a b", "q", model=3), "model is int; it must be an address",
    ),
    "influence path": (
        lambda out: face.influence(out, "q", model=MODEL), "context is PosixPath; it must be a te",
    ),
    "influence list": (
        lambda out: face.influence(["a b"], "q", model=MODEL), "context is list; it must be a text",
    ),
    "influence query": (
        lambda out: face.influence("a b", 3, model=MODEL), "question is int; it must be a text",
    ),
    "influence by": (
        lambda out: face.influence("a b", "q", model=MODEL, by=3), "by is 3; it must be the name",
    ),
    "answer model": (
        lambda out: face.answer("q", ROWS, model=3, ledger=out / "l", **LABELS),
        "model is int; it must be an address",
    ),
    "answer budget": (
        lambda out: face.answer("q", ROWS, budget="x", ledger=out / "l", **LABELS),
        "budget is 'x'; it must be a number",
    ),
    "answer mechanism": (
        lambda out: face.answer("q", ROWS, mechanism=3, ledger=out / "l", **LABELS),
        "int is not a mechanism: it lacks name",
    ),
    "probe": (lambda out: face.probe(3), "model is int; it must be an address"),
    "verify": (lambda out: face.verify(3), "run is int; it must be the folder of a run"),
    "open_model": (
        lambda out: face.open_model(Scripted()), "the model address is Scripted; it must be a tex",
    ),
    "compare numbers": (
        lambda out: face.compare([1, 2]), "a result is int; it must be an AuditResult, or its run",
    ),
    "compare text": (lambda out: face.compare("runs"), "results is 'runs'; it must be a list"),
    "gate": (lambda out: face.gate(3), "a result is int; it must be an AuditResult"),
    "audit out": (
        lambda out: face.audit(ROWS, system=lambda context, query: "no", out=None),
        "out is NoneType; it must be the folder of the runs",
    ),
    "sweep out": (lambda out: face.sweep({"epsilon": [1]}, out=3), "out is int; it must be the fo"),
    "tune out": (lambda out: tune(out=3), "out is int; it must be the folder of the runs"),
}  # fmt: skip


@pytest.mark.parametrize("what", CALLS)
def test_a_value_of_another_kind_is_refused_in_a_sentence(what: str, tmp_path: Path) -> None:
    call, sentence = CALLS[what]
    with pytest.raises(UsageError, match=sentence):
        call(tmp_path)
