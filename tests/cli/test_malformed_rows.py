"""Files of rows that a user could really make, and that no audit can read."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest
from malformed import PRIVATE, mistaken, written

ROWS = "".join(
    json.dumps({"text": f"{PRIVATE} item {i}", "label": "ab"[i % 2]}) + "\n" for i in range(40)
)
ONE = f'{{"text": "{PRIVATE}", "label": "a"}}\n'
TABLE = "text,label\n" + "".join(f"{PRIVATE} {i},{'ab'[i % 2]}\n" for i in range(30))
FILES: dict[str, str | bytes] = {
    "app.py": "def silent(context, query):\n    return ''\n",
    "rows.jsonl": ROWS,
    "empty.jsonl": "",
    "blank.csv": "\n\n\n",
    "mark.jsonl": b"\xef\xbb\xbf",
    "nothing.jsonl.gz": gzip.compress(b""),
    "zero.jsonl.gz": b"",
    "head.csv": "text,label\n",
    "latin.csv": f"text,label\n{PRIVATE} café,b\n".encode("latin-1"),
    "zeros.jsonl": b"\0" * 2000,
    "nan.jsonl": '{"text": NaN, "label": "a"}\n' * 9,
    "strings.jsonl": f'"{PRIVATE}"\n' * 9,
    "numbers.jsonl": "1\n2\n3\n",
    "nulls.jsonl": "null\n",
    "true.jsonl": "true\n",
    "lists.jsonl": f'["{PRIVATE}", "b"]\n',
    "list.jsonl": json.dumps([json.loads(ONE)]),
    "pretty.jsonl": json.dumps(json.loads(ONE), indent=1),
    "number.json": "5",
    "none.json": "[]",
    "object.json": "{}",
    "commas.jsonl": ONE.replace("}\n", "},\n") * 9,
    "quotes.jsonl": ONE.replace('"', "'"),
    "twice.jsonl": f'{{"text": "a", "text": "{PRIVATE}", "label": "b"}}\n',
    "cut.jsonl": ROWS[:-9],
    "open.csv": f'text,label\n"{PRIVATE},a\nb,c\n',
    "one-label.jsonl": ONE * 40,
    "alike.jsonl": ONE * 20 + ONE.replace('"a"', '" a"') * 20,
    "few.jsonl": ONE + ONE.replace('"a"', '"b"'),
    "spaces.jsonl": ROWS + '{"text": "  ", "label": "a"}\n',
    "no-label.jsonl": f'{{"text": "{PRIVATE}"}}\n' * 9,
    "mixed.jsonl": ONE * 9 + f'{{"body": "{PRIVATE}", "target": "a"}}\n',
    "half.jsonl": '{"text": "\\ud800", "label": "a"}\n',
    "no-head.csv": "".join(f"{PRIVATE} {i},a\n" for i in range(9)),
    "wide.csv": f"text,label\n{PRIVATE},b,c\n",
    "wide-semicolons.csv": f"text;label\n{PRIVATE};b;c\n",
    "short.csv": f"text,label\n{PRIVATE}\n",
    "double.csv": f"text,text,label\n{PRIVATE},b,c\n",
    "again.csv": TABLE + "text,label\n",
    "long.csv": TABLE + f"{PRIVATE * 40_000},a\n",
    "rows.txt": f"{PRIVATE}\n",
    "rows": f"{PRIVATE}\n",
    "rows.xlsx": b"PK\x03\x04",
    "book.csv": b"PK\x03\x04",
    "rows.jsonl.bz2": b"BZh9",
    "folder/kept": "",
}
PLAN = ("plan", "--pairs", "5", "--shots", "4", "--data")
READ: list[tuple[str, str]] = [
    *[(name, "holds no rows; it needs at least a few examples.")
      for name in ("empty.jsonl", "blank.csv", "mark.jsonl", "nothing.jsonl.gz", "zero.jsonl.gz",
                   "head.csv", "none.json")],
    ("latin.csv", "is not UTF-8 text, nor UTF-16 with a byte order mark; if it was"),
    ("zeros.jsonl", "looks like UTF-16 without a byte order mark; save it as UTF-8."),
    ("nan.jsonl", "line 1 of 'nan.jsonl' has an empty field 'text'; drop the row or fill it"),
    ("strings.jsonl", "line 1 of 'strings.jsonl' is a text; it must be an object with named"),
    ("numbers.jsonl", "line 1 of 'numbers.jsonl' is a number; it must be an object with named"),
    ("nulls.jsonl", "line 1 of 'nulls.jsonl' is null; it must be an object with named fields."),
    ("true.jsonl", "line 1 of 'true.jsonl' is true or false; it must be an object with named"),
    ("lists.jsonl", "is a list; it must be an object with named fields. A list of objects bel"),
    ("list.jsonl", "named fields. A list of objects belongs in a .json file."),
    ("pretty.jsonl", "line 1 of 'pretty.jsonl' is not JSON"),
    ("number.json", "is a number; it must be an object with named fields."),
    ("object.json", "none of them a usual name for the input; name it with"),
    ("commas.jsonl", "line 1 of 'commas.jsonl' is not JSON (Extra data); write one JSON object"),
    ("quotes.jsonl", "line 1 of 'quotes.jsonl' is not JSON"),
    ("twice.jsonl", "line 1 of 'twice.jsonl' has two fields of one name; rename one of them."),
    ("cut.jsonl", "line 40 of 'cut.jsonl' is not JSON"),
    ("open.csv", "cannot be read as CSV (unexpected end of data); check its quotes."),
    ("one-label.jsonl", "all rows have the same label"),
    ("alike.jsonl", "all rows have the same label"),
    ("few.jsonl", "4 examples per context and one held-out row need 5 rows, and the data has 2"),
    ("spaces.jsonl", "line 41 of 'spaces.jsonl' has an empty field 'text'; drop the row or fill"),
    ("mixed.jsonl", "has rows whose usual fields differ; all rows must have the same ones"),
    ("half.jsonl", "has half a character (a lone surrogate) in the field 'text'; write the text"),
    ("no-head.csv", "The first line of the file must name the fields, such as text,label"),
    ("wide-semicolons.csv", "put fields with semicolons into quotes"),
    ("wide.csv", "has more fields than the first line names; put fields with commas into quot"),
    ("short.csv", "line 2 of 'short.csv' has an empty field 'label'"),
    ("double.csv", "gives several columns one name (column 1 and 2); rename or remove all but"),
    ("again.csv", "line 32 of 'again.csv' names the fields once more, as the first line does"),
    ("rows.txt", "the data file 'rows.txt' ends in '.txt'; it must be a .jsonl, .json, .csv"),
    ("rows", "the data file 'rows' ends in ''; it must be a .jsonl"),
    ("rows.xlsx", "Save the sheet as CSV (UTF-8)."),
    ("book.csv", "is a ZIP archive or an Excel workbook; unpack it, or save the sheet as CSV"),
    ("rows.jsonl.bz2", "ends in '.bz2'; it must be a .jsonl"),
    ("folder", "holds no folders; it must hold one folder of images per class"),
    ("nothing.jsonl", "'nothing.jsonl' does not exist; give a .jsonl"),
    ("rows.jsonl/rows.jsonl", "does not exist; give a .jsonl"),
    ("circle.jsonl", "'circle.jsonl' is a symbolic link that leads to no file; give a .jsonl"),
    ("pipe", "'pipe' is a pipe or a device; save what it holds as a file; give a .jsonl"),
    ("/dev/null", "'/dev/null' is a pipe or a device; save what it holds as a file; give"),
    ("https://127.0.0.1:9/rows.jsonl", "is on another machine; fetch it, and give a .jsonl"),
    ("s3://bucket/rows.jsonl", "is on another machine; fetch it, and give a .jsonl"),
    ("hf:", "'hf:' names no dataset; it must be hf:<id or folder>[:split]."),
    ("x" * 300, "has 300 characters, more than the file system allows; name a shorter one."),
]  # fmt: skip
FIELDS: list[tuple[tuple[str, ...], str]] = [
    (("--labels", "a,c"), "some rows have a label that is none of those given with --labels (a,c)"),
    (("--labels", "a,a "), "labels is 'a,a ', the same label twice; it must name at least two"),
    (("--labels", "a;b"), "labels is 'a;b'; it must name at least two labels, such as work,home"),
    (("--input-field", "nope"), "has no field 'nope'; it has text, label. Name the field that"),
    (("--label-field", "text"), "the field 'text' is both the input and the label; name another"),
    (("--input-template", "{nope}"), "has no field 'nope'; it has text, label."),
    (("--input-template", "{text"), "the input template is '{text'; it must name fields in braces"),
    (("--input-field", "text", "--input-template", "{text}"), "leave one of them out."),
    (("--delimiter", ";"), "is no CSV file, so no delimiter separates its fields; leave"),
    (("--delimiter", "ab"), "delimiter is 'ab'; it must be comma, semicolon, tab, pipe, or one"),
    (("--encoding", "utf-99"), "encoding is 'utf-99'; it must be one such as cp1252"),
    (("--task", "sst2"), "the task 'sst2' is not known; it must be one of agnews,"),
    (("--canary", "given"), "the canary 'given' has no text; write it as given:text=TEXT"),
    (("--canary", "given:image=no.png"), "'no.png' is not a file; give the path of"),
    (("--canary", "false_fact:file=empty.jsonl"), "holds no sentence; write one"),
    (("--canary", "false_fact:file=folder"), "cannot be read (is a directory)"),
    (("--canary", "patchwork"), "the canary patchwork is an image, and the rows hold texts"),
    (("--mechanism", "zero_shot"), "zero_shot gives a guarantee, so its labels have to be public"),
]  # fmt: skip


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file for each mistake."""
    folder = written(tmp_path_factory.mktemp("rows"), FILES)
    (folder / "circle.jsonl").symlink_to("circle.jsonl")
    os.mkfifo(folder / "pipe")
    return folder


@pytest.mark.parametrize(("name", "sentence"), READ, ids=[name[:30] for name, _ in READ])
def test_rows_that_cannot_be_read(
    rows: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    sentence: str,
) -> None:
    monkeypatch.chdir(rows)
    system = ("--system", "python:app.py:silent")  # no model is loaded to count rows
    mistaken(capsys, (*PLAN, name, *system), 2, sentence)


def test_examples_that_a_model_is_shown_need_a_label(
    rows: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(rows)
    said = "none of them a usual name for the label; name it with --label-field."
    mistaken(capsys, (*PLAN, "no-label.jsonl"), 2, said)


@pytest.mark.parametrize(("args", "sentence"), FIELDS, ids=[" ".join(args) for args, _ in FIELDS])
def test_rows_that_are_asked_for_what_they_lack(
    rows: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    args: tuple[str, ...],
    sentence: str,
) -> None:
    monkeypatch.chdir(rows)
    mistaken(capsys, (*PLAN, "rows.jsonl", *args), 2, sentence)


WINDOW = "the window of pocket is 2048; nothing was sent. Put less into the prompt"
TOO_LONG: list[tuple[tuple[str, ...], int, str]] = [
    (("long.csv",), 4, WINDOW),
    (("rows.jsonl", "--canary", "hex:digits=5000"), 4, WINDOW),
    (("rows.jsonl", "--canary", "unigram:length=5000"), 2, "different words, and"),
    (("rows.jsonl", "--shots", "40"), 2, "40 examples per context and one held-out row need 41"),
]


@pytest.mark.slow
@pytest.mark.torch  # whose tokenizer counts
@pytest.mark.parametrize(("args", "code", "sentence"), TOO_LONG, ids=["row", "hex", "words", "all"])
def test_what_is_too_long_reaches_no_model(
    rows: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    args: tuple[str, ...],
    code: int,
    sentence: str,
) -> None:
    monkeypatch.chdir(rows)
    mistaken(capsys, (*PLAN, *args), code, sentence)
