"""Mistakes that a researcher makes in Python, more than sixty: each gets a sentence with Python's
own names.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import leakbound
from leakbound.auditing.receipts import load_result
from leakbound.errors import LeakboundError

ROWS = [(f"message {number}", "ab"[number % 2]) for number in range(40)]
IN, OUT = np.linspace(0.5, 1.0, 40), np.linspace(0.0, 0.5, 40)
GOLDEN = Path(__file__).parent / "golden"
RESULT = load_result(GOLDEN / "audit-2" / "python_user_system_py_answer-membership.json")


def silent(context: Any, query: str) -> str:
    return "no"


def only_query(query: str) -> str:
    return "no"


class NoAnswer:
    """An application whose method has another name."""

    def respond(self, context: Any, query: str) -> str:
        return "no"


def audit(rows: Any = ROWS, **given: Any) -> object:
    return leakbound.audit(rows, **{"system": silent, "pairs": 4, "controls": 0, **given})


def plan(rows: Any = ROWS, **given: Any) -> object:
    return leakbound.plan(rows, **{"system": silent, **given})


def bounds(one: Any, other: Any, **given: Any) -> object:
    return leakbound.bounds(one, other, **{"design": "unpaired", **given})


MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    # rows
    "a path in place of rows": (lambda: plan("rows.csv"), "data="),
    "one text": (lambda: plan("a message"), "rows is str"),
    "texts without labels": (lambda: plan(["a", "b", "c"] * 9), "pair"),
    "triples": (lambda: plan([("a", "b", "c")] * 9), "pair"),
    "swapped columns with numbers": (lambda: plan([(0, "text")] * 9), "input"),
    "numbers as labels": (lambda: plan([("text", 1), ("more", 0)] * 9), "label"),
    "numpy labels": (lambda: plan([(f"t {i}", np.int64(i % 2)) for i in range(20)]), "label"),
    "a missing label": (lambda: plan([*ROWS, ("text", None)]), "label"),
    "other keys": (lambda: plan([{"sentence": "x", "gold": "a"}] * 9), "label_field"),
    "a frame with other columns": (
        lambda: plan(pd.DataFrame({"utterance": ["x"] * 9, "gold": ["a"] * 9})), "label_field"
    ),
    "a frame with NaN": (
        lambda: plan(pd.DataFrame({"text": ["x"] * 9, "label": ["a"] * 8 + [float("nan")]})),
        "label",
    ),
    "a column of a frame": (lambda: plan(pd.Series(["x"] * 9)), "a row is str"),
    "an array of embeddings": (lambda: plan(np.zeros((9, 3))), "a row is ndarray"),
    "a dict of columns": (lambda: plan({"text": ["x"], "label": ["a"]}), "rows is dict"),
    "integer labels of a frame": (
        lambda: plan(pd.DataFrame({"text": [f"t {i}" for i in range(30)], "label": [0, 1] * 15}),
                     settings={"labels": ["a", "b"]}), "label"
    ),
    "no label": (lambda: bounds(IN, OUT, design=None), "design"),
    "no rows": (lambda: plan([]), "rows"),
    "fewer rows than a context": (lambda: plan(ROWS[:2], shots=10), "shots"),
    "one label only": (
        lambda: plan([(f"text {i}", "a") for i in range(30)], system=None, canary="mislabeled"),
        'task="generation"',
    ),
    "a generator that is used up": (lambda: plan(iter(())), "rows"),
    "rows by a wrong name": (lambda: leakbound.plan(data=ROWS, system=silent), "are `rows`"),  # type: ignore[arg-type]
    "a file that is not there": (lambda: leakbound.plan(data="rows.jsonl", system=silent), "data"),
    "a file of no known kind": (lambda: leakbound.plan(data="rows.xyz", system=silent), "data"),
    "rows twice": (lambda: plan(data="rows.jsonl"), "rows"),
    # what is audited
    "a system that takes one argument": (lambda: plan(system=only_query), "context, query"),
    "an object without answer": (lambda: plan(system=NoAnswer()), "answer"),
    "a number as system": (lambda: plan(system=3), "system"),
    "a path as system": (lambda: plan(system="app.py"), "python:app.py:OBJECT"),
    "system and mechanism": (lambda: plan(mechanism="few_shot"), "system"),
    "an unknown mechanism": (lambda: plan(system=None, mechanism="fewshot"), "few_shot"),
    "a mechanism without its number": (
        lambda: plan(system=None, mechanism=leakbound.ReportNoisyMax), "mechanism"
    ),
    "an unknown model": (lambda: plan(system=None, model="gpt-4o"), "model"),
    "a class of a canary": (lambda: plan(canary=leakbound.canaries.Hex), "canary"),
    "an unknown canary": (lambda: plan(canary="hexx"), "hex"),
    "an unknown query": (lambda: plan(query="member"), "query"),
    "an unknown score": (lambda: plan(score="auc"), "score"),
    "an unknown estimator": (lambda: plan(estimator="clopper-pearson"), "clopper_pearson"),
    "an unknown design": (lambda: plan(design="single_run"), "design is 'single_run'"),
    "a store that is none": (lambda: plan(design="session"), "choose another design"),
    # numbers
    "a negative epsilon": (lambda: plan(epsilon=-1), "epsilon"),
    "epsilon as text": (lambda: plan(epsilon="1.0"), "epsilon"),
    "epsilon 0": (lambda: plan(epsilon=0), "epsilon"),
    "epsilon as a list": (lambda: plan(epsilon=[1, 2]), "epsilon"),
    "epsilon NaN": (lambda: plan(epsilon=float("nan")), "epsilon"),
    "delta 1": (lambda: plan(delta=1.0), "delta"),
    "confidence in percent": (lambda: plan(confidence=95), "0.95"),
    "alpha for confidence": (lambda: plan(confidence=0.05), "confidence"),
    "pairs as a share": (lambda: plan(pairs=0.5), "pairs"),
    "pairs as text": (lambda: plan(pairs="100"), "pairs"),
    "negative pairs": (lambda: plan(pairs=-5), "pairs"),
    "a seed that is a generator": (lambda: plan(seed=np.random.default_rng(0)), "seed"),
    "a threshold by a wrong name": (lambda: plan(threshold="youden"), "threshold"),
    "a claim as a number": (lambda: plan(claim=1.0), "claim"),
    "a claim and epsilon": (lambda: plan(claim=leakbound.Claim(1.0, 1e-5), epsilon=2), "epsilon"),
    "a parameter of another name": (lambda: plan(n_pairs=100), "pairs"),
    "eps": (lambda: plan(eps=1.0), "epsilon"),
    "an option of no canary": (lambda: plan(settings={"canary.length": 8}), "digits"),
    "settings as keywords": (lambda: plan(settings=["pairs"]), "settings"),
    "guessing without a store": (lambda: plan(claim="random_guessing"), "is 'random_guessing'"),
    "out as a number": (lambda: audit(out=7), "out"),
    # scores
    "scores of one side": (lambda: bounds(IN, []), "scores_out"),
    "one score": (lambda: bounds(0.9, 0.1), "threshold"),
    "NaN among scores": (lambda: bounds([*IN, float("nan")], [*OUT, 0.0]), "scores_in"),
    "scores as texts": (lambda: bounds(["0.1"] * 9, ["0.2"] * 9), "scores_in"),
    "scores of two columns": (lambda: bounds(np.zeros((9, 2)), OUT), "scores_in"),
    "unequal runs": (lambda: bounds(IN, OUT[:-1], design="paired"), 'design="unpaired"'),
    "ranks for independent trials": (
        lambda: bounds(IN, OUT, threshold="rank:0.5"), 'threshold="split"'
    ),
    "a claim for scores as a text": (lambda: bounds(IN, OUT, claim="1"), "claim"),
    # results
    "gate of a list": (lambda: leakbound.gate([RESULT]), "result"),  # type: ignore[arg-type]
    "gate by a text": (lambda: leakbound.gate(RESULT, max_epsilon="1"), "max_epsilon"),  # type: ignore[arg-type]
    "gate by a power above 1": (lambda: leakbound.gate(RESULT, min_power=80), "min_power"),
    "gate a folder by its name": (lambda: leakbound.gate("runs/mine", max_epsilon=1), "runs/mine"),
    "compare one result": (lambda: leakbound.compare(RESULT), "results"),  # type: ignore[arg-type]
    "compare a single one": (lambda: leakbound.compare([RESULT]), "two"),
    "a folder that holds no run": (lambda: leakbound.load_result("results"), "results"),
    "an unknown key of a grid": (lambda: leakbound.sweep({"eps": [1, 2]}, rows=ROWS), "epsilon"),
    "a grid that is a list": (lambda: leakbound.sweep([1, 2], rows=ROWS), '{"epsilon":'),  # type: ignore[arg-type]
    "a grid with an empty list": (lambda: leakbound.sweep({"epsilon": []}, rows=ROWS), "epsilon"),
    "influence of a list of texts": (
        lambda: leakbound.influence(["a", "b"], "?"), "context is list"  # type: ignore[list-item]
    ),
    "influence by an unknown unit": (lambda: leakbound.influence("a. b.", by="word"), "unit"),  # type: ignore[arg-type]
    "influence with a response that is a list": (
        lambda: leakbound.influence("a. b.", response=["a"]), "response"  # type: ignore[arg-type]
    ),
    "an async audit that takes no rows": (
        lambda: asyncio.run(leakbound.audit_async("rows.csv", system=silent)), "data="
    ),
    "an answer without labels": (
        lambda: leakbound.answer("?", ROWS, ledger="ledger.sqlite"), 'labels="work,home"'
    ),
    "a log of numbers": (lambda: leakbound.audit_log([1], ["a"], ["b"]), "used"),  # type: ignore[list-item]
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_natural_mistake_gets_a_sentence_in_the_words_of_python(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.xyz").write_text("x")
    call, word = MISTAKES[name]
    with pytest.raises(LeakboundError) as error:
        call()
    said = str(error.value)
    assert word in said
    assert not re.search(r"(?<![\w-])--?[a-z]|the key \w+\)", said), said  # no other interface
    assert re.search(r"[a-z].*[.?]$", said.splitlines()[-1]), said


def test_there_are_sixty() -> None:
    assert len(MISTAKES) >= 60
