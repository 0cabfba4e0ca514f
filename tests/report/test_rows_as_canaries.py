"""Where the canary is a private row, no file that a person shares shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

import leakbound
from leakbound.report import page

ROWS = [
    (f"Sender{n} wrote about item{n}, parcel{n}\nand refund{n} on\nday{n}.", "ab"[n % 2])
    for n in range(60)
]  # fmt: skip


def quoting(documents: list[str], question: str) -> str:
    words = set(question.split())
    return max(documents, key=lambda one: len(words & set(one.split())))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("canary", "query", "keep"),
    [("natural", "membership", "none"), ("mislabeled", "membership", "canary_only"),
     ("coded", "recall", "canary_only"), ("natural", "repeat", "canary_only"),
     ("unigram", "membership", "none")],
)  # fmt: skip
def test_no_row_that_is_a_canary_is_shown(
    canary: str, query: str, keep: str, tmp_path: Path
) -> None:
    result = leakbound.audit(
        ROWS, system=quoting, pairs=8, shots=6, canary=canary, query=query, store_text=keep,  # type: ignore[arg-type]
        out=tmp_path,
    )  # fmt: skip
    (record,) = tmp_path.glob("*/record.json")
    shared = record.read_text() + page([result])
    assert "[private, " in shared
    for n in range(60):
        for word in (f"item{n},", f"parcel{n}\n", f"parcel{n}\\n", f"refund{n} "):
            assert word not in shared


@pytest.mark.slow
def test_a_figure_that_did_not_decide_says_so(tmp_path: Path) -> None:
    """Beside a violation by what replies hold stood the diagonal of a score that saw nothing."""

    def sourced(documents: list[str], question: str) -> dict[str, object]:
        return {"answer": "See below.", "sources": [quoting(documents, question)]}

    result = leakbound.audit(
        ROWS, system=sourced, pairs=40, shots=6, canary="coded", query="recall", channels=("all",),
        out=tmp_path,
    )  # fmt: skip
    assert (result.verdict, result.reading.channel) == ("violation", "reply")
    assert f"The bound was read from {result.reading.words}." in page([result])
