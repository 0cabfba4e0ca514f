"""Answers of models are read robustly, and what cannot be read is its own outcome."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakbound.tasks import parse_answer

LABELS = ("yes", "no")


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("yes", 0), (" Yes.", 0), ("NO", 1), ('"no"', 1), ("**Yes**", 0), ("Answer: no", 1),
        ("The answer is yes!", 0), ("yes, it does", 0), ("nothing to say", 2), ("", 2),
        ("I cannot answer that.", 2), ("either yes or no", 2), ("Sure - yes", 0), ("nope", 2),
        ("ｙｅｓ", 0),
    ],
)  # fmt: skip
def test_yes_no(text: str, index: int) -> None:
    assert parse_answer(text, LABELS) == index


def test_the_longest_label_wins() -> None:
    assert parse_answer("not_sarcastic", ("sarcastic", "not_sarcastic")) == 1
    assert parse_answer("Sci/Tech news", ("World", "Sci", "Sci/Tech")) == 2


@given(
    st.lists(
        st.text("abcXYZ", min_size=1, max_size=6), min_size=1, max_size=5, unique_by=str.casefold
    ),
    st.data(),
)
def test_every_label_reads_as_itself(labels: list[str], data: st.DataObject) -> None:
    i = data.draw(st.integers(0, len(labels) - 1))
    shown = data.draw(st.sampled_from(["{}", " {}", "{}.", '"{}"', "{}\n", "  {}!"]))
    assert parse_answer(shown.format(labels[i]), labels) == i


@given(st.text())
def test_it_never_fails(text: str) -> None:
    assert 0 <= parse_answer(text, LABELS) <= 2
