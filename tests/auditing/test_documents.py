"""The documents of a store, read from files of every form that examples are read from."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from leakbound.auditing import make_spec
from leakbound.auditing.prepare.rows import documents_and_task
from leakbound.errors import DataError
from leakbound.tasks import Context


def read(tmp_path: Path, name: str, content: str, **keys: object) -> Context:
    file = tmp_path / name
    file.write_text(content)
    return documents_and_task(make_spec({"data": str(file), **keys}).design, None, None)[0]


def test_the_delimiter_that_is_given_separates_the_fields(tmp_path: Path) -> None:
    """Before, an ambiguous header was refused, whatever --delimiter said."""
    found = read(tmp_path, "a.csv", "text|meta;x\na;b|1;2\nc;d|3;4\n", delimiter="pipe")
    assert [row.input for row in found] == ["a;b", "c;d"]


@pytest.mark.parametrize("name", ["Text", "BODY", "Document"])
def test_usual_names_are_found_in_any_case(tmp_path: Path, name: str) -> None:
    found = read(tmp_path, "a.csv", f"Id,{name}\n1,one\n2,two\n")
    assert [row.input for row in found] == ["one", "two"]


def test_a_label_is_found_in_any_case(tmp_path: Path) -> None:
    rows = "".join(f"row {i},{'ab'[i % 2]}\n" for i in range(8))
    assert {row.label for row in read(tmp_path, "a.csv", f"Text,Label\n{rows}")} == {"a", "b"}


def test_empty_documents_are_left_out_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = '{"text": "a"}\n{"text": " "}\n{"text": null}\n{"text": "c"}\n'
    with caplog.at_level(logging.WARNING, "leakbound.data"):
        found = read(tmp_path, "a.jsonl", rows, drop_empty=True)
    assert [row.input for row in found] == ["a", "c"]
    assert "2 of 4 rows are left out: 2 with an empty field 'text'" in caplog.text
    with pytest.raises(DataError, match=r"2.* has an empty field 'text'"):
        read(tmp_path, "a.jsonl", rows)


def test_a_table_without_a_header_shows_no_row(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="first line of the file must name the fields") as error:
        read(tmp_path, "a.csv", "Ann called,private\nBob wrote,secret\n")
    assert "Ann" not in str(error.value)
