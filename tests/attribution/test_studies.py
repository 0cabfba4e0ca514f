"""The factor studies: their settings, their statistics by hand, and the command with real judges
over the bundled notes.
"""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats

pytest.importorskip("torch")
pytest.importorskip("rouge_score")
import torch
import transformers
from leakbound_lab.studies.bundled import notes
from leakbound_lab.studies.page import study_page, study_table
from leakbound_lab.studies.record import StudyRecord, study_csv
from leakbound_lab.studies.run import STUDIES, Run, run_study, runs_of, truncate
from leakbound_lab.studies.utility import Judges
from leakbound_lab.verbs.influence_study import command
from tokenizers.pre_tokenizers import ByteLevel

from leakbound.attribution import Case, InfluenceRecord, InfluenceSettings, attribute, load_cases
from leakbound.errors import LeakboundError, TargetError, UsageError
from leakbound.models import Model, Scripted

pytestmark = pytest.mark.torch

SHORT = InfluenceSettings(max_tokens=8, temperature=0.8)


def made(
    name: str, pocket: Model, values: tuple[float, ...] = (), cases: list[Case] | None = None
) -> tuple[StudyRecord, list[InfluenceRecord]]:
    cases, records = cases or notes(3), []

    def attributed(run: Run) -> InfluenceRecord:
        records.append(
            attribute(
                truncate(cases, run.tokens, pocket, run.settings.template), pocket, run.settings
            )
        )
        return records[-1]

    return run_study(
        name, runs_of(name, ["pocket"], SHORT, values), cases, attributed, Judges()
    ), records


def test_what_a_study_changes() -> None:
    assert [run.settings.lams for run in runs_of("lambda", ["pocket"], SHORT)] == [
        (0.5,),
        (1.0,),
        (1.5,),
    ]
    assert [
        run.settings.temperature for run in runs_of("temperature", ["pocket"], SHORT, (0.5, 2))
    ] == [0.5, 2]
    assert [run.tokens for run in runs_of("context-size", ["pocket"], SHORT, (16, 32))] == [16, 32]
    assert [run.model for run in runs_of("models", ["pocket", "hf/./b"], SHORT)] == [
        "pocket",
        "hf/./b",
    ]
    (run,) = runs_of("span-position", ["pocket"], SHORT)
    assert run.settings.ngrams == (4, 8, 32, 128)
    for name in STUDIES:
        assert all(run.settings.seed == SHORT.seed for run in runs_of(name, ["pocket"], SHORT))


@pytest.mark.slow
def test_means_and_intervals_by_hand(pocket: Model) -> None:
    study, records = made("lambda", pocket, (0.0, 1.0))
    assert (study.rows[0].influence.mean, study.rows[0].influence.high) == (0, 0)
    totals = [float(one.readings[0].grids[-1].totals[0]) for one in records[1].attributions]
    low, high = stats.t.interval(0.95, 2, np.mean(totals), stats.sem(totals))
    row = study.rows[1]
    assert (row.influence.mean, row.influence.high) == (
        pytest.approx(np.mean(totals)),
        pytest.approx(high),
    )
    assert row.influence.low == pytest.approx(max(0, low))
    assert row.utility is not None
    assert row.utility.rouge_l is not None
    assert 0 < row.utility.rouge_l.mean <= row.utility.rouge_l.high <= 1


@pytest.mark.slow
def test_response_positions_add_up_to_the_influence(pocket: Model) -> None:
    study, records = made("response-position", pocket)
    whole, *positions = study.rows
    taus = [one.readings[0].grids[-1].absolute[0] for one in records[0].attributions]
    assert [row.influence.count for row in positions] == [
        sum(len(t) > at for t in taus) for at in range(max(map(len, taus)))
    ]
    total = sum(row.influence.mean * row.influence.count for row in positions)
    assert total == pytest.approx(whole.influence.mean * 3)
    assert all(row.utility is None for row in positions)


@pytest.mark.slow
def test_span_positions_are_those_of_whole_spans(pocket: Model) -> None:
    study, records = made("span-position", pocket, (32, 128))
    rows = {row.setting: row for row in study.rows}
    ones = [one.readings[0] for one in records[0].attributions]
    third = [float(reading.grids[0].totals[2]) for reading in ones]
    row = rows["n = 32, span 3"]
    assert (row.x, row.line, row.influence.count) == (65, "n = 32", 3)
    assert row.influence.mean == pytest.approx(np.mean(third))
    lengths = [reading.grids[-1].n for reading in ones]
    for n in (32, 128):
        counts = [row.influence.count for row in study.rows if row.line == f"n = {n}"]
        assert counts == [
            sum(length // n > at for length in lengths) for at in range(max(lengths) // n)
        ]


def test_contexts_are_cut_where_a_token_ends(pocket: Any) -> None:
    cases = notes(2)
    short = truncate(cases, 20, pocket, SHORT.template)
    for case, cut in zip(cases, short, strict=True):
        assert case.context.startswith(cut.context)
        assert abs(len(pocket.encode_response(cut.context)) - 20) <= 2
        assert cut.reference == case.reference
    assert truncate(cases, 10**6, pocket, SHORT.template) == cases
    with pytest.raises(TargetError, match="influence takes spans out of the token ids"):
        truncate(cases, 4, Scripted(complete=lambda prompt: "x", name="plain"), SHORT.template)


def test_a_response_that_ends_at_once_has_no_influence(pocket: Any) -> None:
    others = tuple(i for i in range(pocket.model.config.vocab_size) if i not in pocket.end_ids())
    settings = InfluenceSettings(ngrams=(8,), banned=others, bounded=4.0)
    record = attribute([Case("a dog slept here", "What?")], pocket, settings)
    (reading,) = record.attributions[0].readings
    assert (reading.text, reading.lams) == ("", ())
    assert [float(grid.totals.max()) for grid in reading.grids] == [0, 0]
    assert record.expected[0].mean == 0


def save(folder: Path, kind: Any) -> str:
    """A RoBERTa of 16 dimensions and random weights, whose tokens are bytes."""
    torch.manual_seed(3)
    marks = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *sorted(ByteLevel.alphabet())]
    config = transformers.RobertaConfig(
        vocab_size=len(marks), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=130, pad_token_id=1, bos_token_id=0,
        eos_token_id=2, num_labels=2,
    )  # fmt: skip
    kind.from_config(config).save_pretrained(folder)
    transformers.RobertaTokenizer(
        vocab={mark: i for i, mark in enumerate(marks)}, merges=[]
    ).save_pretrained(folder)
    return str(folder)


@pytest.mark.slow
def test_the_command_fills_every_column(tmp_path: Path) -> None:
    pytest.importorskip("bert_score")
    judges = ["--bertscore-model", save(tmp_path / "encoder", transformers.AutoModel),
              "--factkb-model", save(tmp_path / "classifier",
                                     transformers.AutoModelForSequenceClassification)]  # fmt: skip
    args = [
        "lambda",
        "--values",
        "0.5,1.5",
        "--contexts",
        "3",
        "--max-tokens",
        "8",
        *judges,
        "--out",
        str(tmp_path / "o"),
    ]
    done = CliRunner().invoke(command, args, standalone_mode=False)
    assert done.exit_code == 0, done.output
    assert {path.name for path in (tmp_path / "o").iterdir()} == {
        "study.html",
        "study.csv",
        "study.json",
    }
    assert all(path.stat().st_mode & 0o77 == 0 for path in (tmp_path / "o").iterdir())
    rows = list(csv.DictReader(io.StringIO((tmp_path / "o" / "study.csv").read_text())))
    assert [row["setting"] for row in rows] == ["λ = 0.5", "λ = 1.5"]
    for row in rows:
        assert all(
            0 <= float(row[f"{name}_mean"]) <= 1 for name in ("rouge_l", "bertscore", "factkb")
        )
        assert (
            float(row["influence_low"])
            <= float(row["influence_mean"])
            <= float(row["influence_high"])
        )
        assert row["repeat_text"].isdigit()
    assert "say nothing of bigger models" in done.output
    page = (tmp_path / "o" / "study.html").read_text()
    assert page.count("<svg") == 4  # influence, ROUGE-L, BERTScore, FactKB
    assert "say nothing of bigger models" in page
    assert "not measured" not in page
    written = "".join(path.read_text() for path in (tmp_path / "o").iterdir())
    assert not any(case.reference in written for case in notes(3))
    assert (
        StudyRecord.model_validate_json((tmp_path / "o" / "study.json").read_text()).contexts == 3
    )


def test_what_is_not_measured_says_why(pocket: Model) -> None:
    study, _ = made("models", pocket, cases=[Case("A dog slept.", "Who slept?")])
    assert set(study.not_measured) == {"ROUGE-L", "BERTScore", "FactKB"}
    for shown in (study_table(study), study_page(study)):
        assert (
            "BERTScore was not measured: it needs an encoder; name its folder with "
            "--bertscore-model." in shown
        )
        assert "no context has a reference" in shown
        assert "one context, no interval" in shown
    (row,) = csv.DictReader(io.StringIO(study_csv(study)))
    assert row["factkb_mean"] == "not measured"


@pytest.mark.slow
def test_the_page_asks_nothing_of_the_network_and_escapes(pocket: Model) -> None:
    study, _ = made("lambda", pocket, (1.0,))
    page = study_page(
        study.model_copy(update={"models": ("<b>x",), "notes": ("<b>no</b>",), "factor": "<i>"})
    )
    assert not [u for u in re.findall(r"(?:https?:)?//[^\s\"'<>]+", page) if "www.w3.org" not in u]
    assert "<script" not in page
    assert "<b>x" not in page
    assert "<b>no" not in page
    assert study_page(study) == study_page(study)


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
def test_cases_come_from_files_with_the_usual_names(suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"data{suffix}"
    row = {"document": 'a "b",\u2028c', "question": "q?", "summary": "s"}
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, row, lineterminator="\n")
    writer.writeheader()
    writer.writerow(row)
    file.write_text(
        buffer.getvalue() if suffix == ".csv" else json.dumps(row, ensure_ascii=False) + "\n"
    )
    assert load_cases(file, "other?", None) == [Case(row["document"], "q?", None, "s")]


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["lamda"], "Did you mean 'lambda'"),
        (["lambda", "--model", "pocket,hf/./b"], "takes one model, and got 2"),
        (["models", "--values", "1"], "takes no --values"),
        (["context-size", "--values", "0"], "whole numbers of tokens"),
        (["span-position", "--values", "4.5"], "whole numbers of tokens"),
        (["lambda", "--values", "-1"], "lambda is -1"),
        (["temperature", "--values", "0"], "temperature is 0"),
        (["lambda", "--context", "none.jsonl"], "cannot be read"),
        (["lambda", "--context", "empty.csv"], "holds no row"),
        (["lambda", "--factkb-model", "./none"], "does not exist"),
        (["lambda", "--model", "hf/./none"], "does not exist"),
        (["lambda", "--model", ","], "--model is empty"),
    ],
)
def test_mistakes_end_in_a_sentence(
    args: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.csv").write_text("context,query\n")
    done = CliRunner().invoke(command, args, standalone_mode=False)
    assert isinstance(done.exception, LeakboundError), done.output
    assert sentence in str(done.exception)


def test_values_must_serve(pocket: Model) -> None:
    with pytest.raises(UsageError, match="is not known"):
        runs_of("nothing", ["pocket"], SHORT)
