"""Named documents: RAG traces, limits on shares, exit codes."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import leakbound
from leakbound.attribution import (
    Attribution,
    Case,
    InfluenceRecord,
    Reading,
    SpanGrid,
    case_of_documents,
    csv_text,
    limit_shares,
    load_cases,
    load_influence,
    npz_bytes,
)
from leakbound.cli.verbs.attribute.influence import command
from leakbound.errors import DataError, UsageError
from leakbound.models import Model
from leakbound.report.influence import influence_page, influence_summary

QUERY = "What is the door code of Marta?"
STAFF = "A small dog slept. The door code of Marta is 48213. The bridge is old."
DOCUMENTS = {"weather.md": "The morning was grey. It rained.", "staff.md": STAFF,
             "garden.md": "Our neighbour painted the garden gate in spring."}  # fmt: skip


def rag_trace(documents: dict[str, str]) -> dict[str, Any]:
    chunks = [{"id": name, "text": text} for name, text in documents.items()]
    return {"question": QUERY, "chunks": chunks, "answer": "48213"}


def run(*args: str) -> Result:
    return CliRunner().invoke(command, args, standalone_mode=False)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    file = tmp_path / "trace.jsonl"
    file.write_text(json.dumps(rag_trace(DOCUMENTS)) + "\n")
    return file


@pytest.mark.parametrize(
    "row",
    [
        rag_trace(DOCUMENTS),
        {"query": QUERY, "contexts": list(DOCUMENTS.values()), "response": "48213"},
        {"question": QUERY, "context": {"contexts": list(DOCUMENTS.values())}, "answer": "48213"},
        {"query": QUERY, "documents": [{"page_content": t} for t in DOCUMENTS.values()]},
    ],
)
def test_every_usual_form_of_a_trace_is_read(tmp_path: Path, row: dict[str, Any]) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(row) + "\n")
    (case,) = load_cases(file, response="48213")
    assert (case.query, case.response) == (QUERY, "48213")
    texts = [case.context[first:end] for _, first, end in case.sources]
    assert texts == list(DOCUMENTS.values())
    names = [name for name, _, _ in case.sources]
    assert names == (list(DOCUMENTS) if "chunks" in row else ["chunk 1", "chunk 2", "chunk 3"])


def test_a_text_context_is_no_trace(tmp_path: Path) -> None:
    """Its `answer` stays the reference, and its list of sources is no text of the prompt."""
    file = tmp_path / "rows.jsonl"
    file.write_text('{"context": "a b", "sources": ["kb-1"], "answer": "a"}\n')
    assert load_cases(file) == [Case("a b", "", None, "a")]
    file.write_text('{"question": "q", "chunks": [{"id": 1}]}\n')
    with pytest.raises(DataError, match=r"line 1 .* is not a RAG trace; it must have chunks"):
        load_cases(file)


def test_units_of_a_trace_have_names_and_characters(pocket: Model) -> None:
    record = leakbound.influence(DOCUMENTS, QUERY, model=pocket, response="48213", by="sentence")
    sentences, _ = record.attributions[0].readings[0].grids
    top = int(sentences.totals.argmax())
    assert sentences.names[top] == "staff.md, sentence 2"
    code = record.attributions[0].context[slice(*sentences.characters[top])]
    assert code == "The door code of Marta is 48213."
    cells = [row for row in csv.DictReader(io.StringIO(csv_text(record))) if row["unit"]]
    assert {row["span_text"] for row in cells if row["name"] == "staff.md, sentence 2"} == {code}
    assert "0/0/sentence/signed" in np.load(io.BytesIO(npz_bytes(record)))


@pytest.mark.parametrize(
    ("limit", "source", "code", "said"),
    [
        ("0.5", "staff.md", 1, "VIOLATION: The share of 'staff.md' in the influence"),
        ("0.99", None, 0, "at most the limit of 0.99"),
    ],
)
def test_a_limit_decides_the_exit_code(
    trace: Path, tmp_path: Path, limit: str, source: str | None, code: int, said: str
) -> None:
    named = ["--source", source] if source else []
    done = run(
        "--context", str(trace), "--max-share", limit, *named, "--out", str(tmp_path / "i"), "-v"
    )
    assert done.return_value == code, done.output
    shown = " ".join(done.output.split())
    assert said in shown
    record = load_influence(tmp_path / "i")
    assert record.settings["method"] == "shapley"
    assert record.share_limit is not None
    assert record.share_limit.sentence in shown
    assert record.share_limit.sentence.split("'")[0] in (tmp_path / "i/influence.html").read_text()


def test_a_redacted_limit_names_no_source(trace: Path, tmp_path: Path) -> None:
    done = run("--context", str(trace), "--max-share", "0.5", "--source", "staff.md", "--redact",
               "--out", str(tmp_path / "i"), "-v")  # fmt: skip
    assert done.return_value == 1
    assert "VIOLATION: The share of 'document 2'" in " ".join(done.output.split())
    for file in (tmp_path / "i").glob("*"):
        assert b"staff" not in file.read_bytes()


def test_copies_that_leave_one_out_cannot_see_are_said(pocket: Model) -> None:
    twice = {"a.md": STAFF, "b.md": STAFF}
    record = leakbound.influence(twice, QUERY, model=pocket, response="48213", by="document")
    assert "as they do when a text stands twice" in influence_summary(record)
    assert "--method shapley ablates sets of units" in influence_page(record)


def test_files_are_documents_by_name(tmp_path: Path) -> None:
    files = [tmp_path / name for name in DOCUMENTS]
    for file in files:
        file.write_text(DOCUMENTS[file.name])
    args = [part for file in files for part in ("--context", str(file))]
    options = ("--question", QUERY, "--response", "48213", "--by", "document")
    assert run(*args, *options, "--out", str(tmp_path / "i")).return_value == 0
    grid = load_influence(tmp_path / "i").attributions[0].readings[0].grids[0]
    assert grid.names == tuple(DOCUMENTS)


def reading(totals: list[float], whole: float, **grid: Any) -> InfluenceRecord:
    """A record of one response of one token, without any model."""
    names = tuple(grid.pop("names", [f"d{at}" for at in range(len(totals))]))
    spans = tuple((at, at + 1) for at in range(len(totals)))
    made = SpanGrid(n=0, stride=0, spans=spans, signed=tuple((value,) for value in totals),
                    unit="document", names=names, characters=spans, **grid)  # fmt: skip
    all_of_it = SpanGrid(n=9, stride=9, spans=((0, len(totals)),), signed=((whole,),))
    one = Reading(lam=1, temperature=1, sampled=False, text="y", token_ids=(1,), tokens=("y",),
                  log_p=(0.0,), prior_log_p=(-whole,), pmi=(whole,), tolerance=1e-6,
                  grids=(made, all_of_it))  # fmt: skip
    found = Attribution(context="x" * len(totals), query="", bounds=(0, 1), readings=(one,))
    return InfluenceRecord(model="m", settings={}, attributions=(found,), expected=(),
                           provenance={})  # fmt: skip


@pytest.mark.parametrize(
    ("record", "outcome", "said"),
    [
        (reading([6, 4], 10), "violation", "'d0' in the influence .* is 0.600, which is above"),
        (reading([5, 5], 10), "passed", "is 0.500, which is at most"),
        (reading([0.1, 0.1], 10), "inconclusive", "as it does when a part occurs twice; use --m"),
        (reading([5, 5], 10, names=["a", "a"]), "violation", "'a' .* is 1.000"),
        (reading([1e-7, 0], 10), "inconclusive", "there is nothing to share"),
        (reading([6, 4], 10, method="shapley", share_errors=(0.2, 0.2), parts=999), "inconclusive",
         r"0.600 \(0.208 to 0.992\), which is not clearly on either side of .* Raise --sets"),
        (reading([6, 4], 10, method="shapley", share_errors=(0.02, 0.02), parts=9), "violation",
         "which is above"),
    ],
)  # fmt: skip
def test_what_a_limit_says(record: InfluenceRecord, outcome: str, said: str) -> None:
    found = limit_shares(record, 0.5).share_limit
    assert found is not None
    assert found.outcome == outcome
    assert re.search(said, found.sentence), found.sentence


def test_mistakes_get_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no context has a source 'no'"):
        limit_shares(reading([6, 4], 10), 0.5, "no")
    with pytest.raises(UsageError, match='sources, and by="document" needs at least two'):
        leakbound.influence("a b", "q", by="document")
    with pytest.raises(UsageError, match="nothing was measured by unit"):
        limit_shares(load_influence(Path(__file__).parent / "golden/influence-2.json"), 0.5)
    with pytest.raises(DataError, match="the document 'b' is blank"):
        case_of_documents([("a", "x"), ("b", " ")])
    with pytest.raises(UsageError, match="'shapley' ablates sets of units of the text, and none"):
        leakbound.influence("a b", "q", max_share=0.5)
    done = run("--text", "a", "--source", "x")
    assert "give --max-share as well" in str(done.exception)
