"""From a note to record, exports, terminal and command line, on the pocket model."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from leakbound.attribution import (
    Case,
    InfluenceRecord,
    InfluenceSettings,
    attribute,
    context_influence,
    csv_text,
    load_influence,
    locate,
    npz_bytes,
)  # fmt: skip
from leakbound.cli.verbs.attribute.influence import command
from leakbound.errors import LeakboundError, StoreError, UsageError
from leakbound.models import Model
from leakbound.report.influence.terminal import influence_summary, print_heat

NOTE = Path(__file__).parents[2] / "examples" / "note.txt"
QUERY = "What is the door code of Marta?"
SECRET = "48213"


@pytest.fixture(scope="module")
def record(pocket: Model) -> InfluenceRecord:
    return context_influence(
        NOTE.read_text().strip(), QUERY, pocket, settings=InfluenceSettings(lams=(0.5, 1.0))
    )


@pytest.mark.slow
def test_the_secret_is_the_top_attributed_span(record: InfluenceRecord) -> None:
    one = record.attributions[0]
    for reading in one.readings:
        assert reading.text.strip() == SECRET
        single, eight, whole = reading.grids
        assert one.words(single.spans[int(single.totals.argmax())]).strip() in list(SECRET)
        assert SECRET in one.words(eight.spans[int(eight.totals.argmax())])
        assert one.words(whole.spans[0]) == one.context
        assert (whole.ex_post_privacy_losses <= whole.totals + 1e-9).all()
        np.testing.assert_allclose(
            whole.signed[0], np.subtract(reading.log_p, reading.prior_log_p), atol=1e-8
        )
        assert 0 <= reading.tolerance < 1e-3
        assert "".join(reading.tokens) == reading.text


def test_pmi_is_the_difference_of_the_models_own_law(record: InfluenceRecord) -> None:
    half, one = record.attributions[0].readings
    assert half.lam == 0.5
    np.testing.assert_allclose(half.pmi, one.pmi, atol=1e-4)
    np.testing.assert_allclose(one.pmi, one.grids[-1].signed[0], atol=1e-4)


def test_spans_map_back_to_characters(pocket: Any) -> None:
    text = "Zoë paid 48213 € — twice.\nThen  nothing."
    place = locate(pocket, Case(text, QUERY))
    assert place.parts.without() == pocket.encode(f"Document: {text}\n\nQuestion: {QUERY}\nAnswer:")
    assert (place.bounds[0], place.bounds[-1]) == (0, len(text))
    assert len(place.bounds) == len(place.parts.context) + 1
    shown = [text[a:b] for a, b in zip(place.bounds, place.bounds[1:], strict=False)]
    assert "".join(shown) == text
    assert place.parts.head[0] == 1  # the start token stays, whatever is removed
    assert pocket.text(place.parts.context).strip() == text


@pytest.mark.slow
def test_a_record_comes_back_and_equal_calls_give_equal_bytes(
    record: InfluenceRecord, pocket: Model, tmp_path: Path
) -> None:
    (tmp_path / "influence.json").write_text(record.to_json())
    assert load_influence(tmp_path) == record
    assert load_influence(tmp_path).to_json() == record.to_json()
    again = context_influence(
        NOTE.read_text().strip(), QUERY, pocket, settings=InfluenceSettings(lams=(0.5, 1.0))
    )
    assert [r.text for r in again.attributions[0].readings] == [
        r.text for r in record.attributions[0].readings
    ]
    (tmp_path / "influence.json").write_text('{"schema_version": 9}')
    with pytest.raises(StoreError, match="schema version 2"):
        load_influence(tmp_path)


def test_exports_hold_every_value(record: InfluenceRecord) -> None:
    rows = list(csv.DictReader(io.StringIO(csv_text(record))))
    grids = [(r, g) for r in record.attributions[0].readings for g in r.grids]
    assert len(rows) == sum(len(g.spans) * len(r.tokens) for r, g in grids)
    total = sum(
        float(row["absolute"]) for row in rows if row["n"] == "8" and row["lambda"] == "0.5"
    )
    assert total == pytest.approx(grids[1][1].totals.sum())
    arrays = np.load(io.BytesIO(npz_bytes(record)))
    np.testing.assert_allclose(arrays["0/1/n8/signed"], grids[4][1].signed)


def test_redaction_leaves_no_letter(record: InfluenceRecord) -> None:
    hidden = record.redacted()
    for text in (hidden.to_json(), csv_text(hidden), influence_summary(hidden)):
        assert SECRET not in text
        assert "Marta" not in text
    assert hidden.attributions[0].readings[0].grids == record.attributions[0].readings[0].grids


def test_redaction_leaves_no_mark_and_no_emoji(record: InfluenceRecord) -> None:
    (first,) = record.attributions
    told = "की बीमारी 🇮🇱 ❤️ “e\u0301”\u200b, a_b."
    own = record.model_copy(
        update={"attributions": (first.model_copy(update={"context": told}),)}
    ).redacted()
    hidden = own.attributions[0].context
    assert set(hidden) == set("• ,.")
    assert [c == " " for c in hidden] == [c == " " for c in told]


def test_redaction_hides_texts_of_the_user_in_settings(record: InfluenceRecord) -> None:
    """A system message may say whom it serves."""
    own = record.model_copy(update={"settings": record.settings | {"system": "You serve Marta."}})
    assert "Marta" not in json.dumps(own.redacted().settings)
    assert record.redacted().settings == record.settings


def test_the_terminal_marks_the_top_attributed_piece(record: InfluenceRecord) -> None:
    out = io.StringIO()
    print_heat(record, file=out)
    assert "»" in out.getvalue()
    assert "The door code of Marta is" in out.getvalue().replace("»", "").replace("«", "")
    assert "top-attributed" in influence_summary(record)


def test_expected_influence_over_a_data_set(pocket: Model) -> None:
    text = NOTE.read_text().strip()
    cases = [Case(text.replace(SECRET, code), QUERY, code) for code in ("48213", "7306", "9152")]
    found = attribute(cases, pocket, InfluenceSettings(ngrams=(8,), lams=(1.0, 0.0)))
    by = {(e.lam, e.of): e for e in found.expected}
    whole = [one.readings[0].grids[-1].totals[0] for one in found.attributions]
    assert by[1.0, "context"].mean == pytest.approx(np.mean(whole))
    assert by[1.0, "context"].low < by[1.0, "context"].mean < by[1.0, "context"].high
    assert by[0.0, "context"].mean == by[0.0, "context"].high == 0
    assert {e.contexts for e in found.expected} == {3}


@pytest.mark.slow
def test_the_command_writes_all_files_and_finds_the_secret(tmp_path: Path) -> None:
    args = [
        "--model",
        "pocket",
        "--context",
        str(NOTE),
        "--question",
        QUERY,
        "--ngram",
        "1,8",
        "--out",
        str(tmp_path / "o"),
        "-v",
    ]
    done = CliRunner().invoke(command, args, standalone_mode=False)
    assert done.exit_code == 0, done.output
    files = {path.suffix: path for path in (tmp_path / "o").iterdir()}
    assert set(files) == {".html", ".json", ".csv", ".npz"}
    assert all(path.stat().st_mode & 0o77 == 0 for path in files.values())
    assert "n = 8: top-attributed '48213" in done.output
    assert json.loads(files[".json"].read_text())["schema_version"] == 2


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ([], "give the context once"),
        (["--text", "a", "--ngram", "x"], "must be numbers"),
        (["--text", "a", "--ngram", "0"], "at least 1 token"),
        (["--text", "", "--question", "q"], "has no token"),
        (["--text", "a", "--lam", "-1"], "between 0 and"),
        (["--text", "a", "--template", "none"], "must hold {context} once"),
        (["--context", "missing.txt"], "cannot be read"),
        (["--context", "bad.jsonl"], "line 1 of"),
    ],
)
def test_mistakes_end_in_a_sentence(
    args: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.jsonl").write_text("[1]\n")
    done = CliRunner().invoke(command, args, standalone_mode=False)
    assert isinstance(done.exception, LeakboundError)
    assert sentence in str(done.exception)


def test_the_whole_context_needs_company(pocket: Model) -> None:
    with pytest.raises(UsageError, match="no context"):
        attribute([], pocket, InfluenceSettings())


@pytest.mark.slow
def test_many_contexts_from_a_file_redacted(tmp_path: Path) -> None:
    file, out = tmp_path / "many.jsonl", tmp_path / "out"
    rows = [
        {"context": "The door code of Marta is 48213.", "response": "48213"},
        {"context": "A dog slept.", "query": "Who?"},
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    args = [
        "--context",
        str(file),
        "--question",
        QUERY,
        "--ngram",
        "2",
        "--lam",
        "0.5,1",
        "--redact",
        "--out",
        str(out),
        "-v",
    ]
    done = CliRunner().invoke(command, args, standalone_mode=False)
    assert done.exit_code == 0, done.output
    assert "Expected influence over 2 contexts" in done.output
    written = b"".join(path.read_bytes() for path in out.iterdir())
    assert not any(
        word in written + done.output.encode() for word in (b"48213", b"Marta", b"slept")
    )
    found = load_influence(out)
    assert [r.sampled for one in found.attributions for r in one.readings] == [
        False,
        False,
        True,
        True,
    ]


def test_what_does_not_fit_the_window_is_refused_before_any_pass(pocket: Model) -> None:
    with pytest.raises(LeakboundError, match="the window of pocket"):
        attribute(
            [Case("a b", "q", "c"), Case("dog " * 2100, "q", "c")], pocket, InfluenceSettings()
        )
