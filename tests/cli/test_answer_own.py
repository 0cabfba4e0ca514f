"""`leakbound answer` says whose rows and whose model it answers from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from in_process import run

from leakbound.errors import BudgetExhausted

ROWS, MODEL = "the rows are bundled with leakbound", "the model is bundled with leakbound"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), (True, True)),
        (("--data", "own.jsonl", "--labels", "a,b"), (False, True)),
        (("--model", "openai/m", "--base-url", "http://127.0.0.1:9/v1"), (True, False)),
        (("--quiet",), (False, False)),
    ],
)
def test_what_is_not_the_users_own_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...],
    said: tuple[bool, bool],
) -> None:  # fmt: skip
    """Before anything is opened: the ledger here cannot be."""
    monkeypatch.chdir(tmp_path)
    rows = "".join(f'{{"text": "row {at}", "label": "{"ab"[at % 2]}"}}\n' for at in range(40))
    Path("own.jsonl").write_text(rows)
    shown = run("answer", "my card was charged", "--ledger", "missing/l.sqlite", *options)
    assert shown.exit_code != 0
    assert (ROWS in shown.stderr, MODEL in shown.stderr) == said


def test_it_is_said_before_anything_is_spent(tmp_path: Path) -> None:
    """A ledger without budget answers nothing, and the sentence stands before its refusal."""
    ledger = ["--ledger", str(tmp_path / "ledger.db"), "--mechanism", "report_noisy_max"]
    told = [run("answer", "my card", *ledger, "--epsilon", "1", "--shots", "20") for _ in range(2)]
    assert told[0].exit_code == 0
    assert isinstance(told[1].exception, BudgetExhausted)
    for one in told:
        assert re.search(r"Expect at most \d+% right answers, even if", one.stderr)
