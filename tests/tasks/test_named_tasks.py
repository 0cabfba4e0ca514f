"""The papers' tasks by name, from rows in the layout of a data folder and from rows with the fields
that the hub has.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from leakbound_lab.named_tasks import NAMED_TASKS

from leakbound.auditing import make_spec, prepare
from leakbound.auditing.prepare.rows import load_data
from leakbound.errors import DataError, UsageError
from leakbound.models import Scripted
from leakbound.tasks import Example
from leakbound.tasks.rows.datasets import inline_rows

RAW = {
    "subj": ["objective", "subjective"], "sarcasm": ["sarcastic", "not_sarcastic"],
    "agnews": ["World", "Sports", "Business", "Sci/Tech"],
    "trec": ["Abbreviation", "Entity", "Description", "Person", "Location", "Number"],
    "dbpedia14": ["Company", "EducationalInstitution", "Artist", "Athlete", "OfficeHolder",
                  "MeanOfTransportation", "Building", "NaturalPlace", "Village", "Animal", "Plant",
                  "Album", "Film", "WrittenWork"],
}  # fmt: skip
SUMMARIES, QUESTIONS = (
    ("samsum", "xsum", "cnn_dailymail"),
    ("pubmedqa", "sroie_receipts_qa", "pfl_docvqa"),
)


def layout(name: str) -> list[dict[str, str]]:
    """Rows of our own in the layout of a data folder."""
    if name in RAW:
        return [{"text": f"text {i}", "label": RAW[name][i % len(RAW[name])]} for i in range(30)]
    if name in SUMMARIES:
        return [
            {"document": f"A: line {i}\nB: line", "summary": f"summary\n{i}"} for i in range(30)
        ]
    answers = {
        "pubmedqa_yesno": ("yes", "no", "maybe"),
        "gsm8k": ("one\n#### 3,472", "so <<1+1=2>>2\n#### 80", "#### 1"),
    }
    given = answers.get(name, ("the answer", "another", "a third"))
    context = "" if name == "gsm8k" else "what is known"
    return [
        {"context": context, "question": f"question {i}?", "answer": given[i % 3]}
        for i in range(30)
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in NAMED_TASKS:
        (tmp_path / name).mkdir()
        rows = "".join(json.dumps(row) + "\n" for row in layout(name))
        (tmp_path / name / "train.jsonl").write_text(rows)
    return tmp_path


@pytest.mark.parametrize("name", sorted(NAMED_TASKS))
def test_each_task_reads_a_data_folder_and_can_be_audited(folder: Path, name: str) -> None:
    spec = make_spec({"task": name, "data_dir": str(folder), "pairs": 2, "shots": 4})
    rows, task = load_data(spec.design)
    assert len(rows) == 30
    assert task.name == name
    assert {row.label for row in rows} <= set(task.labels) or not task.labels
    prepared = prepare(spec, Scripted(complete=lambda prompt: "yes"))
    prompt = prepared.mechanism.requests(task, prepared.pairs[0].member, 0)[0].prompt  # type: ignore[attr-defined]
    assert prompt.startswith(task.instruction)
    assert prompt.count(f"{task.label_name}:") == 5


def test_every_label_of_the_data_is_a_label_of_the_task() -> None:
    for name, raw in RAW.items():
        assert {NAMED_TASKS[name].answer(label) for label in raw} == set(
            NAMED_TASKS[name].task.labels
        )
    assert len(NAMED_TASKS["dbpedia14"].task.labels) == 14


@pytest.mark.parametrize(
    ("solution", "digit"),
    [
        ("x\n#### 3,472", "3"),
        ("#### -5", "5"),
        ("9 apples #### $10", "1"),
        ("#### 0.5", "0"),
        ("#### none", None),
        ("", None),
    ],
)
def test_the_label_of_a_problem_is_the_first_digit_of_its_result(
    solution: str, digit: str | None
) -> None:
    assert NAMED_TASKS["gsm8k"].answer(solution) == digit


def test_fields_and_classes_of_the_hub(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    sections = datasets.ClassLabel(names=["World", "Sports", "Business", "Sci/Tech"])
    kinds = datasets.ClassLabel(names=["ABBR", "ENTY", "DESC", "HUM", "LOC", "NUM"])
    text, nested = datasets.Value("string"), {"contexts": [datasets.Value("string")]}
    cases: dict[str, tuple[list[dict[str, Any]], Any, Example]] = {
        "agnews": ([{"text": "t", "label": 3}], {"text": text, "label": sections},
                   Example("t", "Technology")),
        "trec": ([{"text": "t", "coarse_label": 3}], {"text": text, "coarse_label": kinds},
                 Example("t", "Person")),
        "samsum": ([{"dialogue": "d", "summary": "s"}], None, Example("d", "s")),
        "cnn_dailymail": ([{"article": "d", "highlights": "s\nt"}], None, Example("d", "s t")),
        "subj": ([{"text": "t", "label": 1, "label_text": "subjective"}], None,
                 Example("t", "subjective")),
        "pubmedqa_yesno": (
            [{"context": {"contexts": ["a", "b"]}, "question": "q?", "final_decision": "no",
              "long_answer": "l"}],
            {"context": nested, "question": text, "final_decision": text, "long_answer": text},
            Example("a\nb\nQuestion: q?", "no"),
        ),
    }  # fmt: skip
    for name, (rows, features, expected) in cases.items():
        made = datasets.Features(features) if features else None
        datasets.Dataset.from_list(rows, features=made).save_to_disk(str(tmp_path / name))
        assert NAMED_TASKS[name].rows(f"hf:{tmp_path / name}", None) == (expected,), name


def test_mistakes_get_a_sentence(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Did you mean 'dbpedia14'"):
        make_spec({"task": "dbpedia"})
    with pytest.raises(
        DataError, match=r"no public copy .* is known on the hub; give a folder .* --data-dir"
    ):
        load_data(make_spec({"task": "pfl_docvqa"}).design)
    with pytest.raises(DataError, match=r"no/subj/train.jsonl' does not exist"):
        load_data(make_spec({"task": "subj", "data_dir": "no"}).design)
    with pytest.raises(UsageError, match="knows its fields"):
        load_data(
            make_spec({"task": "subj", "data_dir": str(folder), "label_field": "label"}).design
        )
    wrong = tmp_path / "wrong.jsonl"
    unknown = "no label of subj in the field 'label'; labels are objective"
    fields = "has the fields body; rows of subj must have text, label_text or text, label"
    for row, sentence in (({"text": "t", "label": "dull"}, unknown), ({"body": "t"}, fields)):
        wrong.write_text(json.dumps(row) + "\n")
        with pytest.raises(DataError, match=sentence) as error:
            load_data(make_spec({"task": "subj", "data": str(wrong)}).design)
        assert "dull" not in str(error.value)


def test_no_row_decides_which_layout_is_read() -> None:
    """A first row without `text` put the field `content` of all rows into every prompt."""
    both = {"text": "t", "content": "c", "label": "Film"}
    for first in ({"content": "c", "label": "Film"}, {"text": "t"}):
        for rows in ([first, both], [both, first]):
            with pytest.raises(DataError, match="dbpedia14 are in more than one layout"):
                NAMED_TASKS["dbpedia14"].examples(inline_rows(rows))


def test_rows_of_a_program_may_have_the_task_of_a_name() -> None:
    rows = tuple(Example(f"row {i}", ("objective", "subjective")[i % 2]) for i in range(12))
    spec = make_spec({"task": "subj", "pairs": 2, "shots": 4})
    assert prepare(spec, Scripted(complete=str), rows=rows).task == NAMED_TASKS["subj"].task
    with pytest.raises(DataError, match="label that the task subj does not know"):
        prepare(spec, Scripted(complete=str), rows=(*rows, Example("row", "other")))


def test_labels_that_leave_some_of_the_data_out_are_named_as_what_was_given() -> None:
    """The sentence spoke of a configuration, and did not say what to do; it shows no label."""
    rows = tuple(Example(f"row {i}", ("work", "home", "secret")[i % 3]) for i in range(12))
    spec = make_spec({"labels": ["work", "home"], "pairs": 2, "shots": 4})
    with pytest.raises(DataError, match=r"given with --labels \(work,home\).* every label") as told:
        prepare(spec, Scripted(complete=str), rows=rows)
    assert "secret" not in str(told.value)
