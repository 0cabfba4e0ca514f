"""Data files: both formats, field maps, and a sentence for every mistake."""

import json
from pathlib import Path

import numpy as np
import pytest

from leakbound.auditing.prepare.rows import task_of
from leakbound.errors import DataError
from leakbound.tasks import Example, Task
from leakbound.tasks.partition import split_by_position
from leakbound.tasks.rows.datasets import fingerprint, infer_task, load_rows
from leakbound.tasks.synthetic import HELP_DESK, TOPICS, help_desk


def test_jsonl_and_csv_give_the_same_rows(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        '{"text": "one, two", "label": "x"}\n\n{"text": "naïve", "label": "y"}\n'
    )
    (tmp_path / "a.csv").write_text('text,label\n"one, two",x\nnaïve,y\n')
    assert (
        load_rows(tmp_path / "a.jsonl")
        == load_rows(tmp_path / "a.csv")
        == (Example("one, two", "x"), Example("naïve", "y"))
    )


def test_field_map(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"body": "b", "kind": "k", "text": "t"}) + "\n")
    assert load_rows(tmp_path / "a.jsonl", "body", "kind") == (Example("b", "k"),)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.jsonl", "", "holds no rows"),
        ("a.jsonl", "{", "line 1 of .* is not JSON"),
        ("a.jsonl", "[1]", "must be an object"),
        (
            "a.jsonl",
            '{"a": "b"}',
            "none of them a usual name for the input or the label; name it with --input-field",
        ),
        ("a.jsonl", '{"text": "b"}', "usual name for the label"),
        ("a.jsonl", '{"text": "", "label": "x"}', "empty field 'text'"),
        (
            "a.jsonl",
            '{"text": "a", "label": "x"}\n{"text": "a"}',
            "rows whose usual fields differ; .* Name the fields with --input-field",
        ),
        ("a.csv", "text,label\n", "holds no rows"),
        ("a.txt", "hello", "must be a .jsonl, .json, .csv, .tsv or .parquet"),
    ],
)
def test_bad_files_get_a_sentence(tmp_path: Path, name: str, content: str, sentence: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=sentence):
        load_rows(tmp_path / name)


USUAL = [{"text": f"text {i}", "sentence": f"sentence {i}", "label": "ab"[i % 2]} for i in range(4)]
FULL = {**USUAL[0], "context": "c", "image": "a.png", "answer": "a"}


@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("lost", ["text", "label", "text, sentence", "text, sentence, label"])
def test_no_row_decides_which_fields_are_read(tmp_path: Path, lost: str, at: int) -> None:
    """A first row without `text` put the field `sentence` of all rows into every prompt."""
    odd = {name: value for name, value in FULL.items() if name not in lost.split(", ")}
    for row in (odd, {name: odd[name] for name in odd if name in USUAL[0]}):
        rows = [*USUAL[:at], row, *USUAL[at + 1 :]]
        (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
        with pytest.raises(DataError, match="rows whose usual fields differ") as refused:
            load_rows(tmp_path / "a.jsonl")
        said = str(refused.value).replace(repr(str(tmp_path / "a.jsonl")), "")
        assert not any(piece in said for piece in ("context", "image", "answer", "line"))
    named = tuple(Example(row["text"], row["label"]) for row in USUAL)
    rows[at] = {name: USUAL[at][name] for name in ("text", "label")} | {"message": "m"}
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert load_rows(tmp_path / "a.jsonl", "text", "label") == named
    assert load_rows(tmp_path / "a.jsonl") == named  # `text` and `label` come first in every row


def test_missing_and_binary_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        load_rows(tmp_path / "none.jsonl")
    (tmp_path / "b.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="not UTF-8"):
        load_rows(tmp_path / "b.jsonl")


def test_tasks_are_inferred(rows: tuple[Example, ...]) -> None:
    assert infer_task(rows).labels == ("odd", "plain")
    assert infer_task(rows, "generation").labels == ()
    free = tuple(Example(str(i), f"answer {i}") for i in range(50))
    assert infer_task(free).labels == ()


def test_one_class_is_refused(rows: tuple[Example, ...]) -> None:
    one = tuple(Example(r.input, "same") for r in rows)
    with pytest.raises(DataError, match="the same label"):
        task_of(one, None)
    assert task_of(one, None, Task("desk", ("same", "other"))).labels == ("same", "other")


def test_fingerprints_tell_data_apart(rows: tuple[Example, ...]) -> None:
    assert fingerprint(rows) == fingerprint(rows) != fingerprint(rows[1:])


def test_nothing_private_in_reprs(rows: tuple[Example, ...]) -> None:
    assert "kite" not in repr(rows[0]) + str(rows)


def test_replacing_one_example_changes_one_partition(rows: tuple[Example, ...]) -> None:
    for at in range(20):
        other = (*rows[:at], Example("new", "odd"), *rows[at + 1 : 20])
        pairs = zip(split_by_position(rows[:20], 7), split_by_position(other, 7), strict=True)
        assert sum(a != b for a, b in pairs) == 1


def test_help_desk_is_balanced_and_repeats() -> None:
    data = help_desk(40, np.random.default_rng(1))
    assert data == help_desk(40, np.random.default_rng(1))
    assert {
        label: sum(r.label == label for r in data) for label in HELP_DESK.labels
    } == dict.fromkeys(HELP_DESK.labels, 10)
    assert len(TOPICS) == 8


def test_a_query_stands_in_the_operators_template() -> None:
    task = Task("t", ("a", "b"), "Text", "Kind")
    prompt = task.prompt((Example("x", "a"),), __import__("leakbound").Query("q"), "Be quiet.")
    assert (
        prompt
        == "Be quiet.\n\nLabel each text with one of: a, b.\n\nText: x\nKind: a\n\nText: q\nKind:"
    )
