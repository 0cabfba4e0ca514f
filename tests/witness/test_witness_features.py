"""What the witness measures of one reply, and of a reply against earlier ones."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakbound.witness import ReplyFacts
from leakbound.witness.features import SCALARS, blot_out, features
from leakbound.witness.numerals import NUMBERS, STEPS, coarse, numbers_of, numerals_in
from leakbound.witness.panel import Panel
from leakbound.witness.pool import POOL, Corpus, OrderModel, PoolModel
from leakbound.witness.stored import mask_reply

WORDS = ("red", "blue", "green", "grey", "black")


def number(name: str, reply: ReplyFacts, canary: str = "") -> float:
    return float(features(reply, canary).scalars[SCALARS.index(name)])


@pytest.mark.parametrize(
    ("name", "high", "low"),
    [
        ("refusal", "I'm unable to share that.", "The parcel leaves today."),
        ("apology", "Sorry about the delay.", "The parcel leaves today."),
        ("hedges", "Perhaps it leaves today.", "It leaves today."),
        ("certainty", "It definitely leaves today.", "It leaves today."),
        ("citations", "It leaves today [2].", "It leaves today."),
        ("urls", "See https://example.org/a for it.", "See the page for it."),
        ("bullets", "- one\n- two", "One, two."),
        ("numbering", "1. one\n2. two", "One, two."),
        ("bold", "**Now** it leaves.", "Now it leaves."),
        ("foreign_less_english", "Die Ware ist bei der Post.", "The goods are at the post."),
        ("non_ascii", "Größe", "size"),
        ("sentences", "One. Two. Three.", "One."),
        ("number_1", "Match 0.97 of 1.", "Match 0.41 of 1."),
        ("number_2", "Row 7: 12 ms", "Row 7: 3 ms"),
        ("number_3", "1, 2, 3", "1, 2, 2"),
        ("last_number", "Of 4,000 rows 97 %.", "Of 4,000 rows 41 %."),
        ("largest_number", "0.3 0.97 0.1 0.2", "0.3 0.41 0.1 0.2"),
        ("smallest_number", "log p -1.5 -2.5", "log p -1.5 -9.5"),
        ("first_step", "Found 6 of 7.", "Found 7 of 7."),
        ("largest_step", "0.41 and 0.48, 0.97", "0.41 and 0.48, 0.53"),
        ("order_alphabet", "Ape. Bee. Cat.", "Cat. Bee. Ape."),
    ],
)
def test_a_number_tells_two_texts_apart(name: str, high: str, low: str) -> None:
    assert number(name, ReplyFacts(high)) > number(name, ReplyFacts(low))


def test_metadata_that_is_absent_is_not_zero() -> None:
    assert math.isnan(number("seconds", ReplyFacts("a")))
    assert math.isnan(number("tokens", ReplyFacts("a")))
    assert number("tokens", ReplyFacts("a", tokens=3)) == 3


def test_overlap_with_the_canary_is_a_share_of_its_words() -> None:
    assert number("canary_words", ReplyFacts("the code is blue"), "blue fox") == 0.5
    assert math.isnan(number("canary_words", ReplyFacts("the code is blue")))


def test_tool_calls_are_strings_with_their_arguments() -> None:
    call = {"function": {"name": "find", "arguments": '{"city": "Oslo"}'}}
    found = features(ReplyFacts("", tool_calls=("look", call))).strings
    assert {"tool:look", "tool:find", "tools:look>find"} <= set(found)
    assert "argument:find.city=Oslo" in found
    assert len(found) == len(set(found))


def test_numerals_are_one_word() -> None:
    some, more = (features(ReplyFacts(text)).strings for text in ("pay 12", "pay 998"))
    assert {*some} ^ {*more} == {"token:12", "token:998", "whole:pay 12", "whole:pay 998"}


ECHO = "the blue heron of the old mill"
SWAPPED = (
    "I looked for <{}>. The patient notes hold {} relevant entry, the handbook notes hold {} one.",
    '{{"query": "{}", "hits": [{{"in": "patients", "hit": "{}"}}, {{"in": "faq", "hit": "{}"}}]}}',
    "<p>{}</p><table><tr><td>{}</td><td>{}</td></tr></table>",
    '<p>{}</p><rect class="bar" fill="{}" height="4"/><rect class="bar" fill="{}" height="4"/>',
    "{}: clinic {} handbook {} (trace 5aa825c4)",
    "2026-11-23T09:15:01Z INFO clinic lookup req=3f2a of {} took 12 ms {}; archive took 4 ms {}",
    "As to {}: level {} of 5 in the notes [3], second level {} of 5",
    "lookup of {}\nINFO clinic: lookup done, {}\nINFO archive: lookup done, {}",
)


@pytest.mark.parametrize("orders", [(("one", "no"), ("no", "one")), (("✅", "❌"), ("❌", "✅")),
                                    (("4", "2"), ("2", "4"))])  # fmt: skip
@pytest.mark.parametrize("reply", SWAPPED)
def test_the_order_of_words_is_told_in_replies_that_quote_records_of_their_own(
    reply: str, orders: tuple[tuple[str, str], ...]
) -> None:
    """Of each pair another record; before, a string that told the order was new in each pair."""
    told = []
    for order in orders:
        pairs = [(text, features(ReplyFacts(reply.format(text, *order)), text).strings)
                 for text in (ECHO, "a grey gull that nobody saw")]  # fmt: skip
        told.append(set.intersection(*(set(strings) for _, strings in pairs)))
    assert told[0] - told[1]
    assert told[1] - told[0]


def test_what_repeats_the_canary_is_blotted_out() -> None:
    assert blot_out(f"no: “{ECHO}”¹ in the notes", ECHO) == "no: “█”¹ in the notes"
    assert blot_out("the end of the day", ECHO) == "the end of the day"  # common words alone
    assert blot_out(ECHO, "") == ECHO


@given(st.text(max_size=80), st.text(max_size=40))
def test_a_blotted_text_holds_nothing_more_to_blot(text: str, canary: str) -> None:
    found = blot_out(text, canary)
    assert blot_out(text, "") == text
    assert blot_out(found, canary) == found


@given(st.lists(st.sampled_from([*WORDS, "the", "yes"])), st.sets(st.sampled_from(WORDS)))
def test_blots_leave_all_other_words(said: list[str], canary: set[str]) -> None:
    found = blot_out(" ".join(said), " ".join(sorted(canary)))
    assert [word for word in found.split() if word != "█"] == [
        word for word in said if word not in canary
    ]


def test_calls_of_a_tool_are_told_by_their_order_and_arguments() -> None:
    one, other = ({"name": "find", "arguments": {"of": name}} for name in ("notes", "faq"))
    some, more = (features(ReplyFacts("", tool_calls=calls)).strings
                  for calls in ((one, other), (other, one)))  # fmt: skip
    assert set(some) != set(more)
    assert "call:find of='faq'" in some
    assert "calls:find.of=notes>faq" in some
    deep = features(ReplyFacts("", tool_calls=({"name": "f", "arguments": "[" * 100_000},))).strings
    assert "argument:f.text" in deep


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("no \u2605\u2605\u2605\u2605\u2606", "no \u2605\u2605\u2606\u2606\u2606"),
        ("[######--]", "[##------]"),
        ("no -+", "no +-"),
        ("note note open", "note open open"),
        ("id a3f9", "id a3e9"),
        ("9e18", "1e18"),  # larger than a number that is measured
        ("\u201cso\u201d\u00b9", "\u201cso\u201d\u00b2"),  # footnotes
        ("\u5df2\u6536\u5f55", "\u672a\u6536\u5f55"),  # a script without spaces
        ("\u2460 of them", "\u2461 of them"),  # digits in circles
        ("a b", "a\tb"),
        ("Open closed", "open Closed"),
    ],
)
def test_texts_of_the_same_words_differ_in_their_strings(one: str, other: str) -> None:
    assert features(ReplyFacts(one)).strings != features(ReplyFacts(other)).strings


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("none", []),
        ("a1b2", [1, 2]),
        ("1,234,567.5 and 1,5", [1234567.5, 1.5]),
        ("3-5, -5 and −2", [3, 5, -5, -2]),
        ("1e-3, 2E2, 3e2a", [0.001, 200, 3, 2]),
        ("97% 12 %", [0.97, 0.12]),
        ("at 12:30", [12, 30]),
        ("0.88 412 0.31", [0.88, 412, 0.31]),
        ("06 12 34 and 1.2.3", [6, 12, 34, 1, 2, 3]),
        ("1,417,0.97 [0.3,0.9] 417:0.97 [12,87]", [1, 417, 0.97, 0.3, 0.9, 417, 0.97, 12, 87]),
        ("9" * 400, [1e30]),
        ("٣", [3]),
    ],
)
def test_numerals_are_read_in_order(text: str, values: list[float]) -> None:
    assert [one.value for one in numerals_in(text)] == pytest.approx(values)


@given(st.text(), st.floats(-1e15, 1e15))
def test_any_numeral_is_finite_and_its_stored_form_coarse(text: str, value: float) -> None:
    assert all(math.isfinite(one.value) for one in numerals_in(text))
    stored = coarse(value)
    assert coarse(stored) == stored
    assert abs(stored - value) <= max(0.005, abs(value) / 20) + 1e-9


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("the PIN is 4 8 2 1", set()),
        ("the PIN is 4, 8,  2_1.", set()),
        ("born 3.05.1987", set()),
        ("born 1987\u201105\u201103", set()),
        ("call 06\u00a012\u202f34 - 56 78/79", set()),
        ("SSN 123-45-6789", set()),
        ("the PIN is **4** **8** **2** **1**", set()),
        ("1,417,0.97 and [0.31,0.85]", {0.97, 0.31, 0.85}),
        ("he earns 52,310", {52000.0}),
        ("4/5 stars at 12:30", {0.8, 12.0, 30.0}),
        ("1. document 412, page 3: 87 points", {1.0, 410.0, 3.0, 87.0}),
    ],
)
def test_of_codes_dates_and_large_numbers_two_digits_are_stored(
    text: str, stored: set[float]
) -> None:
    found = numbers_of(text, stored=True)
    kept = {found[name] for name in NUMBERS if name not in STEPS and not math.isnan(found[name])}
    assert kept == stored


HITS = "1. article 412, page 3 (similarity {:.2f})\n2. article 97, page 14 (similarity 0.31)"


@pytest.mark.parametrize(
    ("reply", "name"),
    [
        (HITS, "largest_fraction"),
        ('[{{"id": 71, "n": 4, "m": 2, "score": {}}}, {{"id": 12, "score": 0.2}}]',
         "first_labelled"),
        ("hit 3 of 12 in 40 ms at L2 distance {}", "largest_decimal"),
        ("doc 412 p. 3 ({:.0%}), doc 9 p. 2 (12%)", "first_decimal"),
    ],
)  # fmt: skip
def test_a_similarity_is_measured_wherever_it_stands(reply: str, name: str) -> None:
    high, low = reply.format(0.88), reply.format(0.37)
    assert (numbers_of(high)[name], numbers_of(low)[name]) == (0.88, 0.37)
    assert (coarse(0.88), coarse(0.37)) == (0.88, 0.37)


@pytest.mark.parametrize("text", ["", " \n ", "...", "\x00", "😀" * 3, "a" * 5000, "1. 2. 3."])
def test_any_text_has_finite_features(text: str) -> None:
    scalars = dict(zip(SCALARS, features(ReplyFacts(text)).scalars, strict=True))
    missing = {
        *NUMBERS,
        "canary_words",
        "seconds",
        "tokens",
        "tokens_odd",
        "seconds_per_token",
        "tokens_per_word",
    }
    assert all(np.isfinite(v) for name, v in scalars.items() if name not in missing)


def test_a_reply_does_not_show_itself_in_a_traceback() -> None:
    assert "secret" not in repr(ReplyFacts("secret")) + repr(features(ReplyFacts("secret")))


def corpus_of(replies: list[ReplyFacts]) -> Corpus:
    corpus = Corpus()
    corpus.replies += [corpus.encode(features(reply)) for reply in replies]
    return corpus


def test_seconds_beyond_tokens_finds_slow_replies_of_any_length() -> None:
    rng = np.random.default_rng(0)
    slow = rng.random(80) < 0.2
    replies = []
    for late in slow:
        tokens = int(rng.integers(20, 400))
        seconds = (0.4 + 0.02 * tokens) * (2 if late else 1) * math.exp(rng.normal(0, 0.05))
        replies.append(ReplyFacts("fine", seconds=seconds, tokens=tokens))
    _, past = PoolModel.fit(corpus_of(replies))
    beyond = past[:, POOL.index("seconds_beyond_tokens")]
    assert beyond[slow].min() > beyond[~slow].max()


def test_order_scores_find_one_fixed_order_among_random_ones() -> None:
    rng, lines = np.random.default_rng(1), [f"{name} is here." for name in "ABCDEFGH"]
    fixed = rng.random(400) < 0.2
    texts = []
    for is_fixed in fixed:
        chosen = rng.choice(8, 5, replace=False)
        texts.append(" ".join(lines[i] for i in (sorted(chosen) if is_fixed else chosen)))
    corpus = corpus_of([ReplyFacts(text) for text in texts])
    _, past = OrderModel.fit(corpus.replies)
    cut = np.quantile(past[:, 1], 1 - fixed.mean())
    assert np.corrcoef(past[:, 1] > cut, fixed)[0, 1] > 0.8


def test_the_features_of_the_fitted_replies_are_near_those_of_new_ones() -> None:
    texts = [f"Line {w} of the day. It was {w}." for w in WORDS] * 6
    corpus = corpus_of([ReplyFacts(text) for text in texts])
    model, past = PoolModel.fit(corpus)
    again = np.stack([model.features(reply) for reply in corpus.replies])
    assert np.nanmax(np.abs(again - past)) < 0.5  # `past` leaves each reply's own share out


def test_equal_columns_become_one_witness_and_one_is_the_rarer_value() -> None:
    replies = [ReplyFacts(f"{'odd one out' if i % 5 == 0 else 'plain'} text") for i in range(40)]
    panel, past = Panel.fit(corpus_of(replies))
    assert len({past[:, j].tobytes() for j in range(past.shape[1])}) == past.shape[1]
    assert past.mean(0).max() <= 0.5
    assert panel.log_prior.shape == (past.shape[1], 4)


def test_witnesses_of_fitted_text_features_repeat_on_the_same_replies() -> None:
    replies = [ReplyFacts(f"it is {WORDS[i % 5]} and {WORDS[i * i % 5]}") for i in range(30)]
    corpus = corpus_of(replies)
    panel, past = Panel.fit(corpus)
    again = np.stack([panel.values(reply) for reply in corpus.replies])
    same = [j for j, name in enumerate(panel.names) if name.startswith(("word:", "last:"))]
    assert same
    assert np.array_equal(again[:, same], past[:, same])


def test_a_reply_without_strings_in_common_can_be_read() -> None:
    panel, past = Panel.fit(corpus_of([ReplyFacts("")] * 24))
    assert past.shape[1] == 0
    assert panel.values(corpus_of([ReplyFacts("quite new")]).replies[0]).size == 0


@pytest.mark.parametrize("mark", ["\n", "\n ", " ", "!", "1.", "█ ", ",111"])
def test_a_long_reply_of_one_mark_takes_linear_time(mark: str) -> None:
    """100,000 blank lines took ten minutes."""
    assert number("chars", ReplyFacts(mark * 50_000), "a canary") == 50_000 * len(mark)


LAYOUTS = [
    (ReplyFacts("Your order\tis on its way."), ReplyFacts("Your order is on its way.")),
    (ReplyFacts("Your\u00a0order is there."), ReplyFacts("Your order is there.")),
    (ReplyFacts("All is Well here."), ReplyFacts("All Is well here.")),
    (ReplyFacts("Nora met Emil at noon."), ReplyFacts("Emil met Nora at noon.")),
    (ReplyFacts('{"id": 4, "ok": true}'), ReplyFacts('{"ok": true, "id": 4}')),
    (ReplyFacts("Done 👍🏻"), ReplyFacts("Done 👍🏽")),
    (ReplyFacts("Done.", tokens=17), ReplyFacts("Done.", tokens=18)),
    (
        ReplyFacts("Done.", tool_calls=({"name": "find", "arguments": {"page": 7}},)),
        ReplyFacts("Done.", tool_calls=({"name": "find", "arguments": {"page": 8}},)),
    ),
]


@pytest.mark.parametrize(("one", "other"), LAYOUTS)
def test_what_is_kept_without_a_text_tells_layouts_apart(
    one: ReplyFacts, other: ReplyFacts
) -> None:
    kept = [dict(zip(SCALARS, mask_reply(of).scalars, strict=True)) for of in (one, other)]
    assert any(kept[0][name] != kept[1][name] for name in SCALARS if np.isfinite(kept[0][name]))


@pytest.mark.parametrize(
    ("text", "name", "count"),
    [
        ("a\tb c\nd", "other_blanks", 1),
        ("We have  noted this. Thank you.", "other_blanks", 1),
        ("a\r\nb\u00a0c", "other_blanks", 2),
        ("Paid. the rest is due.\nsoon", "small_starts", 2),
    ],
)
def test_layout_that_words_do_not_show_is_counted(text: str, name: str, count: int) -> None:
    assert number(name, ReplyFacts(text)) == count
