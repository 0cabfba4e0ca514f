"""Audits of logs: who was quoted, and is it more than chance?"""

from __future__ import annotations

import json
import random
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import leakbound
from leakbound.auditing.logs import load_outputs, longest_passages, words_of
from leakbound.cli import main
from leakbound.errors import DataError, UsageError
from leakbound.stats.counts.two_samples import (
    benjamini_hochberg,
    conformal_p_values,
    excess_test,
    smallest_excess,
)

WORDS = [f"w{i}" for i in range(60)]


def notes(number: int, seed: int, words: int = 12) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=words)) for _ in range(number)]


def slow_length(record: list[str], others: list[list[str]], outputs: list[list[str]]) -> int:
    """By trying every passage."""

    def holds(text: list[str], passage: list[str]) -> bool:
        size = len(passage)
        return any(text[at : at + size] == passage for at in range(len(text) - size + 1))

    passages = (
        record[at : at + size]
        for size in range(len(record), 0, -1)
        for at in range(len(record) - size + 1)
    )
    found = (
        len(one)
        for one in passages
        if any(holds(text, one) for text in outputs) and not any(holds(r, one) for r in others)
    )
    return next(found, 0)


texts = st.lists(st.lists(st.sampled_from("abcd"), max_size=6), min_size=1, max_size=5)


@given(texts, texts)
@settings(max_examples=150, deadline=None)
def test_longest_passages_are_those_of_a_plain_search(
    records: list[list[str]], outputs: list[list[str]]
) -> None:
    found = longest_passages([[" ".join(one)] for one in records], map(" ".join, outputs))
    for at, (passage, record) in enumerate(zip(found, records, strict=True)):
        others = records[:at] + records[at + 1 :]
        assert len(passage) == slow_length(record, others, outputs)
        shown = " ".join(passage.words)
        assert not passage.words or any(f" {shown} " in f" {' '.join(one)} " for one in outputs)


def test_passages_do_not_run_across_fields_and_outputs() -> None:
    (found,) = longest_passages([["a b", "c d"]], ["x a b", "c d y", "b c"])
    assert len(found) == 2
    assert words_of("東京 Tower-3") == ["東", "京", "tower", "3"]


def test_the_error_is_as_stated_under_exchangeable_records() -> None:
    """At 5 %, of 400 tests without a disclosure more than 45 reject with probability below 1e-6."""
    rng = np.random.default_rng(7)
    p_values = []
    for seed in range(400):
        values = rng.geometric(0.4, size=60)
        p_values.append(excess_test(values[:25], values[25:], seed=seed, draws=199).p_value)
    assert sum(p <= 0.05 for p in p_values) <= 45
    assert min(p_values) >= 1 / 200


def test_false_findings_are_few() -> None:
    """The mean share of wrong findings over 300 data sets; above .1 with probability below 1e-6."""
    rng = np.random.default_rng(3)
    shares = []
    for _ in range(300):
        leaked, rest, held = (rng.normal(m, 1, n) for m, n in ((6, 10), (0, 40), (0, 200)))
        found = benjamini_hochberg(conformal_p_values([*leaked, *rest], held), 0.05)
        shares.append(found[10:].sum() / max(1, found.sum()))
    assert np.mean(shares) <= 0.1


def test_a_few_quoted_rows_are_found_and_named() -> None:
    rows = notes(300, seed=1)
    used, held_out = rows[:150], rows[150:]
    said = [*notes(100, seed=2), f"As the note says: {used[3].upper()}!", used[90], used[3]]
    said += [f"see {one}" for one in used[100:112]]
    found = leakbound.audit_log(used, held_out, said)
    assert found.verdict == "disclosure"
    assert {one.record for one in found.disclosed} >= {4, 91, *range(101, 113)}
    assert next(one for one in found.disclosed if one.record == 4).outputs == (101, 103)
    assert not any(one.passage for one in found.disclosed)
    told = leakbound.audit_log(used, held_out, said, show=True)
    assert {used[3], used[90]} <= {one.passage for one in told.disclosed}
    assert used[3] not in repr(found)


def test_what_everybody_says_is_no_disclosure() -> None:
    """Boilerplate that stands in all rows, and an output that quotes held-out rows as well."""
    rows = [f"Dear customer, your request number {i} was received" for i in range(200)]
    said = ["Dear customer, your request number was received"] * 40
    found = leakbound.audit_log(rows[:100], rows[100:], said)
    assert (found.verdict, found.disclosed) == ("no_disclosure_shown", ())
    rows = notes(200, seed=5)
    both = leakbound.audit_log(rows[:100], rows[100:], [*rows[50:150]])
    assert both.verdict == "no_disclosure_shown"


def test_too_few_rows_are_inconclusive() -> None:
    rows = notes(6, seed=1)
    found = leakbound.audit_log(rows[:2], rows[2:4], rows[:2])
    assert (found.verdict, found.smallest) == ("inconclusive", None)
    enough = smallest_excess([0.0] * 100, [0.0] * 100, level=0.05)
    assert enough is not None
    assert excess_test([1.0] * enough + [0.0] * (100 - enough), [0.0] * 100).p_value <= 0.05
    assert excess_test([1.0] * (enough - 1) + [0.0] * (101 - enough), [0.0] * 100).p_value > 0.05


def written(folder: Path, **files: list[dict[str, object]]) -> list[str]:
    for name, rows in files.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return ["audit-log", "--data", str(folder / "used.jsonl"), "--held-out",
            str(folder / "held.jsonl"), "--outputs", str(folder / "said.jsonl")]  # fmt: skip


@pytest.mark.parametrize(
    ("quoted", "code", "says"), [(30, 1, "DISCLOSURE"), (0, 0, "NO DISCLOSURE SHOWN")]
)
def test_the_command_ends_with_its_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], quoted: int, code: int, says: str
) -> None:
    rows = [{"input": text, "label": "x"} for text in notes(120, seed=1)]
    said = [{"prompt": "?", "answer": text} for text in notes(30, seed=4)]
    said += [{"prompt": "?", "answer": str(row["input"])} for row in rows[:quoted]]
    command = written(tmp_path, used=rows[:60], held=rows[60:], said=said)
    with pytest.raises(SystemExit) as ended:
        main(command)
    shown = capsys.readouterr().out
    assert ended.value.code == code
    assert shown.startswith(says)
    assert not any(str(row["input"]) in shown for row in rows)
    with pytest.raises(SystemExit):
        main([*command, "--json", "--show-text"])
    made = json.loads(capsys.readouterr().out)
    assert (made["exit_code"], len(made["disclosed"]) >= quoted) == (code, True)
    assert not quoted or rows[0]["input"] in [one["passage"] for one in made["disclosed"]]


def test_what_cannot_be_read_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row: list[dict[str, object]] = [{"input": "a b c"}]
    said: list[dict[str, object]] = [{"prompt": "a", "response": "b", "answer": "c"}]
    command = written(tmp_path, used=row, held=row, said=said)
    for more, sentence in (
        ([], "name it with --answer"),
        (["--answer", "other"], "has no field 'other'"),
        (["--answer", "answer.0"], "has no field 'answer.0'"),
        (["--answer", "answer", "--field", "text"], "has no field 'text'"),
        (["--answer", "answer", "--confidence", "95"], "above 0 and below 1"),
    ):
        with pytest.raises(SystemExit) as ended:
            main([*command, *more])
        assert ended.value.code == 2
        assert sentence in capsys.readouterr().err
    with pytest.raises(DataError, match="the outputs hold no words"):
        leakbound.audit_log(["a b"], ["c d"], ["..."])
    with pytest.raises(UsageError, match="confidence"):
        leakbound.audit_log(["a b"], ["c d"], ["a"], confidence=1.0)


def test_outputs_may_stand_below_fields(tmp_path: Path) -> None:
    """As logs of model servers have them; before, only fields of the first level were found."""
    log = tmp_path / "log.jsonl"
    said = [{"id": at, "response": {"choices": [{"message": {"content": f"text {at}"}}]}}
            for at in range(2)]  # fmt: skip
    log.write_text("\n".join(map(json.dumps, said)))
    assert load_outputs(log, "response.choices.0.message.content") == ["text 0", "text 1"]
    for path in ("response.choices.1.message", "response.choices.x", "response.id"):
        with pytest.raises(DataError, match="has no field"):
            load_outputs(log, path)


def test_words_that_only_used_rows_share_leave_it_open() -> None:
    """A mail and the reply that quotes it erase each other's passages, though both are used."""
    first, last = notes(60, seed=7), notes(120, seed=8)
    used = [*first, *(f"{more} {mail}" for more, mail in zip(last, first, strict=False))]
    found = leakbound.audit_log(used, notes(120, seed=9), [f"see: {one}" for one in first])
    assert found.verdict == "inconclusive"
    assert found.together >= 60
    alone = leakbound.audit_log(first, notes(60, seed=9), [f"see: {one}" for one in first])
    assert (alone.verdict, alone.together) == ("disclosure", 0)


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC"])
def test_composed_and_decomposed_characters_are_equal(form: Any) -> None:
    used = [f"Đặng ở phòng số {i} đường Lê Lợi cửa {i * 7}" for i in range(50)]
    held_out = [f"Đặng ở phòng số {i} đường Lê Lợi cửa {i * 7}" for i in range(50, 100)]
    said = [unicodedata.normalize(form, one) for one in used]
    assert leakbound.audit_log(used, held_out, said).verdict == "disclosure"
    assert words_of("STRASSE") == words_of("straße")


def test_an_output_that_is_json_is_read_without_its_escapes(tmp_path: Path) -> None:
    for text in (
        '{"to": "Lê", "n": [1, "\\u00e0 vous"]}',
        '"Lê, à vous"',
        "[Lê] à vous",
        "{Lê: à}",
    ):
        (tmp_path / "o.jsonl").write_text(json.dumps({"text": text}) + "\n")
        assert {"lê", "à"} <= {*words_of(load_outputs(tmp_path / "o.jsonl")[0])}
