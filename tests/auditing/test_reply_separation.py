"""Replies that tell the contexts of pairs apart better than the score does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakbound.auditing.observe.controls import p_values_of
from leakbound.auditing.observe.reply_separation import ReplySeparation, Separations, SeparationTest
from leakbound.estimators import Observations, PairedScores
from leakbound.estimators.base import Claim
from leakbound.witness import ReplyFacts, StoredReply, mask_reply
from leakbound.witness.features import SCALARS, ReplyFeatures, features
from leakbound.witness.numerals import NUMBERS

PAIRS = 30
ONLY_IN_PAIRS = {"answer": SeparationTest(None, in_pairs=True)}
WORDS = ("open", "desk", "red", "late", "card", "note")


def told(
    replies: list[tuple[StoredReply | None, StoredReply | None]],
    scores: tuple[float, float] = (0, 0),
    epsilon: float = 1.0,
    delta: float = 1e-5,
) -> Separations:
    """What is found in pairs whose scores are all alike."""
    high, low = (np.full(len(replies), one, float) for one in scores)
    seen = ReplySeparation(two_sided=False, claim=Claim(epsilon, delta))
    trials = PairedScores(high, low)
    pairs = tuple((both, "canary") for both in replies)
    seen.measured(Observations(0, len(replies), trial_scores=trials, reply_pairs=pairs))
    return seen.found()


def words(seed: int, many: int = 12) -> str:
    rng = np.random.default_rng(seed)
    return " ".join(rng.choice(WORDS, many)) + "."


@pytest.mark.parametrize(
    "leak",
    [
        ReplyFacts("The desk is open. Nothing else is."),  # longer
        ReplyFacts("The desk is open.", finish_reason="content_filter"),
        ReplyFacts("The desk is late."),  # a word
        ReplyFacts("The desk is open.", seconds=None),  # it shows no time
        ReplyFacts("The desk is open.", seconds=9.0),
    ],
)
def test_each_measurement_that_differs_is_found(leak: ReplyFacts) -> None:
    plain = ReplyFacts("The desk is open.", seconds=1.0)
    found = told([(leak, plain)] * PAIRS)
    assert len(found["answer"].shown or ()) == 8
    assert told([(plain, plain)] * PAIRS) == {}


def test_pairs_without_any_reply_tell_nothing() -> None:
    """As of a mechanism whose aggregates are counts, or of answers that were not kept."""
    assert told([(None, None)] * PAIRS) == {}


def test_less_than_a_millisecond_tells_nothing() -> None:
    """As of a function in this process that looks a little longer where the canary is."""
    pairs = [(ReplyFacts("no", seconds=4e-6), ReplyFacts("no", seconds=3e-6))] * PAIRS
    assert told(pairs) == {}
    assert told([(ReplyFacts("no", seconds=4e-3), ReplyFacts("no", seconds=3e-3))] * PAIRS)


def test_a_score_that_tells_as_much_is_not_overruled() -> None:
    leak = [(ReplyFacts(f"It is {words(i)}"), ReplyFacts("No.")) for i in range(PAIRS)]
    assert told(leak, scores=(1, 0))["answer"].shown is None
    assert told(leak, scores=(0, 0))["answer"].shown is not None


def test_of_a_partial_leak_the_pairs_that_differ_are_kept() -> None:
    plain, leak = ReplyFacts("No."), ReplyFacts("", finish_reason="error")
    shown = told([(leak if at % 2 else plain, plain) for at in range(4 * PAIRS)])["answer"].shown
    assert shown is not None
    assert len(shown) == 8
    for (one, other), _ in shown:
        assert isinstance(one, ReplyFeatures)
        assert isinstance(other, ReplyFeatures)
        assert one.strings != other.strings


@settings(deadline=None, max_examples=25, derandomize=True)
@given(st.integers(0, 10**6))
def test_replies_that_do_not_depend_on_the_canary_tell_nothing(seed: int) -> None:
    """With probability 0.99 each; these 25 seeds are always the same."""
    each = [ReplyFacts(words(seed + at), seconds=float(at % 7)) for at in range(2 * PAIRS)]
    assert told([*zip(each[::2], each[1::2], strict=True)]) == {}


def test_replies_are_measured_once() -> None:
    pairs = (((ReplyFacts("a b."), None), "canary"),)
    found = ReplySeparation(False, Claim(1.0, 1e-5)).measured(Observations(0, 1, reply_pairs=pairs))
    (one, other), canary = (found.reply_pairs or ())[0]
    assert isinstance(one, ReplyFeatures)
    np.testing.assert_array_equal(one.scalars, features(ReplyFacts("a b."), "canary").scalars)
    assert (other, canary) == (None, "canary")


def test_one_lost_reply_does_not_hide_a_measurement() -> None:
    high, low = np.full((PAIRS, 1), 2.0), np.full((PAIRS, 1), 1.0)
    whole, _ = p_values_of(high, low)
    high[3] = np.nan
    numbers, shown = p_values_of(high, low)
    assert numbers[0] < 1e-12
    assert whole[0] <= numbers[0]
    assert shown[0] == 1.0


def test_a_time_that_the_length_does_not_explain_is_found() -> None:
    """Each reply takes 20 ms a token, and half a second more where the record is held."""
    rng = np.random.default_rng(3)

    def reply(more: float) -> ReplyFacts:
        tokens = int(rng.integers(50, 800))
        return ReplyFacts("No.", seconds=2 + 0.02 * tokens + more, tokens=tokens)

    assert told([(reply(0.5), reply(0.0)) for _ in range(PAIRS)])
    assert not told([(reply(0.0), reply(0.0)) for _ in range(PAIRS)])


@pytest.mark.parametrize("store", ["all", "canary_only"])
def test_numbers_that_a_reply_shows_are_compared(store: str) -> None:
    """A store that prints how well its best match fits, and never what it holds."""
    rng = np.random.default_rng(1)

    def reply(low: int, high: int) -> StoredReply:
        found = ReplyFacts(f"Best match 0.{rng.integers(low, high)} of {rng.integers(9)} rows.")
        return found if store == "all" else mask_reply(found)

    assert told([(reply(90, 99), reply(30, 60)) for _ in range(PAIRS)])
    assert not told([(reply(30, 60), reply(30, 60)) for _ in range(PAIRS)])


@pytest.mark.parametrize(
    ("leak", "plain"),
    [
        ("The request is approved.", "The request is rejected."),
        ("Sentiment: positive", "Sentiment: negative"),
        ("Risk: high", "Risk: mild"),
        ("✅ ready", "❌ ready"),
        ("91/100 [1] [2]", "41/100 [1] [2]"),
        ("no \u2605\u2605\u2605\u2605\u2606", "no \u2605\u2605\u2606\u2606\u2606"),  # a rating
        ("no [######--]", "no [##------]"),
        ("A match of 4/5 [3, 4]", "A match of 1/5 [3, 4]"),
        ("\u76f8\u4f3c\u5ea697\u5206", "\u76f8\u4f3c\u5ea641\u5206"),  # a script without spaces
    ],
)
def test_status_words_marks_and_shares_are_stored_and_compared(leak: str, plain: str) -> None:
    found = mask_reply(ReplyFacts(leak)), mask_reply(ReplyFacts(plain))
    assert told([found] * PAIRS)
    assert not told([(found[1], found[1])] * PAIRS)


def test_numbers_that_may_be_parts_of_a_code_are_not_stored() -> None:
    def stored(text: str) -> dict[str, float]:
        found = zip(SCALARS, mask_reply(ReplyFacts(text)).scalars, strict=True)
        return {name: value for name, value in found if name in NUMBERS and not np.isnan(value)}

    codes = ("key a7b2c9", "3/10/2024", "030 12 34 55", "é5", "born 24/5 84", "born 7/10 1984",
             "PIN 4/5 3/5 2/5 1/5", "tel 030/20 48 21", "born 3.12. 84", "born 12.25. 84",
             "born 3.12 1984", "born 9/10 (1984)", "1984\u5e7412\u67083\u65e5",
             "tel 06.12 34 56")  # fmt: skip
    for text in codes:
        assert stored(text) == {}, text
    assert set(stored("rated 4/5 on the 3/10/2024").values()) == {0.8}


@given(st.permutations(["the", "pin", "is", "four", "eight", "two", "one"]))
def test_neither_order_nor_spelled_codes_are_stored(said: list[str]) -> None:
    found = mask_reply(ReplyFacts(" ".join(said))).strings
    assert [*found] == ["finish:None", "word:is", "word:the"]
    assert mask_reply(ReplyFacts("pin four four two")).strings == ("finish:None",)
    assert "word:four" in mask_reply(ReplyFacts("four notes, and two of them")).strings


def test_rare_words_and_the_order_of_sentences_are_compared() -> None:
    rng = np.random.default_rng(2)
    lines = [f"{name} is here." for name in "ABCDEFGH"]

    def ordered(by_name: bool) -> ReplyFacts:
        some = sorted(rng.choice(8, 5, replace=False))
        mixed = some[::2] + some[1::2] if by_name else rng.permutation(some)
        return ReplyFacts(" ".join(lines[at] for at in mixed))

    def worded(new: bool) -> ReplyFacts:
        word = "".join(rng.choice(list("bcdfgh"), 5)) if new else rng.choice(WORDS)
        return ReplyFacts(f"It was {word}.")

    assert told([(ordered(True), ordered(False)) for _ in range(4 * PAIRS)])
    assert not told([(ordered(False), ordered(False)) for _ in range(4 * PAIRS)])
    assert told([(worded(at % 3 == 0), worded(False)) for at in range(4 * PAIRS)])
    assert not told([(worded(False), worded(False)) for at in range(4 * PAIRS)])


@pytest.mark.parametrize("keep", [mask_reply, lambda reply: reply], ids=["masked", "whole"])
@pytest.mark.parametrize("leak", ["count", "length", "confidence"])
def test_what_only_both_replies_of_a_pair_show_is_found(
    leak: str, keep: Callable[[ReplyFacts], StoredReply]
) -> None:
    """One more than the same system says without the record: less than queries differ by."""
    rng = np.random.default_rng(4)

    def reply(query: int, held: bool) -> StoredReply:
        return keep(whole(query, held))

    def whole(query: int, held: bool) -> ReplyFacts:
        if leak == "count":
            return ReplyFacts(f"I found {query + held} notes.")
        if leak == "length":
            return ReplyFacts("The desk is open" + " and red" * (query + held) + ".")
        return ReplyFacts(f"Confidence 0.{query + 5 * held + 10}.")

    queries = rng.integers(1, 60, PAIRS)
    assert told([(reply(int(q), True), reply(int(q), False)) for q in queries]) == ONLY_IN_PAIRS
    by_chance = rng.random(PAIRS) < 0.5
    each = zip(queries.tolist(), by_chance, strict=True)
    assert told([(reply(q, bool(b)), reply(q, not b)) for q, b in each]) == {}


def test_what_the_claim_allows_in_pairs_is_not_held_against_a_system() -> None:
    """Laplace noise of scale 1 on a count: epsilon 1, and the larger count in three of four."""
    rng = np.random.default_rng(5)
    counts = [50 + 40 * rng.random() for _ in range(10 * PAIRS)]

    def reply(count: float) -> ReplyFacts:
        return ReplyFacts(f"About {count + rng.laplace():.3f} notes.")

    pairs = [(reply(count + 1), reply(count)) for count in counts]
    assert told(pairs, epsilon=1.0) == {}
    assert told(pairs, epsilon=0.1)["answer"].in_pairs


def test_what_pairs_show_is_found_beside_what_single_replies_tell() -> None:
    """Each reply is longer with the record, by nearly as much as queries differ."""
    rng = np.random.default_rng(6)
    queries = rng.integers(1, 40, 2 * PAIRS).tolist()

    def reply(size: int) -> ReplyFacts:
        return ReplyFacts("open " * size)

    found = told([(reply(one + 25), reply(one)) for one in queries])["answer"]
    assert found.shown is not None
    assert found.in_pairs
