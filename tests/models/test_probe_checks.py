"""The checks of `probe` as laws, the replies that they read, and local models."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakbound.errors import TargetError, UsageError
from leakbound.models import NextLogits, ScoreTokens, Scripted
from leakbound.models.probe import capabilities_of, probe_model
from leakbound.models.probe.replies import (
    ScoredText,
    Token,
    alignment,
    broken_law,
    largest_change,
    parse_chat,
    parse_completion,
    parse_prompt,
)

# --- laws of the checks

values = st.floats(-12, -0.01)


def spoken(rows: list[list[float]], texts: str = "abcdefghij") -> ScoredText:
    """Tokens a, b, c... whose alternatives v, w, x, y have the given ln p, the token's own being
    the last.
    """
    return ScoredText("", tuple(
        Token(text, row[-1], {"v": row[0], "w": row[1], "x": row[2], text: row[-1]}) for text,
        row in zip(texts, rows, strict=False)
    ))  # fmt: skip


rows_of_values = st.lists(st.lists(values, min_size=4, max_size=4), min_size=5, max_size=10)


@given(rows_of_values)
def test_an_echo_of_itself_is_never_called_shifted(rows: list[list[float]]) -> None:
    said = spoken(rows)
    found = alignment(said, said, 0.0)
    assert found.place in ("aligned", "unclear")
    assert found.gap == 0


@given(rows_of_values, st.integers(0, 1))
@settings(max_examples=200)
def test_an_echo_of_the_neighbours_is_never_called_aligned(
    rows: list[list[float]], early: int
) -> None:
    """Unless the neighbours' values are its own."""
    moved = rows[1:] + rows[:1] if early else rows[-1:] + rows[:-1]
    found = alignment(spoken(rows), spoken(moved), 0.0)
    differs = max(abs(a[-1] - b[-1]) for a, b in zip(rows, moved, strict=True)) > 0.1
    assert found.place != "aligned" or not differs


def test_a_shift_is_named_by_its_direction() -> None:
    rows = [[-1.0 - i, -2.0 - 0.5 * i, -3.0 + 0.2 * i, -0.4 - 0.7 * i] for i in range(8)]
    assert alignment(spoken(rows), spoken(rows[1:]), 0.0).place == "early"
    assert alignment(spoken(rows), spoken([[-9.0] * 4, *rows[:-1]]), 0.0).place == "late"
    assert (
        alignment(spoken(rows), spoken([[-9.0, -8.0, -7.0, -6.0 - i] for i in range(8)]), 0.0).place
        == "elsewhere"
    )


def test_too_few_tokens_and_too_much_noise_decide_nothing() -> None:
    rows = [[-1.0 - i, -2.0, -3.0, -0.5 - i] for i in range(8)]
    assert alignment(spoken(rows), spoken(rows, "abxxxxxx"), 0.0).place == "unclear"
    assert alignment(spoken(rows), spoken(rows), 0.5).place == "unclear"
    flat = [[-1.0, -2.0, -3.0, -0.5]] * 8
    assert alignment(spoken(flat), spoken(flat), 0.0).place == "unclear"


@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=9), st.floats(0.1, 1))
def test_probabilities_keep_the_laws_and_other_scales_break_them(
    weights: list[float], share: float
) -> None:
    top = {str(i): math.log(share * weight / sum(weights)) for i, weight in enumerate(weights)}
    assert broken_law([Token("0", top["0"], top)]) is None
    assert broken_law([Token("0", top["0"] - 0.01, top)]) is not None
    probabilities = {name: math.exp(value) for name, value in top.items()}
    assert broken_law([Token("0", probabilities["0"], probabilities)]) is not None


def test_other_bases_and_values_that_are_none_break_the_laws() -> None:
    tenth = {"a": math.log10(0.6), "b": math.log10(0.3)}
    assert "sum to" in str(broken_law([Token("a", tenth["a"], tenth)]))
    assert "finite" in str(broken_law([Token("a", math.nan, {})]))
    assert "above 0" in str(broken_law([Token("a", 0.5, {})]))


def test_changes_are_read_up_to_the_first_other_token() -> None:
    rows = [[-1.0, -2.0, -3.0, -0.5]] * 4
    other = [[-1.0, -2.0, -3.25, -0.5], *rows[1:]]
    assert largest_change(spoken(rows), spoken(rows)) == 0
    assert largest_change(spoken(rows), spoken(other)) == 0.25
    assert largest_change(ScoredText("a"), ScoredText("a")) is None


def test_replies_of_other_shapes_are_none_or_a_text() -> None:
    assert parse_completion({"text": "a", "logprobs": None}) == ScoredText("a")
    assert (
        parse_completion({"text": "a", "logprobs": {"tokens": ["a"], "token_logprobs": []}}) is None
    )
    assert parse_completion("a") is None
    assert parse_chat({"message": {"content": None}}) == ScoredText("")
    assert (
        parse_chat({"message": {"content": "a"}, "logprobs": {"content": [{"token": "a"}]}}) is None
    )
    assert parse_prompt({"prompt_logprobs": [None, 3]}) is None
    assert parse_prompt({"text": "a"}) is None


# --- local models


def test_the_pocket_model_supports_what_it_says(pocket: Any) -> None:
    record = probe_model(pocket, "pocket")
    assert all(finding.holds for finding in record.findings)
    assert set(record.supports) == {kind.__name__ for kind in pocket.supports}
    with pytest.raises(UsageError, match="is not an endpoint"):
        capabilities_of(record)


def test_a_local_model_is_found_out() -> None:
    counter = iter(range(100))
    record = probe_model(
        Scripted(complete=lambda prompt: str(next(counter)), token_scores=lambda p, r: [0.5]),
        "scripted",
    )
    assert record.finding("repeats").holds is False
    assert record.finding("seed").holds is False
    assert record.finding("logprobs_valid").holds is False
    assert record.finding("vocabulary").holds is False
    still = probe_model(Scripted(complete=lambda prompt: "yes"), "still")
    assert still.finding("temperature").holds is False
    with pytest.raises(TargetError, match="answers no kind"):
        probe_model(Scripted(), "mute")


def test_scores_that_are_not_those_of_the_logits_are_found_out(pocket: Any) -> None:
    def logits(prompt: Any, response: Any) -> Any:
        return pocket.answer([NextLogits(prompt, response)])[0]

    def scores(prompt: Any, response: Any) -> Any:
        return pocket.answer([ScoreTokens(prompt, response)])[0]

    own = Scripted(token_scores=scores, next_logits=logits)
    assert probe_model(own, "own").holds("echo_aligned")
    above = Scripted(token_scores=lambda p, r: 0 * scores(p, r), next_logits=logits)
    assert probe_model(above, "above").finding("echo_aligned").holds is False
