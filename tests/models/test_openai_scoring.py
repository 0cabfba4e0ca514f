"""Log-probabilities are placed by the text that they belong to, or refused:

against a slow twin, with everything that can be wrong.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakbound.errors import TargetError
from leakbound.models.openai.replies import Fault
from leakbound.models.openai.requests import (
    PART,
    align_echo,
    align_ids,
    align_prompt,
    first_token_scores,
    log_probability,
)

TOKENS = st.lists(st.text("ab é\n", min_size=1, max_size=4), min_size=1, max_size=8)
VALUE = st.floats(-50, 0)


@given(TOKENS, TOKENS, st.booleans(), st.lists(st.text("xyz", max_size=3), max_size=2), st.data())
def test_each_token_of_the_response_gets_its_own_value(
    prompt: list[str], response: list[str], first: bool, more: list[str], data: st.DataObject
) -> None:
    tokens = ["<s>"] * first + prompt + response + more
    values: list[Any] = [None, *(data.draw(VALUE) for _ in tokens[1:])]
    begin = first + len(prompt)
    found = align_echo(tokens, values, "".join(prompt), "".join(response))
    assert np.array_equal(found, np.array(values[begin : begin + len(response)], np.float32))


@given(TOKENS, TOKENS)
def test_a_token_across_the_boundary_is_refused(prompt: list[str], response: list[str]) -> None:
    tokens = [*prompt[:-1], prompt[-1] + response[0], *response[1:]]
    with pytest.raises(TargetError, match="boundary"):
        align_echo(
            tokens, [None, *([-1.0] * (len(tokens) - 1))], "".join(prompt), "".join(response)
        )


@given(TOKENS, TOKENS, st.data())
def test_tokens_of_another_text_are_refused(
    prompt: list[str], response: list[str], data: st.DataObject
) -> None:
    tokens = ["<s>", *prompt, *response]
    tokens[data.draw(st.integers(1, len(tokens) - 1))] += "Z"
    with pytest.raises(TargetError, match=r"do not make up|boundary"):
        align_echo(tokens, [None] + [-1.0] * (len(tokens) - 1), "".join(prompt), "".join(response))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 0.5, "-1", True, [], {}])
def test_what_is_no_log_probability_is_a_fault(value: Any) -> None:
    with pytest.raises(Fault):
        log_probability(value)
    with pytest.raises(Fault):
        align_echo(["a", " b"], [None, value], "a", " b")


def test_a_response_behind_nothing_has_no_first_value() -> None:
    with pytest.raises(TargetError, match="no log-probability"):
        align_echo(["a", "b"], [None, -1.0], "", "ab")


def test_an_empty_token_within_a_response_is_refused() -> None:
    with pytest.raises(TargetError, match="boundary"):
        align_echo(["a", "", "b"], [None, -1.0, -2.0], "a", "b")


def test_lists_of_different_length_are_a_fault() -> None:
    with pytest.raises(Fault):
        align_echo(["a", "b"], [None], "a", "b")


@given(
    st.lists(st.integers(0, 99), min_size=1, max_size=6),
    st.lists(st.integers(0, 99), min_size=1, max_size=6),
)
def test_token_ids_are_found_under_their_ids(prompt: list[int], response: list[int]) -> None:
    ids = [*prompt, *response]
    entries: list[Any] = [None] + [
        {str(i): {"logprob": -float(i)}, "1000": {"logprob": 0.0}} for i in ids[1:]
    ]
    assert align_ids(entries, prompt, response).tolist() == [-float(i) for i in response]
    with pytest.raises(TargetError, match="another number"):
        align_ids([None, *entries], prompt, response)
    with pytest.raises(Fault):
        align_ids([*entries[:-1], {"1000": {"logprob": 0.0}}], prompt, response)


def entries(pieces: list[str]) -> list[Any]:
    """vLLM's `prompt_logprobs` with 0 alternatives: the first position is empty."""
    return [None] + [
        {str(at): {"logprob": -float(at), "rank": 1, "decoded_token": piece}}
        for at, piece in enumerate(pieces[1:], 1)
    ]


@given(TOKENS, TOKENS, st.booleans())
def test_prompt_log_probabilities_are_placed_with_and_without_a_first_token(
    prompt: list[str], response: list[str], first: bool
) -> None:
    """Without one, the first position is the beginning of the text, which no entry shows."""
    pieces = ["<s>"] * first + prompt + response
    begin = first + len(prompt)
    found = align_prompt(entries(pieces), None, "".join(prompt), "".join(response))
    assert found.tolist() == [-float(at) for at in range(begin, len(pieces))]


def test_several_alternatives_need_the_ids_that_the_server_returns() -> None:
    rows = entries(["Say", " yes"])
    rows[1]["7"] = {"logprob": -9.0, "rank": 3, "decoded_token": " no"}
    assert align_prompt(rows, [5, 1], "Say", " yes").tolist() == [-1.0]
    assert align_prompt(rows, [5, 7], "Say", " no").tolist() == [-9.0]
    with pytest.raises(Fault, match="several"):
        align_prompt(rows, None, "Say", " yes")


@pytest.mark.parametrize(
    ("pieces", "prompt", "response", "values"),
    [
        # an emoji of three tokens, none of which is a character
        (["", "Say", "�", "�", "�", " yes"], "Say🎉", " yes", [-5.0]),
        # tokens of a vocabulary whose blanks are lost when one token is written alone
        (["", "Say", "it", "now", "yes"], "Say it now", " yes", [-4.0]),
        # a response of parts of characters
        (["", "Say", " �", "�"], "Say", " 🎉", [-2.0, -3.0]),
    ],
)
def test_tokens_that_are_no_characters_and_lost_blanks_are_placed(
    pieces: list[str], prompt: str, response: str, values: list[float]
) -> None:
    assert align_prompt(entries(pieces), None, prompt, response).tolist() == values


@pytest.mark.parametrize(
    ("pieces", "prompt", "response", "said"),
    [
        (["Say", " it yes"], "Say it", " yes", "boundary"),
        (["Sing", " it", " yes"], "Say that", " yes", "do not make up"),
        (["Say", "�", "�"], "Say🎉", "🎊", "boundary"),  # one part may belong to either
        (["yes"], "", "yes", "boundary"),  # the first token has no value
    ],
)
def test_what_stands_nowhere_or_in_two_places_is_refused(
    pieces: list[str], prompt: str, response: str, said: str
) -> None:
    with pytest.raises(TargetError, match=said):
        align_prompt(entries(pieces), None, prompt, response)


@pytest.mark.parametrize(
    ("row", "parts"), [("\U0001f600", [PART] * 4), ("\u9fe6\u7684", [PART, PART, PART, "\u7684"])]
)
def test_characters_in_parts_take_as_many_steps_as_there_are_tokens(
    row: str, parts: list[str]
) -> None:
    """More than their square: a row of 800 took 25 seconds, and the calls beside it timed out."""

    def steps(count: int) -> int:
        tokens = ["say", " ", *parts * count, " label", ":", " yes"]
        prompt, values, counted = "say " + row * count + " label:", [-0.5] * len(tokens), 0

        def count_one(*event: Any) -> None:
            nonlocal counted
            counted += 1

        sys.setprofile(count_one)
        try:
            found = align_echo(tokens, values, prompt, " yes")
        finally:
            sys.setprofile(None)
        assert found.tolist() == [-0.5]
        return counted

    assert steps(240) < 2.2 * steps(120)


def test_labels_are_scored_as_whole_tokens() -> None:
    top = {" y": -3.0, " yes": -0.5, "yes": -0.7, " no": -1.5, "\n": -4.0, " ": -5.0}
    assert first_token_scores(top, ("yes", "no")).tolist() == [-0.5, -1.5]
    # " y" and " no" may be the beginnings of other words, so these are not shown
    for second in ("maybe", "year", "nobody"):
        scores = first_token_scores(top, ("yes", second))
        np.testing.assert_array_equal(scores, np.array([-0.5, np.nan], np.float32))
