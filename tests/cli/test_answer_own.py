"""`leakbound answer` says whose rows and whose model it answers from."""

from __future__ import annotations

from pathlib import Path

import pytest
from in_process import run

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
