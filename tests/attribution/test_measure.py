"""Laws of the influence meter:

hand values, token ids, bans, start tokens, the whole context, lambda = 0, additivity.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from leakbound_lab.planted.defects import TABLE, _banned

from leakbound.attribution import PromptParts, TokenDistribution, blocks, measure, sample
from leakbound.attribution.spans import span_sizes
from leakbound.errors import UsageError
from leakbound.models import NextLogits, ScoreTokens, Scripted

PARTS = PromptParts((1,), (5, 6, 7, 8), (2,))


def test_places_of_context_tokens_skip_what_stands_between() -> None:
    parts = PromptParts((1,), (5, 6, 7), (2,), ((1, (9, 9)), (2, (3,))))
    assert parts.places == (1, 4, 6)
    assert [parts.without()[at] for at in parts.places] == [5, 6, 7]


def logits(prompt: Any, response: Any) -> np.ndarray[Any, Any]:
    """Four tokens; token t gains 1 for every context token whose id is 4 + t, once more for what
    was said before.
    """
    row = np.array([sum(i == 4 + t for i in prompt) for t in range(4)], float) + 0.1 * np.arange(4)
    return np.stack([row * (1 + 0.5 * step) for step in range(len(response) + 1)])


def softmax(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.exp(x) / np.exp(x).sum()


@pytest.fixture
def model() -> Scripted:
    return Scripted(next_logits=logits)


@pytest.mark.parametrize(("lam", "temperature"), [(1.0, 1.0), (0.5, 0.7), (1.5, 2.0)])
def test_tau_is_the_hand_value(model: Scripted, lam: float, temperature: float) -> None:
    response, span = (1, 2), (1, 2)
    got = measure(model, PARTS, response, [span], [TokenDistribution(lam, temperature)]).signed[
        0, 0
    ]
    for t, token in enumerate(response):
        full, without, prior = (
            logits((1, *kept, 2), response)[t] for kept in ((5, 6, 7, 8), (5, 7, 8), ())
        )
        mix = [softmax((lam * x + (1 - lam) * prior) / temperature)[token] for x in (full, without)]
        assert got[t] == pytest.approx(np.log(mix[0]) - np.log(mix[1]), abs=1e-6)


def test_spans_are_removed_from_token_ids_and_the_start_token_stays() -> None:
    seen: list[tuple[Any, Any]] = []

    def spy(prompt: Any, response: Any) -> Any:
        seen.append((prompt, response))
        return logits(prompt, response)

    measure(Scripted(next_logits=spy), PARTS, (1, 2), blocks(4, 3), [TokenDistribution(0.5)])
    assert {prompt for prompt, _ in seen} == {
        (1, 5, 6, 7, 8, 2),
        (1, 2),
        (1, 8, 2),
        (1, 5, 6, 7, 2),
    }
    assert {response for _, response in seen} == {(1, 2)}


def test_a_banned_token_moves_no_index() -> None:
    """The catalogue's own table and hand value: token 0 is banned, token 1 is read."""

    def script(prompt: Any, response: Any) -> Any:
        return np.repeat(TABLE[0 if 9 in prompt else 1][None], len(response) + 1, 0)

    found = measure(
        Scripted(next_logits=script),
        PromptParts((), (9,), (2,)),
        (1,),
        [(0, 1)],
        [TokenDistribution(banned=(0,))],
    )
    assert found.signed[0, 0, 0] == pytest.approx(
        _banned(TABLE[0])[1] - _banned(TABLE[1])[1], abs=1e-6
    )


def test_without_a_start_token_every_response_token_counts() -> None:
    """The catalogue's first-token-drop:

    the influence on the response [3, 1, 2] by hand, first token and all.
    """

    def script(prompt: Any, response: Any) -> Any:
        return np.repeat(TABLE[0 if 9 in prompt else 1][None], len(response) + 1, 0)

    found = measure(
        Scripted(next_logits=script),
        PromptParts((), (9,), (2,)),
        (3, 1, 2),
        [(0, 1)],
        [TokenDistribution()],
    )
    want = [abs(TABLE[0][t] - TABLE[1][t]) for t in (3, 1, 2)]
    np.testing.assert_allclose(np.abs(found.signed[0, 0]), want, atol=1e-6)


def test_a_minimum_length_bans_the_end_token_early_only(model: Scripted) -> None:
    distribution = TokenDistribution(banned_early=(3,), min_tokens=1)
    table = distribution.log_probs(np.zeros((2, 4)), np.zeros((2, 4)))
    assert np.isneginf(table[0, 3])
    np.testing.assert_allclose(np.exp(table[0, :3]), 1 / 3)
    np.testing.assert_allclose(np.exp(table[1]), 1 / 4)
    with pytest.raises(UsageError, match="token 0 has id 3, which is banned"):
        measure(model, PARTS, (3, 3), [(0, 1)], [distribution])
    assert measure(model, PARTS, (2, 3), [(0, 1)], [distribution]).signed.shape == (1, 1, 2)


def test_the_whole_context_is_the_difference_with_and_without(model: Scripted) -> None:
    found = measure(
        model,
        PARTS,
        (1, 2, 0),
        [(0, 4), (0, 2)],
        [TokenDistribution(0.5), TokenDistribution(2.0, 0.5)],
    )
    np.testing.assert_array_equal(found.signed[:, 0], found.full - found.prior)
    assert (found.tolerance == 0).all()


def test_lambda_zero_hears_nothing(model: Scripted) -> None:
    found = measure(
        model, PARTS, (1, 2), [(0, 4), *blocks(4, 1)], [TokenDistribution(0.0, 0.3, banned=(0,))]
    )
    assert (found.signed == 0).all()


def test_a_longer_response_only_adds_tokens(model: Scripted) -> None:
    short, long = (
        measure(model, PARTS, y, blocks(4, 2), [TokenDistribution(0.8)])
        for y in ((1, 2), (1, 2, 3))
    )
    np.testing.assert_allclose(long.signed[..., :2].sum(-1), short.signed.sum(-1), atol=1e-12)
    np.testing.assert_allclose(
        long.signed.sum(-1), short.signed.sum(-1) + long.signed[..., 2], atol=1e-12
    )


def test_one_reading_does_not_depend_on_the_others(model: Scripted) -> None:
    """All distributions at once, one by one, and by ScoreTokens for the model's own."""

    def scores(prompt: Any, response: Any) -> Any:
        return [
            np.log(softmax(row)[t])
            for row, t in zip(logits(prompt, response), response, strict=False)
        ]

    distributions, spans = [TokenDistribution(), TokenDistribution(0.5)], blocks(4, 1)
    together = measure(model, PARTS, (1, 2), spans, distributions).signed
    for at, distribution in enumerate(distributions):
        np.testing.assert_array_equal(
            together[at], measure(model, PARTS, (1, 2), spans, [distribution]).signed[0]
        )
    fast = Scripted(token_scores=scores, next_logits=logits)
    assert {ScoreTokens, NextLogits} <= fast.supports
    np.testing.assert_allclose(
        measure(fast, PARTS, (1, 2), spans, [TokenDistribution()]).signed[0], together[0], atol=1e-6
    )


def test_logits_of_few_spans_are_held_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many more spans than fit the bound on bytes:

    batches stay within it, and the numbers are the same.
    """
    held: list[int] = []

    class Spy(Scripted):
        def answer(self, requests: Any, /) -> Any:
            held.append(len(requests))
            return super().answer(requests)

    parts, spy = (
        PromptParts((1,), tuple(5 + i % 3 for i in range(60)), (2,)),
        Spy(next_logits=logits),
    )
    want = measure(spy, parts, (1, 2), blocks(60, 1), [TokenDistribution(0.5)]).signed
    assert max(held) > 10
    held.clear()
    monkeypatch.setattr(
        import_module("leakbound.attribution.measure"), "BYTES", 4 * 4 * 3 * 5
    )  # five times (tokens + 1, vocabulary) float32
    got = measure(spy, parts, (1, 2), blocks(60, 1), [TokenDistribution(0.5)]).signed
    np.testing.assert_array_equal(got, want)
    assert max(held) == 5


def test_a_sampled_response_follows_the_law(model: Scripted) -> None:
    class Words:
        def end_ids(self) -> set[int]:
            return {3}

        def text(self, ids: Any) -> str:
            return "".join("abcd"[i] for i in ids)

    distribution = TokenDistribution(0.5, 0.8, banned=(0,), banned_early=(3,), min_tokens=2)
    rng = np.random.default_rng(0)
    responses = [sample(model, Words(), PARTS, distribution, 6, rng) for _ in range(300)]
    assert all(2 <= len(y) <= 6 and 0 not in y and 3 not in y for y in responses)
    p = np.exp(
        distribution.log_probs(*(logits(PARTS.without(*s), ())[:1] for s in ((), ((0, 4),))))[0]
    )
    share = np.mean([y[0] == 1 for y in responses])
    assert share == pytest.approx(p[1], abs=4 * np.sqrt(p[1] * (1 - p[1]) / 300))
    assert sample(
        model, Words(), PARTS, TokenDistribution(banned=(0, 2, 3)), 6, rng, stop="bbb"
    ) == (1, 1)


@given(st.integers(1, 60), st.integers(1, 70))
def test_blocks_cut_the_context_once(length: int, n: int) -> None:
    spans = blocks(length, n)
    assert [i for a, b in spans for i in range(a, b)] == list(range(length))
    assert all(b - a == n for a, b in spans[:-1])


@given(st.integers(1, 60), st.integers(1, 20), st.data())
def test_windows_reach_every_token(length: int, n: int, data: st.DataObject) -> None:
    stride = data.draw(st.integers(1, n))
    spans = blocks(length, n, stride)
    assert {i for a, b in spans for i in range(a, b)} == set(range(length))
    assert len(set(spans)) == len(spans)
    assert all(b - a == n for a, b in spans[:-1])


def test_the_whole_context_is_always_a_size() -> None:
    assert span_sizes(10, (8, 1, 128)) == (1, 8, 10)
    with pytest.raises(UsageError, match="at most n"):
        blocks(10, 2, 3)
    with pytest.raises(UsageError, match="at least one"):
        PromptParts((1,), (), (2,))
