"""leakbound ledger show, history, check; and the options that name data sets and records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from ledger_edits import Edit, edit, spend_is

from leakbound.auditing.spec.groups import Design
from leakbound.cli.options import ledger as ledger_options
from leakbound.cli.options.ledger import Accounts
from leakbound.cli.verbs.protect.answer import command as answer_command
from leakbound.cli.verbs.protect.ledger import command
from leakbound.errors import DataError, StoreError, UsageError
from leakbound.privacy import PureDP
from leakbound.serving.ledger import Ledger, record_names
from leakbound.tasks import Example
from leakbound.tasks.rows.sources import SourceRow, source_rows

ROWS = tuple(Example(f"sesame {i}", "ab"[i % 2]) for i in range(3))


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    made = Ledger(tmp_path / "ledger", 1.0, 1e-5)
    made.spend(record_names(ROWS, ["7", "8", "9"]), PureDP(0.5), "mail")
    made.spend(record_names(ROWS[:1], ["7"]), PureDP(0.5), "more mail")
    return str(tmp_path / "ledger")


def run(*words: str) -> Result:
    return CliRunner().invoke(command, words)


def test_show_tells_the_budget_the_data_sets_and_the_accounts(ledger: str) -> None:
    said = run("show", "--ledger", ledger).output
    assert "ε = 1 at δ = 1e-05 under replace_one, counted in pure epsilon" in said
    assert "2 answers; 3 records, of which 1 cannot pay" in said
    assert "data set 'more mail': 1 answer, ε = 0.5" in said
    assert "sesame" not in said
    found = json.loads(run("show", "--json", "--ledger", ledger).output)
    assert (found["records"], found["exhausted"], found["most_spent"]) == (3, 1, 1.0)
    assert (
        "2 answers, ε = 1; it cannot pay" in run("show", "--ledger", ledger, "--record", "7").output
    )
    assert "0 answers" in run("show", "--ledger", ledger, "--record", "sesame").output


def test_history_lists_answers(ledger: str) -> None:
    lines = run("history", "--ledger", ledger).output.splitlines()
    assert [line.split()[0] for line in lines] == ["1", "2"]
    assert "mail  3 records, 0 left out  0.5-DP (replace_one)" in lines[0]
    (last,) = json.loads(run("history", "--json", "--last", "1", "--ledger", ledger).output)
    assert (last["dataset"], last["guarantee"][0]["kind"]) == ("more mail", "PureDP")


DAMAGE: list[tuple[Edit, str]] = [
    ("DELETE FROM leakbound_answers WHERE number = 2", "old or another copy"),
    ("DELETE FROM leakbound_answers WHERE number = 1", "some were removed"),
    (spend_is(0.0), "some account was changed"),
    (spend_is(1.5), "3 records have spent more than the budget"),
    ("UPDATE leakbound_total SET value = '9.0' WHERE name = 'capacity'", "may spend 9"),
]


@pytest.mark.parametrize(("damage", "said"), DAMAGE)
def test_check_names_what_is_wrong(ledger: str, damage: Edit, said: str) -> None:
    assert "overspent nowhere" in run("check", "--ledger", ledger).output
    edit(ledger, damage)
    found = run("check", "--ledger", ledger)
    assert isinstance(found.exception, StoreError)
    assert said in str(found.exception)
    assert json.loads(run("check", "--json", "--ledger", ledger).output)["problems"]


def test_check_looks_at_files_too(ledger: str) -> None:
    Path(ledger).chmod(0o644)
    assert "mode 644; set 600" in str(run("check", "--ledger", ledger).exception)
    Path(f"{ledger}.key").unlink()
    assert "is missing" in str(run("check", "--ledger", ledger).exception)


def test_there_must_be_a_ledger(tmp_path: Path) -> None:
    for verb in ("show", "history", "check"):
        found = run(verb, "--ledger", str(tmp_path / "none"))
        assert isinstance(found.exception, StoreError)
        assert "there is no ledger at" in str(found.exception)
    assert not list(tmp_path.iterdir())


def test_record_ids_come_from_a_column(tmp_path: Path) -> None:
    rows = [
        {"text": "a fee", "label": "work", "who": 7},
        {"text": "a cake", "label": "home", "who": "8"},
    ]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    by_name = Accounts("mail", "who", None)
    assert by_name.ids(Design(data=str(file)), 2) == ["7", "8"]
    assert by_name.ids(Design(rows=rows), 1) == ["7"]
    assert Accounts("mail", None, None).ids(Design(data=str(file)), 2) is None
    with pytest.raises(DataError, match="no record id in the field 'id'"):
        Accounts("mail", "id", None).ids(Design(data=str(file)), 2)
    with pytest.raises(UsageError, match="your own rows"):
        by_name.ids(Design(), 2)
    with pytest.raises(
        DataError, match=r"2 record ids are equal but for white space .numbers 1 and 2"
    ):
        record_names(ROWS[:2], ["7", "7"])


def test_a_file_that_grows_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ids were read after the rows: with a new row in front, each row had the id of another."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("def answer(context, query):\n    return 'x'\n")
    head, rows = "who,text,label\n", [f"{i},row {i},a\n" for i in range(5)]
    file = tmp_path / "rows.csv"
    file.write_text(head + "".join(rows[1:]))

    def grown(*address: Any) -> list[SourceRow]:
        file.write_text(head + "".join(rows))
        return source_rows(*address)

    words = ["--data", "rows.csv", "--task", "generation", "--record-id", "who", "--budget", "inf",
             "--system", "python:mine.py:answer", "what"]  # fmt: skip
    with monkeypatch.context() as patch:
        patch.setattr(ledger_options, "source_rows", grown)
        found = CliRunner().invoke(answer_command, words)
    assert "changed while they were read" in str(found.exception)
    assert CliRunner().invoke(answer_command, words).exit_code == 0


def test_the_command_line_charges_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One answer under one name; under another, the records cannot pay, and an answer is given."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("def answer(context, query):\n    return 'x'\n")
    (tmp_path / "rows.csv").write_text("who,text,label\n" + "".join(
        f"{i},row {i},{'ab'[i % 2]}\n" for i in range(4)))  # fmt: skip
    words = ["--data", "rows.csv", "--task", "generation", "--record-id", "who", "--budget", "inf",
             "--system", "python:mine.py:answer", "--ledger-key", "safe.key", "what"]  # fmt: skip
    for name in ("mail", "mail", "mail 2"):
        done = CliRunner().invoke(answer_command, [*words, "--dataset", name])
        assert done.exit_code == 0, done.output
    assert not (tmp_path / "leakbound-ledger.sqlite.key").exists()
    said = run("show", "--record", "2", "--ledger-key", "safe.key").output
    assert said.startswith("3 answers")
