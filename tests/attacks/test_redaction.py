"""What is kept of answers: words of the canary, and nothing that tells of another row."""

from __future__ import annotations

import re
import unicodedata

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from leakbound.attacks import QUERIES, SCORES, DocumentAttack
from leakbound.attacks.protocols import RenderedQuery
from leakbound.attacks.retrieval import DocumentQuery
from leakbound.attacks.words import BLOT, words_of
from leakbound.tasks import Example, Outputs, Query, Task

DOCUMENTS = sorted(name for name, kind in QUERIES.items() if issubclass(kind, DocumentAttack))
HINDI = "रोगी को मधुमेह की बीमारी है और वह आज अस्पताल में भर्ती हुआ था जहाँ डॉक्टर मिले"
ROW = "Mallory 🇮🇱 ❤️ (555) 123 $ “quoted” हिन्दी ि zero\u200bwidth e\u0301tude \U000e0061"
CANARY = "The grey owl's keeper, born 1931, wrote to every harbour master about lanterns " + HINDI
PARTS = [
    *CANARY.split(), *ROW.split(), "yes", "No,", "no", "I", "!!", "\n", "İstanbul", "i̇stanbul",
    "ᾳ", "α\u0345", "\u0345x", "x█", "█", "██", "STRASSE", "straße", "_", "\u00a0", "\u241e",
]  # fmt: skip
TEXTS = st.lists(st.one_of(st.sampled_from(PARTS), st.text(max_size=4)), max_size=14).flatmap(
    lambda parts: st.lists(
        st.sampled_from([" ", " ", " ", "", ", ", "\n"]),
        min_size=len(parts), max_size=len(parts),
    ).map(lambda gaps: "".join(a + b for a, b in zip(parts, gaps, strict=True)))
)  # fmt: skip


def outputs(text: str) -> Outputs:
    return Outputs(np.zeros(1, int), choices=(text,))


def score(name: str, text: str, asked: RenderedQuery) -> float:
    return float(SCORES[name]().score(outputs(text), asked, ())[0])


def about(query: str, document: str = CANARY) -> DocumentQuery:
    asked = QUERIES[query]().render(Example(document, ""), Task("notes"), "", "")
    assert isinstance(asked, DocumentQuery)
    return asked


@pytest.mark.slow
@pytest.mark.parametrize("query", DOCUMENTS)
@settings(max_examples=40)
@given(replies=st.lists(TEXTS, min_size=6, max_size=6))
def test_a_document_score_reads_all_of_a_reply_in_what_is_kept(
    query: str, replies: list[str]
) -> None:
    asked = about(query)
    whole = asked.query.joined(replies[: asked.query.calls])
    assert asked.evaluate(asked.kept(whole)) == asked.evaluate(whole)


@settings(max_examples=40)
@example(before='{"note": "', target="of Ann Doe", after='."}', held=True)
@given(before=TEXTS, target=TEXTS, after=TEXTS, held=st.booleans())
def test_a_score_of_the_canary_reads_all_of_an_answer_in_what_is_kept(
    before: str, target: str, after: str, held: bool
) -> None:
    """A canary in quotation marks was cut at both ends, so that no score found it again."""
    if not target.split():
        return
    asked = RenderedQuery(Query("-", free=True), "", None, target)
    whole = before + (target.upper() if held else "") + after
    kept = asked.kept(whole)
    assert score("contains_canary", kept, asked) == score("contains_canary", whole, asked)
    if " " in target.strip():
        assert score("overlap", kept, asked) == score("overlap", whole, asked)


@pytest.mark.parametrize("query", [*DOCUMENTS, ""])
def test_no_mark_symbol_or_length_of_another_row_is_kept(query: str) -> None:
    """Emoji, vowel signs and the length of each word stood in trials.sqlite."""
    asked = about(query) if query else RenderedQuery(Query("-", free=True), "", None, CANARY)
    kept = asked.kept(f"keeper, {ROW} every").replace("\u241e", "")  # between replies
    own = set(CANARY)
    assert not [
        c for c in kept if c not in own and c != BLOT and unicodedata.category(c)[0] in "LMNSC"
    ]
    assert kept.count(BLOT) <= 2
    assert len(kept) < 20


def test_words_with_vowel_signs_are_whole_and_kept() -> None:
    """Of a Hindi word only its vowel signs stood apart, so that it never was a known one."""
    asked = about("s2", HINDI)
    kept = asked.kept(f"उसे {HINDI} है")
    assert set(HINDI.split()[8:]) <= set(re.split(rf"[ {BLOT}]+", kept))
    assert words_of("मधुमेह की") == ["मधुमेह", "की"]
    assert about("mba", HINDI).query.calls == 1
