"""Files as users have them: what they are saved as changes no row, and no row changes another."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import logging
import re
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from leakbound.auditing import make_spec
from leakbound.auditing.prepare.rows import load_data, rows_and_task
from leakbound.cli.main import main
from leakbound.cli.options.ledger import Accounts
from leakbound.cli.verbs.protect.answer import load_private
from leakbound.errors import DataError, UsageError
from leakbound.models import Endpoint
from leakbound.tasks import Example, Task
from leakbound.tasks.rows import row_files
from leakbound.tasks.rows.datasets import (
    as_examples,
    infer_task,
    inline_rows,
    load_rows,
    row_warnings,
)
from leakbound.tasks.rows.sources import source_rows

ROWS = [{"text": f"no. {i}; a, b | naïve", "label": "xy"[i % 2]} for i in range(6)]
EXPECTED = tuple(Example(row["text"], row["label"]) for row in ROWS)
DATA = "leakbound.data"


def table(delimiter: str = ",", end: str = "\n", rows: list[dict[str, str]] = ROWS) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), delimiter=delimiter, lineterminator=end)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def lines(rows: list[Any] = ROWS, end: str = "\n") -> str:
    return "".join(json.dumps(row) + end for row in rows)


def chat(row: dict[str, str]) -> dict[str, object]:
    said = [{"role": "user", "content": row["text"]}]
    return {"messages": [*said, {"role": "assistant", "content": row["label"]}]}


SAME: dict[str, tuple[str, bytes]] = {
    "semicolon": ("a.csv", table(";").encode()),
    "tab": ("a.csv", table("\t").encode()),
    "pipe": ("a.csv", table("|").encode()),
    "tsv": ("a.tsv", table("\t").encode()),
    "windows csv": ("a.csv", table(end="\r\n").encode()),
    "old mac csv": ("a.csv", table(end="\r").encode()),
    "windows jsonl": ("a.jsonl", lines(end="\r\n").encode()),
    "empty lines on top": ("a.csv", b"\n\r\n" + table(";").encode()),
    "excel's sep line": ("a.csv", b"sep=;\r\n" + table(";", "\r\n").encode()),
    "spaces behind commas": ("a.csv", re.sub("(?m),(x|y|label)$", r", \1", table()).encode()),
    "index without a name": ("a.csv", re.sub("(?m)^(?=.)", ",", table()).encode()),
    "empty columns behind": ("a.csv", re.sub("(?m)(?<=.)$", ",,", table()).encode()),
    "array": ("a.json", json.dumps(ROWS).encode()),
    "data": ("a.json", json.dumps({"version": 1, "data": ROWS}).encode()),
    "lines in json": ("a.json", lines().encode()),
    "ndjson": ("a.ndjson", lines().encode()),
    "packed jsonl": ("a.jsonl.gz", gzip.compress(lines().encode(), mtime=0)),
    "packed csv": ("A.CSV.GZ", gzip.compress(table(";").encode(), mtime=0)),
    "mark in jsonl": ("a.jsonl", codecs.BOM_UTF8 + lines().encode()),
    "mark in csv": ("a.csv", codecs.BOM_UTF8 + table("\t").encode()),
    "mark in json": ("a.json", codecs.BOM_UTF8 + json.dumps(ROWS).encode()),
    "utf-16 csv": ("a.csv", table("\t", "\r\n").encode("utf-16")),
    "utf-16 jsonl": ("a.jsonl", codecs.BOM_UTF16_BE + lines().encode("utf-16-be")),
    "utf-32 jsonl": ("a.jsonl", lines().encode("utf-32")),
    "joined files": ("a.jsonl", b"".join(codecs.BOM_UTF8 + lines([r]).encode() for r in ROWS)),
    "chat": ("a.jsonl", lines([chat(row) for row in ROWS]).encode()),
    "capital names": ("a.csv", table().replace("text,label", "Text, LABEL", 1).encode()),
}


@pytest.mark.parametrize("form", SAME)
def test_what_a_file_is_saved_as_changes_no_row(tmp_path: Path, form: str) -> None:
    name, content = SAME[form]
    (tmp_path / name).write_bytes(content)
    assert load_rows(tmp_path / name) == EXPECTED


@settings(max_examples=30)
@given(st.lists(st.text(st.sampled_from(';|\t ab,"'), min_size=1), min_size=1, max_size=5))
def test_the_first_line_alone_decides_how_a_csv_file_is_read(texts: list[str]) -> None:
    """No row, however full of other delimiters and quotes, changes how another one reads."""
    rows = [{"text": f"a{text}a", "label": "x"} for text in texts]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "a.csv"
        for delimiter in ",;|\t":
            file.write_text(table(delimiter, rows=rows), "utf-8", newline="")
            assert [row.input for row in load_rows(file)] == [row["text"] for row in rows]


REFUSED: list[tuple[str, str | bytes, str]] = [
    ("a.csv", table().replace("text,", "text,label,", 1), r"one name \(column 2 and 3\)"),
    ("a.csv", table() + table(), "line 8 of .* names the fields once more"),
    ("a.csv", "text,a;label\nx,y;z\n", "with each of comma, semi.* --delimiter comma"),
    ("a.csv", 'text,"label\nx,y\n', "first line .* has a quote that is not closed"),
    ("a.csv", f"{'my letter ' * 9},x\n", "is not a list of names: one is longer than 60"),
    ("a.csv", table().encode("latin-1"), "not UTF-8 text"),
    ("a.csv", table().encode("utf-16-le"), "UTF-16 without a byte order mark"),
    ("a.csv", gzip.compress(table().encode(), mtime=0), "with gzip; let its name end in .gz"),
    ("a.csv", b"PK\x03\x04", "a ZIP archive or an Excel workbook"),
    ("a.xlsx", b"PK\x03\x04", "Save the sheet as CSV"),
    ("a.txt.gz", b"", "ends in '.txt.gz'"),
    ("a.jsonl.gz", b"text", "cannot be unpacked"),
    ("a.jsonl.gz", gzip.compress(lines().encode(), mtime=0)[:40], "cannot be unpacked"),
    ("a.json", '{"text": {"0": "a"}, "label": {"0": "x"}}', r"to_json\(orient='records'\)"),
    ("a.json", '{"data": [], "rows": []}', "holds the lists data and rows"),
    ("a.json", '{"version": 1}', "the fields version, none of them a usual name"),
    ("a.json", '{"data": [1]}', "row 1 of .* must be an object"),
    ("a.jsonl", json.dumps(ROWS, indent=1), "belongs in a .json file"),
    ("a.jsonl", '{"text": "a", "text": "b", "label": "x"}', "two fields of one name"),
    ("a.jsonl", lines([{"messages": [{"role": "user", "content": [{"image": 1}]}]}]),
     "line 1 .* a message in the field 'messages' that is not text"),
    ("a.jsonl", lines([{"messages": [{"role": "user", "content": "a"}]}]),
     "empty field 'messages.answer'"),
    ("a.csv", "memo,kind\na,x\n", "has 2 fields, none of them a usual name for the "
     r"input or the label; name it with --input-field \(or --input-template, for several\) and "
     "--label-field. The first line of the file must name the fields"),
]  # fmt: skip


def test_what_unpacks_to_all_memory_gets_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of 2.9 MB that unpacks to 3 GB was an internal error."""
    monkeypatch.setattr(row_files, "MOST_UNPACKED", 1 << 20)
    file = tmp_path / "a.jsonl.gz"
    file.write_bytes(gzip.compress(bytes(2 << 20)))
    with pytest.raises(DataError, match="unpacks to more than 1 MB; unpack it yourself"):
        load_rows(file)
    pytest.importorskip("datasets")
    with pytest.raises(DataError, match="unpacks to more than 1 MB; unpack it yourself"):
        source_rows(f"hf:{tmp_path}")


@pytest.mark.parametrize("stated", [True, False])
def test_a_table_that_unpacks_to_all_memory_gets_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stated: bool
) -> None:
    """Long texts that are packed, or one that stands once for all rows: 20 MB in a few kB."""
    parquet, pyarrow = map(pytest.importorskip, ("pyarrow.parquet", "pyarrow"))
    monkeypatch.setattr(row_files, "MOST_UNPACKED", 8 << 20)
    count, size = (20, 1 << 20) if stated else (20_000, 1 << 10)
    once = pyarrow.DictionaryArray.from_arrays([0] * count, ["x" * size])
    table = pyarrow.table({"text": once.cast("string") if stated else once, "label": ["a"] * count})
    file = tmp_path / "a.parquet"
    parquet.write_table(table, file, use_dictionary=not stated, compression="zstd")
    assert file.stat().st_size < 50_000
    read: list[object] = []
    with pytest.raises(DataError, match="unpacks to more than 8 MB; unpack it yourself"):
        read.extend(source_rows(str(file)))
    assert not read if stated else 7_000 < len(read) < 9_000


@pytest.mark.parametrize(("name", "content", "sentence"), REFUSED)
def test_what_cannot_be_read_gets_a_sentence(
    tmp_path: Path, name: str, content: str | bytes, sentence: str
) -> None:
    (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(DataError, match=sentence):
        load_rows(tmp_path / name)


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.json", "a.csv.gz"])
def test_a_named_encoding_is_used(tmp_path: Path, name: str) -> None:
    text = "text,label\ncafé – 5 €,a" if "csv" in name else '{"text": "café – 5 €", "label": "a"}'
    content = text.encode("cp1252")
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    with pytest.raises(DataError, match="--encoding cp1252"):
        load_rows(tmp_path / name)
    assert load_rows(tmp_path / name, encoding="cp1252") == (Example("café – 5 €", "a"),)
    with pytest.raises(DataError, match="is not ascii text; name its own encoding with --encoding"):
        load_rows(tmp_path / name, encoding="ascii")


def test_a_named_delimiter_is_used(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,a;label,b\nx,y;z,w\n")
    (tmp_path / "a.jsonl").write_text(lines())
    spec = {"data": str(tmp_path / "a.csv"), "delimiter": "semicolon", "input_field": "text,a"}
    found, _ = load_data(make_spec({**spec, "label_field": "label,b", "task": "generation"}).design)
    assert found == (Example("x,y", "z,w"),)
    with pytest.raises(DataError, match="is no CSV file"):
        load_rows(tmp_path / "a.jsonl", delimiter=";")
    with pytest.raises(UsageError, match="delimiter is 'dot'; it must be comma, semicolon"):
        make_spec({"delimiter": "dot"})


GUESSES = [
    ("body", "category"), ("Review", "Sentiment"), ("sentence", "sentiment"), ("query", "intent"),
    ("question", "answer"), ("prompt", "completion"), ("content", "class"), ("tweet", "target"),
]  # fmt: skip


@pytest.mark.parametrize(("shown", "label"), GUESSES)
def test_usual_names_are_found_and_said(
    shown: str, label: str, caplog: pytest.LogCaptureFixture
) -> None:
    rows = inline_rows([{"id": 7, shown: "a", label: "b"}])
    with caplog.at_level(logging.INFO, DATA):
        assert as_examples(rows, "'mail.csv'") == (Example("a", "b"),)
    assert caplog.messages == [
        f"'mail.csv': the input is {{{shown}}} and the label is {label}, found by the usual names "
        "of fields; choose others with --input-field (or --input-template) and --label-field."
    ]
    caplog.clear()
    with caplog.at_level(logging.INFO, DATA):
        as_examples(rows, "'mail.csv'", shown, label)
    assert not caplog.messages


def test_an_instruction_stands_before_its_input() -> None:
    rows = inline_rows([{"instruction": "Sort it.", "input": "a fee", "output": "work"}])
    assert as_examples(rows, "rows") == (Example("Sort it.\na fee", "work"),)


TALK = [
    {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": None}, {"role": "user", "content": [{"text": "And?"}]},
    {"role": "assistant", "content": "Bye"}, {"role": "user", "content": "Thanks"},
]  # fmt: skip
BEFORE = "System: Be brief.\nUser: Hi\nAssistant: \nUser: And?"


def test_the_last_answer_of_a_conversation_is_the_label() -> None:
    rows = inline_rows([{"messages": TALK, "id": 1}])
    assert as_examples(rows, "rows") == (Example(BEFORE, "Bye"),)
    labelled = inline_rows([{"messages": TALK, "label": "rude"}])
    whole = f"{BEFORE}\nAssistant: Bye\nUser: Thanks"
    assert as_examples(labelled, "rows") == (Example(whole, "rude"),)
    assert as_examples(labelled, "rows", "messages.prompt") == (Example(BEFORE, "rude"),)
    shared = [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Bye"}]
    assert as_examples(inline_rows([{"conversations": shared}]), "r") == (Example("Hi", "Bye"),)


def test_no_conversation_decides_how_another_one_reads() -> None:
    rows = [{"messages": TALK}, {"messages": TALK, "text": "a", "label": "b"}]
    with pytest.raises(DataError, match="rows whose usual fields differ"):
        as_examples(inline_rows(rows), "rows")


def warned(rows: list[tuple[str, str]]) -> list[str]:
    examples = tuple(Example(*row) for row in rows)
    return list(row_warnings(examples, infer_task(examples, "classification")))


def test_copies_are_counted() -> None:
    (found,) = warned([(f"secret {i % 6}", "ab"[i % 2]) for i in range(60)])
    assert found.startswith("54 of 60 rows repeat an earlier row")
    assert "secret" not in found


def test_labels_that_are_alike_are_counted() -> None:
    labels = ("Spam", "spam", "ham", "“spam”.")
    (found,) = warned([(f"secret {i}", labels[i % 4]) for i in range(20)])
    assert found.startswith("3 of 4 labels differ")
    assert "(15 rows)" in found
    assert not re.search(r"secret|spam", found, re.IGNORECASE)


@pytest.mark.parametrize("label", ["NaN", "nan", "null", "N/A", "#N/A", "<NA>", "None", "NA"])
def test_labels_that_say_that_there_is_none_are_counted(label: str) -> None:
    (found,) = warned([(f"secret {i}", label if i % 10 == 0 else "ab"[i % 2]) for i in range(40)])
    assert found.startswith("4 of 40 rows have a label that reads NaN")


def test_rows_without_oddities_are_not_spoken_of() -> None:
    assert not warned([(f"text {i}", ("none", "-1", "high")[i % 3]) for i in range(30)])
    same = (Example("a", "Yes"), Example("b", "yes"))
    assert not list(row_warnings(same, Task("generation")))


def test_an_audit_warns_once_of_what_it_reads(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a.csv").write_text(table(rows=ROWS * 4))
    rows_and_task(make_spec({"data": str(tmp_path / "a.csv")}).design)
    assert [message[:13] for message in caplog.messages] == ["18 of 24 rows"]
    rows_and_task(make_spec({}).design, tuple(EXPECTED * 4))
    rows_and_task(make_spec({}).design)  # the bundled rows repeat themselves
    assert len(caplog.messages) == 2


GAPS = [*ROWS, {"text": " ", "label": "x"}, {"text": "a", "label": ""}, {"text": "b"},
        {"text": "c", "label": "NaN"}]  # fmt: skip


def test_empty_rows_are_left_out_where_that_is_asked_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a.csv").write_text(table(rows=[{"text": "", "label": "", **r} for r in GAPS]))
    with pytest.raises(DataError, match=r"line 8 of .* has an empty field 'text'; .*--drop-empty"):
        load_rows(tmp_path / "a.csv")
    assert load_rows(tmp_path / "a.csv", drop_empty=True) == EXPECTED
    (said,) = caplog.messages
    assert said.endswith(
        "4 of 10 rows are left out: 1 with an empty field 'text', 2 with an empty field 'label', 1 "
        "with a label such as NaN, null or N/A."
    )
    nothing = inline_rows([{"text": "a", "label": ""}])
    with pytest.raises(DataError, match="no row left without those that --drop-empty leaves out"):
        as_examples(nothing, "rows", drop_empty=True)


def private(values: dict[str, object], tmp_path: Path) -> Any:
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(values))
    return load_private(str(tmp_path / "c.yaml"), (), Endpoint(), {})


def test_private_answers_rest_on_no_count_and_leave_no_row_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One empty row would move all others into other partitions; a count would tell of a row."""
    asked = {"rows": [*ROWS, *ROWS], "labels": "x,y", "mechanism": "report_noisy_max"}
    with caplog.at_level(logging.INFO, DATA):
        _, rows, task = private(asked, tmp_path)
    assert [len(rows), len(list(row_warnings(rows, task)))] == [12, 1]
    (said,) = caplog.messages  # the guess, which every row leads to by itself
    assert "found by the usual names of fields" in said
    assert not re.search(r"\d", said)
    with pytest.raises(UsageError, match="drop_empty would leave out private rows"):
        private({**asked, "drop_empty": True}, tmp_path)


def test_ids_of_records_are_read_with_the_same_delimiter(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,x;text,x;label,x\n7;a;x\n8;b;y\n")
    design = make_spec({"data": str(tmp_path / "a.csv"), "delimiter": ";"}).design
    assert Accounts("d", "id,x", None).ids(design, 2) == ["7", "8"]


def test_a_command_says_what_it_found_on_standard_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    gaps = [{"body": row.get("text", ""), "category": row.get("label", "")} for row in GAPS * 2]
    Path("a.tsv").write_text(table("\t", rows=gaps))
    with pytest.raises(SystemExit, match="2"):  # rows are read before the model is opened
        main(["plan", "--data", "a.tsv", "--drop-empty", "--model", "nowhere"])
    said = capsys.readouterr().err.splitlines()
    assert [line.split("; ")[0] for line in said[:3]] == [
        "leakbound: 'a.tsv': the input is {body} and the label is category, found by the usual "
        "names of fields",
        "leakbound: 'a.tsv': 8 of 20 rows are left out: 2 with an empty field 'body', 4 with an "
        "empty field 'category', 2 with a label such as NaN, null or N/A.",
        "leakbound: 6 of 12 rows repeat an earlier row",
    ]


@pytest.mark.parametrize("name", ["a.csv", "a.TSV"])
@pytest.mark.parametrize("field", [None, "text"])
def test_a_table_without_a_header_shows_nothing_of_its_first_row(
    tmp_path: Path, name: str, field: str | None
) -> None:
    """Its first row was listed as the names of its fields."""
    mark = "," if name == "a.csv" else "\t"
    rows = [("KITE0", "x", "a"), ("KITE1", "y", "b")]
    (tmp_path / name).write_text("".join(f"{mark.join(row)}\n" for row in rows))
    with pytest.raises(DataError, match=r"3 fields.* The first line .* must name") as told:
        load_rows(tmp_path / name, field)
    assert "KITE" not in str(told.value)
    (tmp_path / name).write_text(f"KITE{mark}KITE\nb{mark}c\n")
    with pytest.raises(DataError, match="several columns one name") as told:
        load_rows(tmp_path / name)
    assert "KITE" not in str(told.value)


def test_a_field_of_a_table_may_hold_a_long_document(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"text,label\n{'a' * 200_000},x\n")
    limit = csv.field_size_limit()
    assert len(str(load_rows(tmp_path / "a.csv")[0].input)) == 200_000
    assert csv.field_size_limit() == limit


def test_what_no_example_needs_is_not_kept(tmp_path: Path) -> None:
    """All rows with all of their fields were in memory before the first example was made."""
    file = tmp_path / "rows.jsonl"
    row = json.dumps({"text": "a fee", "label": "work", "history": "x" * 5000})
    file.write_text(f"{row}\n" * 2000, encoding="utf-8")
    tracemalloc.start()
    try:
        rows = load_rows(file)
        assert tracemalloc.get_traced_memory()[1] < file.stat().st_size / 5
    finally:
        tracemalloc.stop()
    assert len(rows) == 2000
