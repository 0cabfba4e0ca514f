"""Where the canary is a private row, no file that a person shares shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

import leakbound
from leakbound.report import page

ROWS = [
    (f"Sender{n} wrote about item{n}, parcel{n} and refund{n} on day{n}.", "ab"[n % 2])
    for n in range(60)
]  # fmt: skip


def quoting(documents: list[str], question: str) -> str:
    words = set(question.split())
    return max(documents, key=lambda one: len(words & set(one.split())))


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
    assert "[private]" in shared
    for n in range(60):
        for word in (f"item{n},", f"parcel{n} ", f"refund{n} "):
            assert f" {word}" not in shared
    code = result.trials[0].prompts[0].partition("[private] ")[2][:12]
    assert (canary == "coded") == all(c in "0123456789abcdef" for c in code)
