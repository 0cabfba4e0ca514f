"""ROUGE by hand, both definitions of both counts, and the command over a CSV file."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from leakbound.errors import DataError

pytest.importorskip("rouge_score")
from leakbound_lab.studies.regurgitation import (
    Generation,
    count_generations,
    load_generations,
    repeats_half,
    shares_words,
)
from leakbound_lab.verbs.score_generations import command

from leakbound.utility import rouge

LONG = " ".join(f"w{i}" for i in range(60))


def test_rouge_by_hand() -> None:
    found = rouge("the cat sat on the mat", "a cat sat on a mat today")
    assert (found["rougeL"].precision, found["rougeL"].recall) == (
        pytest.approx(4 / 7),
        pytest.approx(4 / 6),
    )
    assert found["rouge1"].f1 == pytest.approx(2 * (4 / 7) * (4 / 6) / (4 / 7 + 4 / 6))
    assert rouge("a b", "b a")["rouge1"].f1 == 1
    assert rouge("", "a")["rougeL"].f1 == 0


@pytest.mark.parametrize(
    ("context", "response", "half", "words"),
    [
        ("a b c d", "a b x y", True, False),
        ("a b c d", "a x b y", False, False),
        ("a b c d", "a b x y z", False, False),  # a run of 2 in 5 words
        ("a b c d", "", False, False),
        ("a", "a", True, False),
        ("a", "b c d e f", False, False),
        (LONG, " ".join(LONG.split()[::2][:26]), False, True),  # 26 shared words, no run
        (LONG, " ".join(LONG.split()[::2][:25]), False, False),
        (LONG, " ".join(["w1"] * 60), False, False),  # words count once
    ],
)
def test_both_definitions_of_a_repeat(context: str, response: str, half: bool, words: bool) -> None:
    assert repeats_half(context, response) is half
    assert shares_words(context, response) is words


def test_counts_by_both_definitions() -> None:
    rows = [
        Generation(LONG, " ".join(LONG.split()[:40]), LONG),  # repeats by all four
        Generation(LONG, "w1 w2 w3"),  # verbatim, but short: precision 1, F1 low
        Generation(LONG, "nothing of it", "nothing of that"),
    ]
    found = count_generations(rows)
    assert found.generations == 3
    assert found.repeat == {"text": 2, "program": 1}
    assert found.rouge == {"text": 1, "program": 2}
    assert found.rougel == pytest.approx((0.8 + 2 / 3) / 2)
    assert count_generations(rows[1:2]).rouge1 is None


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "generations.csv"
    with path.open("w", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow(["id", "Document", "my output"])
        writer.writerows([[1, LONG, LONG], [2, 'a,\n"b" c', "x"]])
    return path


def test_the_command_counts_a_file(file: Path) -> None:
    args = [str(file), "--response-field", "my output"]
    done = CliRunner().invoke(command, args, standalone_mode=False)
    assert "by the text: repeat 1, rouge 1" in done.output
    found = json.loads(CliRunner().invoke(command, [*args, "--json"], standalone_mode=False).output)
    assert found["repeat"] == {"text": 1, "program": 1}


def test_a_file_without_the_columns_gets_a_sentence(file: Path, tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match="no column holds the response; the file has id, Document, my output"
    ):
        load_generations(file)
    with pytest.raises(DataError, match="no column 'x'"):
        load_generations(file, context="x")
    with pytest.raises(DataError, match="cannot be read"):
        load_generations(tmp_path / "missing.csv")
    (tmp_path / "empty.csv").write_text("context,response\n")
    with pytest.raises(DataError, match="no row"):
        load_generations(tmp_path / "empty.csv")


def test_published_generations_take_their_contexts_from_another_file(tmp_path: Path) -> None:
    """The published form: a nameless index, `generations`, `privacy_loss`; contexts by row from the
    data set.
    """
    file, contexts = tmp_path / "cnn_1.5.csv", tmp_path / "test.jsonl"
    file.write_text(',generations,privacy_loss\n0," w1 w2 w3 w4",464.1\n1, nothing of it,3.5\n')
    rows = [{"document": LONG, "summary": "w1 w2"}, {"document": LONG, "summary": "w3"}]
    contexts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = load_generations(file, contexts)
    assert [(row.context, row.response, row.reference) for row in found] == [
        (LONG, " w1 w2 w3 w4", "w1 w2"), (LONG, " nothing of it", "w3"),
    ]  # fmt: skip
    done = CliRunner().invoke(
        command, [str(file), "--context", str(contexts)], standalone_mode=False
    )
    assert "by the text: repeat 1, rouge 0" in done.output
    assert "by the program: repeat 0, rouge 1" in done.output
    contexts.write_text(json.dumps(rows[0]) + "\n")
    with pytest.raises(DataError, match=r"2 generations, and .* has 1 rows"):
        load_generations(file, contexts)


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_a_context_in_parts_is_joined_as_the_paper_does(tmp_path: Path, form: str) -> None:
    """Rows of PubMedQA, `context: {contexts: [...]}`, were the string of a dictionary before:
    quotes and commas clung to the words at the ends of each part, and 116 responses repeated
    their context where the paper counts 123.
    """
    words = LONG.split()
    context = {"contexts": [" ".join(words[:20]), " ".join(words[20:])], "labels": ["A", "B"]}
    contexts, file = tmp_path / f"data.{form}", tmp_path / "published.csv"
    if form == "jsonl":
        contexts.write_text(json.dumps({"context": context, "question": "q"}) + "\n")
    else:
        with contexts.open("w", newline="") as opened:
            csv.writer(opened).writerows([["context"], [str(context)]])
    file.write_text(f",generations\n0,{' '.join([*words[:19], *words[-7:]])}\n")
    row = load_generations(file, contexts)[0]
    assert row.context == "".join(context["contexts"])
    assert count_generations([row]).repeat["program"] == 1  # 26 words; without w0 and w59, 24
    assert not shares_words(str(context), row.response)


def test_a_context_that_is_no_text_gets_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"context": {"pages": ["a"]}, "response": "b"}\n')
    with pytest.raises(DataError, match="dict in 'context'; it must be a text, a list of texts"):
        load_generations(file)
