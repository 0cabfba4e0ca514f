"""Units of a context: exact characters, the tokens that hold them, and their influence."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import leakbound
from leakbound.attribution import Case, InfluenceSettings, attribute, locate
from leakbound.attribution.spans import UnitKind, find_units, unit_spans
from leakbound.errors import UsageError
from leakbound.models import Model

NOTE = (Path(__file__).parents[2] / "examples" / "note.txt").read_text().strip()
QUERY = "What is the door code of Marta?"
TEXT = """Dr. A. Ash paid $3.5 to Mr. Lee, e.g. in "cash." Then he left! "Why?" he asks. See fig. 3.

1. First item. The answer is no. It ends
here 今日は。明日も！ The code is 48213. A dog slept (twice)."""


def pieces(text: str, kind: str, sources: Any = ()) -> list[str]:
    units = find_units(text, UnitKind.parse(kind), sources)
    return [text[slice(*unit.characters)] for unit in units]


def test_sentences_end_where_a_reader_ends_them() -> None:
    assert pieces(TEXT, "sentence") == [
        'Dr. A. Ash paid $3.5 to Mr. Lee, e.g. in "cash."', "Then he left!", '"Why?" he asks.',
        "See fig. 3.", "1. First item.", "The answer is no.", "It ends\nhere 今日は。", "明日も！",
        "The code is 48213.", "A dog slept (twice).",
    ]  # fmt: skip


def test_lines_paragraphs_and_chunks() -> None:
    assert [len(pieces(TEXT, kind)) for kind in ("line", "paragraph")] == [3, 2]
    chunks = pieces(TEXT, "chunk:40")
    assert max(map(len, chunks)) <= 40
    assert "".join(chunks).replace(" ", "").replace("\n", "") == "".join(TEXT.split())
    assert pieces("a" * 7 + " b", "chunk:3") == ["aaa", "aaa", "a b"]  # a longer word is cut


def test_no_unit_reaches_over_two_documents() -> None:
    text = "It was late and\n\nthe code is 48213. A dog slept."
    sources = (("a", 0, 15), ("b", 17, len(text)))
    assert pieces(text, "sentence", sources) == [
        "It was late and", "the code is 48213.", "A dog slept.",
    ]  # fmt: skip
    names = [unit.name for unit in find_units(text, UnitKind("sentence"), sources)]
    assert names == ["a, sentence 1", "b, sentence 1", "b, sentence 2"]
    assert pieces(text, "document", sources) == ["It was late and", text[17:]]


@given(text=st.text(st.sampled_from("ab.!? \n\"'é今。"), min_size=1, max_size=50).filter(str.strip))
@settings(max_examples=40, deadline=None)
def test_units_cover_the_text_and_tokens_are_shared_by_none(text: str) -> None:
    bounds = [*range(0, len(text), 2), len(text)]  # tokens of two characters
    for kind in ("sentence", "line", "paragraph", "chunk:5"):
        units = find_units(text, UnitKind.parse(kind))
        shown = "".join(text[slice(*unit.characters)] for unit in units)
        assert "".join(shown.split()) == "".join(text.split())
        found = unit_spans(units, text, bounds)
        assert (found[0][1][0], found[-1][1][1]) == (0, len(bounds) - 1)
        assert all(a[1][1] == b[1][0] for a, b in pairwise(found))
        assert found[-1][0].characters[1] == units[-1].characters[1]


@pytest.mark.parametrize("name", ["word", "chunk", "chunk:0", "tokens:x", "sentence:3"])
def test_an_unknown_unit_gets_a_sentence(name: str) -> None:
    with pytest.raises(UsageError, match="it must be sentence, line, paragraph, document, m"):
        InfluenceSettings(by=(name,))


def test_the_sentence_that_holds_the_code_stands_out(pocket: Model) -> None:
    record = leakbound.influence(
        NOTE, QUERY, model=pocket, response="48213", by=("sentence", "chunk:60", "tokens:8")
    )
    one = record.attributions[0]
    grids = {grid.unit or grid.n: grid for grid in one.readings[0].grids}
    assert list(grids) == [8, "sentence", "chunk:60", one.readings[0].grids[-1].n]
    for unit in ("sentence", "chunk:60"):
        grid = grids[unit]
        top = int(grid.totals.argmax())
        assert "48213" in NOTE[slice(*grid.characters[top])]
        assert grid.totals[top] > 10 > np.delete(grid.totals, top).max()
    grid = grids["sentence"]
    assert NOTE[slice(*grid.characters[3])] == "The door code of Marta is 48213."
    assert grid.names[3] == "sentence 4"
    units = [one.unit for one in record.expected]
    assert units == ["", "", "sentence", "sentence", "chunk:60", "chunk:60", ""]


def test_a_unit_is_ablated_as_its_tokens_are(pocket: Any) -> None:
    """The same passes as for a span of the same tokens."""
    settings = InfluenceSettings(by=("sentence",), ngrams=())
    grid = attribute([Case(NOTE, QUERY, "48213")], pocket, settings)
    found = grid.attributions[0].readings[0].grids[0]
    parts = locate(pocket, Case(NOTE, QUERY)).parts
    from leakbound.attribution import TokenDistribution, measure

    ids = tuple(pocket.encode_response("48213"))
    again = measure(pocket, parts, ids, found.spans, [TokenDistribution()], False)
    np.testing.assert_allclose(found.signed, again.signed[0], atol=1e-4)
