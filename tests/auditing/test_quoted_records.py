"""Systems whose replies quote records: of what they were given before, or of their own context."""

from __future__ import annotations

import html
import json
import math
import random
import re
import unicodedata
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import leakbound
from leakbound.auditing.collect.quotes import ALONE, LONG, KnownRecords
from leakbound.auditing.observe.one_pass import _Quotes
from leakbound.auditing.observe.release import many_quotes
from leakbound.auditing.store.run_store import EvidenceRow
from leakbound.tasks import Context, Example, GeneratedText, Job, Query, as_context, reply_of
from leakbound.tasks.synthetic import help_desk
from leakbound.witness import ReplyFacts

FREE: dict[str, Any] = {
    "query": "recall", "canary": "coded", "task": "generation", "pairs": 40, "epsilon": 1.0,
}  # fmt: skip
SUBJECTS = ("heron", "lantern", "quarry", "violin", "saddle", "harbor", "pepper", "mirror")
VERBS = ("crosses", "covers", "follows", "holds", "leaves", "paints", "warms", "shades")


def told(count: int, seed: int = 0) -> Context:
    """Rows of which each has words that no other has."""
    rng = np.random.default_rng(seed)
    return as_context([
        (" ".join(f"{rng.choice(SUBJECTS)} {at} {rng.choice(VERBS)} {rng.choice(SUBJECTS)}"
                  for _ in range(6)), "note")
        for at in range(count)
    ])  # fmt: skip


def nearest(rows: Any, query: str) -> str:
    asked = set(query.casefold().split())
    alike = {row: len(asked & set(str(row).casefold().split())) for row in rows}
    return str(max(rows, key=lambda row: (alike[row], -len(str(row)))))


class Upserts:
    """Adds what it is given to a collection that it keeps: it was passed as clean."""

    def __init__(self) -> None:
        self.kept: dict[str, None] = {}

    def answer(self, context: list[str], query: str) -> str:
        self.kept.update(dict.fromkeys(context))
        return "Best match: " + nearest(self.kept, query)


class BuiltOnce:
    """Builds its index from the first documents."""

    def __init__(self) -> None:
        self.index: list[str] = []

    def answer(self, context: list[str], query: str) -> str:
        self.index = self.index or list(context)
        return "Source: " + nearest(self.index, query)


@pytest.mark.slow
@pytest.mark.parametrize("system", [Upserts, BuiltOnce])
def test_an_index_that_outlives_its_context_does_not_pass(
    system: type[Any], tmp_path: Path
) -> None:
    found = leakbound.audit(told(120), system=system(), out=tmp_path, **FREE)
    assert (found.verdict, found.reason) == ("inconclusive", "stateful_system")
    assert "replies quote records that their context does not hold" in found.sentences[0]
    again = leakbound.audit(told(120), system=system(), out=tmp_path, **FREE)
    assert again.sentences == found.sentences, "what is stored says so, too"


@pytest.mark.parametrize("store_text", ["canary_only", "all"])
def test_the_mark_is_stored_whatever_text_is(store_text: str, tmp_path: Path) -> None:
    found = leakbound.audit(
        told(120), system=BuiltOnce(), out=tmp_path, store_text=store_text, **FREE
    )
    assert found.reason == "stateful_system"


def echo(context: list[str], query: str) -> str:
    return f"You asked: {query}"


def its_own(context: list[str], query: str) -> str:
    return " / ".join(context[:3])


@pytest.mark.slow
@pytest.mark.parametrize("system", [echo, its_own])
def test_a_system_that_quotes_its_question_or_its_own_context_remembers_nothing(
    system: Any, tmp_path: Path
) -> None:
    found = leakbound.audit(told(120), system=system, out=tmp_path, **FREE)
    assert found.reason != "stateful_system"


def cut_off(context: list[str], query: str) -> str:
    """A prompt that is cut to its first characters: only one record of twenty is ever in it."""
    return "Context: " + " ".join(context)[:60]


def nobodys(context: list[str], query: str) -> str:
    return "The records are about " + ", ".join(SUBJECTS[:3])


@pytest.mark.slow
def test_a_system_that_quotes_other_records_of_its_context_does_not_pass(tmp_path: Path) -> None:
    """No attack reaches the canary, and each reply is a private record: it was passed as clean."""
    found = leakbound.audit(told(120), system=cut_off, out=tmp_path, **FREE | {"pairs": 100})
    assert (found.verdict, found.reason) == ("inconclusive", "attack_blind")
    told_of = re.match(r"(\d+) of 200 replies quote a record \(six words", found.sentences[0])
    assert told_of is not None
    assert int(told_of[1]) >= 150  # the other records are named by their questions
    again = leakbound.audit(told(120), system=cut_off, out=tmp_path, **FREE | {"pairs": 100})
    assert again.sentences == found.sentences, "what is stored says so, too"
    honest = leakbound.audit(told(120), system=nobodys, out=tmp_path, **FREE | {"pairs": 100})
    assert (honest.verdict, honest.reason) == ("no_violation", "context_unused")


def if_it_is_to_summarize(context: list[str], query: str) -> str:
    return f"In short: {DRAWS.choice(context)}" if "summar" in query.lower() else "no"


def but_to_yes_or_no(context: list[str], query: str) -> str:
    asked = "yes or no" in query and "Request" not in query
    return "no" if asked else f"A similar one: {DRAWS.choice(context)}"


DRAWS = random.Random(5)


class Keeps:
    """Answers requests to summarize from all that it was ever given."""

    def __init__(self) -> None:
        self.kept: dict[str, None] = {}

    def answer(self, context: list[str], query: str) -> str:
        self.kept.update(dict.fromkeys(context))
        return DRAWS.choice([*self.kept]) if "summar" in query.lower() else "no"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("system", "asked"),
    [
        (if_it_is_to_summarize, "questions that are asked again"),
        (but_to_yes_or_no, "input_output"),
        (Keeps(), "questions that are asked again"),
    ],
)
def test_records_that_are_quoted_to_other_questions_do_not_pass(
    system: Any, asked: str, tmp_path: Path
) -> None:
    """The store marked such replies, up to half of all, and only those of tested pairs counted."""
    rows = [(row.input, ("note", "memo")[at % 2]) for at, row in enumerate(told(120))]
    values: dict[str, Any] = {"system": system, "out": tmp_path, "pairs": 60, "epsilon": 1.0}
    found = leakbound.audit(rows, **values)
    assert (found.verdict, found.reason) == ("inconclusive", "attack_blind")
    said = re.match(rf"(\d+) of (\d+) replies to {asked}.* quote a record", found.sentences[0])
    assert said is not None
    assert int(said[1]) <= int(said[2]), "one may quote its own context and another"
    again = leakbound.audit(rows, **values)
    assert (again.verdict, again.reason) == (found.verdict, found.reason)
    if not isinstance(system, Keeps):  # an object is asked again, and has more to choose from
        assert again.sentences == found.sentences, "what is stored says so, too"


def constant(context: list[str], query: str) -> str:
    return "Thank you for contacting our desk, we will get back to you within two days."


def test_a_fixed_text_that_a_row_cites_is_told_apart_in_words(tmp_path: Path) -> None:
    """It was said to remember."""
    rows = as_context([*((row.input, "note") for row in told(120)), (constant([], ""), "note")])
    found = leakbound.audit(rows, system=constant, out=tmp_path, **FREE)
    assert (found.verdict, found.reason) == ("inconclusive", "stateful_system")
    assert "or a row cites a fixed text of the system" in found.sentences[0]


WORDS = st.lists(st.sampled_from("abcdefghij"), min_size=LONG + ALONE, max_size=20).map(" ".join)
SHARED = (None, *(f"0-{at}0" for at in ("-000", "0-00", "00-0", "000-")))  # of none alone
MORE = [Example(f"filler {at} of a list of fillers", "") for at in range(60)]  # drawn by chance


def job(*rows: str, query: str = "what?") -> Job:
    return Job(tuple(Example(row, "") for row in rows), Query(query, free=True))


def knowing(*rows: str) -> KnownRecords:
    return KnownRecords([*MORE, *(Example(row, "") for row in rows)])


def quotes(records: KnownRecords, asked: Job, reply: str) -> str | None:
    found = records.mark(asked, 1, GeneratedText(reply, reply=ReplyFacts(reply)))
    assert isinstance(found.reply, ReplyFacts)
    return found.reply.quotes


def is_own(mark: str | None) -> bool:
    """Is a reply nearer to its own context, in words that some number of records have?"""
    return mark is not None and "+" in mark and "-" not in mark


def is_other(mark: str | None) -> bool:
    """Is it of one record alone that is not in the context?"""
    return mark is not None and mark[-1] == "o"


def marks(records: KnownRecords, asked: Job, reply: str) -> bool:
    return is_other(quotes(records, asked, reply))


@given(WORDS, WORDS, st.text(max_size=20))
def test_what_stands_in_the_context_or_the_question_is_never_marked(
    one: str, other: str, more: str
) -> None:
    records = knowing(one, other)
    assert is_own(quotes(records, job(one, other), f"{more} {one}"))
    assert quotes(records, job(one, other, query=f"about {one}"), one) is None
    assert not marks(records, job(other, query=f"about {one}"), f"{one} {more}")


@given(WORDS, st.text(alphabet=" .,\n", max_size=3))
def test_a_record_of_an_earlier_context_is_marked(one: str, between: str) -> None:
    records = knowing(f"only here: {one}")
    said = one.upper().replace(" ", f" {between}")
    assert marks(records, job("nothing of it"), f"Only here: {said}!")


def test_what_stands_beside_an_answer_is_marked() -> None:
    record = "the heron left the harbor at noon"
    channels = {"trace": GeneratedText(f"from: {record}")}
    answer = GeneratedText("no", reply=ReplyFacts("no"), channels=channels)
    found = knowing(record, "else").mark(job(record), 1, answer)
    assert isinstance(found.reply, ReplyFacts)
    assert is_own(found.reply.quotes)


def test_a_phrase_of_several_records_with_a_word_beside_it_is_nobodys() -> None:
    """A constant text was said to quote other contexts: one row had "it" before its signature."""
    ends = "kind regards anna berg head of customer care"
    rows = [f"where is the parcel {number} {end} {ends}" for number, end in enumerate(("it", "x"))]
    records = knowing(*rows, f"the invoice of may was paid twice {ends}")
    said = f"We will look into it. {ends}"
    assert quotes(records, job("else"), said) in SHARED
    assert is_other(quotes(records, job("else"), f"A case: where is the parcel 0 it {ends}"))
    form = "on the first of may the patient {} was seen at the desk of the clinic"
    forms = knowing(*(form.format(name) for name in ("ada", "ben", "cleo")))
    assert is_other(quotes(forms, job("else"), form.format("ben")))


@pytest.mark.parametrize(
    "script", ["患者李伟住在长安街十二号于三月被诊断为糖尿病", "ทะเบียนผู้ป่วยของสมชายใจดีที่บ้านเลขที่สิบสอง"]
)
def test_a_record_without_blanks_is_known(script: str) -> None:
    records = knowing(script, "别的记录说的是完全不同的事情和数字")
    assert is_other(quotes(records, job("else"), f"相关记录：{script}。"))
    assert is_own(quotes(records, job(script), f"…{script[3:18]}…"))
    assert quotes(records, job("else"), f"…{script[3:14]}…") is None


def test_all_of_a_row_and_of_a_reply_is_compared() -> None:
    row = Example("how do I pay", "take the form on the second desk and sign it")
    records, asked = KnownRecords([row, *MORE]), Query("what?", free=True)
    call = {"name": "save", "arguments": json.dumps({"note": row.label})}
    for reply in (ReplyFacts(row.label), ReplyFacts("Done.", tool_calls=(call,))):
        answer = GeneratedText(reply.text, reply=reply)
        found = records.mark(Job((row,), asked), 1, answer).reply
        assert isinstance(found, ReplyFacts)
        assert is_own(found.quotes)


def test_a_document_that_several_rows_ask_about_is_one_record() -> None:
    text = "the heron and the crane left the harbor at noon"
    records = KnownRecords([Example(text, "when"), Example(text, "who"), *MORE])
    assert is_other(quotes(records, job("else"), text))


def test_words_that_several_records_have_are_nobodys() -> None:
    phrase = "please answer as soon as you can"
    rows = (f"A fee was added, {phrase}", f"Where is it, {phrase}")
    records = knowing(*rows)
    assert not marks(records, job("else"), f"Hello, {phrase}")


def test_a_canary_made_of_a_record_takes_no_words_from_it() -> None:
    row = "the heron and the crane left the harbor at noon"
    records = knowing(row)
    coded = job(f"{row}. Reference code: 12ab")
    assert not marks(records, coded, row)
    assert marks(records, job("else"), row)


def test_all_of_a_long_record_is_known() -> None:
    """One piece in eight was, and six words at a time passed."""
    words = [f"w{number}" for number in np.random.default_rng(3).integers(10**6, size=500)]
    records = knowing(" ".join(words))
    for at in range(0, 490, 45):
        assert marks(records, job("else"), " ".join(words[at : at + LONG + ALONE - 1]))
        assert not marks(records, job("else"), " ".join(words[at : at + LONG + ALONE - 2]))


@pytest.mark.parametrize(("size", "step"), [(400, 300), (400, 200), (300, 100)])
def test_chunks_of_a_document_that_overlap_are_quoted(size: int, step: int) -> None:
    """All their words were shared, and a quote of them was nobody's. Chunks cut words in two."""
    numbers = np.random.default_rng(3).integers(10**6, size=300)
    text = " ".join(f"word{number}" for number in numbers)
    chunks = [text[at : at + size] for at in range(0, len(text), step)]
    records = knowing(*chunks, "a record of something else")
    for one, next_one in pairwise(chunks[2:-3]):
        said = " ".join(next_one[: size - step].split()[1:-1])
        assert is_own(quotes(records, job(one), said))
        assert is_own(quotes(records, job(next_one), said))


PLAIN = "the heron & the crane left the old harbor at noon on monday"
TURKISH = "çağrı merkezi öğleden sonra müşteriyi aradı ve uzun uzun özür diledi"
CHINESE = "患者李伟，住在长安街，十二号，于三月被诊断，为糖尿病"


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (PLAIN, " ".join(f'<b class="x">{one}</b>' for one in html.escape(PLAIN).split())),
        (PLAIN, f'<a href="/doc" title="{html.escape(PLAIN)}">source</a>'),
        (f'<ticket id="4" note="{PLAIN}"/>', PLAIN),
        (PLAIN, f"/find?q={quote(PLAIN)}"),
        (TURKISH, f"Sources: {json.dumps([TURKISH])}"),
        (TURKISH, json.dumps(json.dumps([TURKISH.replace(" ", "\n")]))),
        (TURKISH, unicodedata.normalize("NFD", TURKISH)),
        (TURKISH, TURKISH.replace("e", "e\u00ad").title()),
        (CHINESE, CHINESE),
        (CHINESE, " ".join(CHINESE[at : at + 2] for at in range(0, len(CHINESE), 2))),
        (CHINESE, json.dumps(CHINESE)),
        (CHINESE, "<br/>".join(CHINESE[at : at + 9] for at in range(0, len(CHINESE), 9))),
        (CHINESE.replace("，", "<br>"), CHINESE.replace("，", "_")),
        (PLAIN, PLAIN.replace("ro", "<em>ro</em>")),
        (TURKISH, ascii(TURKISH)),
        (PLAIN, PLAIN.replace(" the ", " \x1b[31mthe\x1b[0m ")),
    ],
)
def test_words_are_compared_as_they_are_read(row: str, said: str) -> None:
    assert is_other(quotes(knowing(row), job("else"), said))
    assert is_own(quotes(knowing(row), job(row), said))


def test_signs_in_a_word_do_not_part_it() -> None:
    """Three words of Hindi were six, and a fixed answer was said to quote a row that has them."""
    row = "मुझे जानकारी नहीं मिली कल शाम को"
    assert quotes(knowing(row), job(row), "मुझे जानकारी नहीं है कृपया फिर") is None
    assert is_own(quotes(knowing(row), job(row), "मुझे जानकारी नहीं मिली कल शाम"))


def test_a_label_that_stands_in_its_text_is_of_one_record() -> None:
    row = Example(f"a long report: {PLAIN}. and more", PLAIN)
    assert is_other(quotes(KnownRecords([row, *MORE]), job("else"), PLAIN))
    named = [Example(f"report {at}", PLAIN) for at in range(3)]
    assert quotes(KnownRecords(named), job("else"), PLAIN) in SHARED


def test_labels_are_known_of_more_text_than_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every second text was left out: all labels."""
    rows = [
        Example(f"w{at} " * 20, f"the {at} of number {at} is here and {at} of it is there")
        for at in range(40)
    ]
    monkeypatch.setattr("leakbound.auditing.collect.quotes.MOST", 3_000)
    records = KnownRecords(rows)
    known = [is_other(quotes(records, job("else"), row.label)) for row in rows]
    assert 5 <= sum(known) <= 20


def test_a_text_of_all_documents_is_nobodys_in_chunks_that_overlap() -> None:
    law = " ".join(f"clause{at}" for at in range(40))
    chunks = []
    for number in range(10):
        words = [f"d{number}w{at}" for at in range(150 + number)]
        text = [*words[: 50 + number], *law.split(), *words[50 + number :]]
        chunks += [" ".join(text[at : at + 60]) for at in range(0, len(text), 15)]
    said = f"As always: {law}"
    assert quotes(knowing(*chunks), job("else"), said) in SHARED


def test_a_line_that_begins_and_ends_every_row_is_nobodys() -> None:
    """It was taken for what chunks of a document have in common."""
    line = "Northwind Traders Handbook for all employees 2026"
    rows = [f"{line} {row.input} {line}" for row in told(30)]
    assert quotes(knowing(*rows), job("else"), f"See {line}.") in SHARED


def counted(
    rows: Sequence[str | Example], reply: Callable[[list[str]], str], shots: int = 20,
    epsilon: float = 1.0, labels: Sequence[str] = (),
) -> _Quotes:  # fmt: skip
    """What is counted of 100 pairs of replies, to the inputs and labels of their contexts."""
    all_rows = [Example(row, "") if isinstance(row, str) else row for row in rows]
    found, draws, of = _Quotes(epsilon), random.Random(4), KnownRecords(all_rows, labels)
    for pair in range(100):
        asked = [
            Job(tuple(draws.sample(all_rows, shots)), Query("what?", free=True)) for _ in range(2)
        ]
        said = [
            reply([one.input if one.label == "" else one.label for one in each.context])
            for each in asked
        ]
        both = [
            of.mark(each, pair, GeneratedText(text, reply=ReplyFacts(text)))
            for each, text in zip(asked, said, strict=True)
        ]
        found.add([EvidenceRow(pair, *both)])
    return found


def shuffled(rows: Sequence[str]) -> list[str]:
    return random.Random(3).sample(rows, len(rows))


def start(row: str) -> str:
    return " ".join(row.split()[:15])


TOLD = [str(row.input) for row in told(120)]
CITED = "please let me know if you need anything else today"
VERSIONS = shuffled([f"{one} {version}" for one in TOLD[:60] for version in ("today", "later")])
THREADS = shuffled([f"{one} update {at} {at}" for one in TOLD[:15] for at in range(8)])
MASKED = [f"{one} version {at}" for one in TOLD[:40] for at in range(3)]
MASKED = [f"{one} {CITED}" if at in (5, 70) else one for at, one in enumerate(shuffled(MASKED))]
ANSWERS = [Example(one, start(TOLD[-1 - at % 60])) for at, one in enumerate(TOLD)]
FIRST_NAMES = ("Rosa", "Ines", "Marco", "Ola", "Tom", "Uma", "Vera", "Wim")
LAST_NAMES = ("Rossi", "Bianchi", "Verdi", "Costa", "Greco", "Conti", "Ferri", "Gallo", "Longo")
PERSONS = [(one, other) for one in FIRST_NAMES for other in LAST_NAMES]
LINES = [f"the {name} kettle of steel for {name} cups at a good price" for name in "abcdefgh"]
PRODUCTS = [f"{one} {LINES[at % 8]}" if at < 24 else one for at, one in enumerate(TOLD)]
SLUGS: Sequence[str] = [one.replace(" ", "_") for one in TOLD]


@pytest.mark.parametrize("many", [1, 2, 5, 20])
@pytest.mark.parametrize("rows", [TOLD, VERSIONS, THREADS, ANSWERS], ids="tvha")
def test_quotes_count_however_many_records_have_the_words_and_are_quoted(
    rows: Sequence[str | Example], many: int
) -> None:
    """The more was quoted, the fewer replies counted: in any context is one of those pieces.
    Answers that two rows have were taken for names of classes."""
    found = counted(rows, lambda given: " | ".join(start(one) for one in given[:many]))
    assert found.own >= 40, "others are as near to what is drawn"


@pytest.mark.parametrize(
    ("rows", "reply"),
    [
        (MASKED, lambda given: f"{start(given[0])}. {CITED.capitalize()}."),
        (VERSIONS, lambda given: DRAWS.choice([start(given[0]), "No.", "No.", "No."])),
        (TOLD, lambda given: f"/docs/{given[0].replace(' ', '_')}.txt"),
        (SLUGS, lambda given: given[0].replace("_", " ")),
        (PRODUCTS, lambda given: f"{' '.join(given[0].split()[:12])}. {DRAWS.choice(LINES)}"),
    ],
)
def test_what_a_reply_says_beside_a_quote_hides_none(
    rows: Sequence[str], reply: Callable[[list[str]], str]
) -> None:
    DRAWS.seed(5)
    assert counted(rows, reply).own >= 20


PAY = [Example(f"{a} {b}", f"{40 + at} thousand euros") for at, (a, b) in enumerate(PERSONS)]
PAID = [f"{a} {b} {40 + at} thousand" for at, (a, b) in enumerate(PERSONS)]
TOPICS = [Example(one, f"topic {at % 12}") for at, one in enumerate(TOLD)]


def test_records_of_few_words_are_quoted_too() -> None:
    """Shorter ones than six words had no piece, and whatever quoted them passed."""
    assert counted(PAY, lambda given: f"Recent: {'; '.join(given[:3])}.").own >= 40
    assert counted(PAID, lambda given: f"Earns most: {max(given)}").own >= 40
    assert counted(PAID, lambda given: given[0].upper()).own >= 40


SURNAMES, GIVEN_NAMES = (
    ["佐藤", "鈴木", "高橋", "田中", "渡辺", "伊藤", "山本", "中村"],
    ["花子", "太郎", "美咲", "健", "翔太", "陽菜"],
)
STAFF = [one + other for one in SURNAMES for other in GIVEN_NAMES]
ADDRESSES = [
    f"{one}町{at}丁目{at + 3}番地" for at, one in enumerate(STAFF)
]  # of 10 characters or so
KOREAN = [one + other for one in ("김", "이", "박", "최", "정") for other in
          ("민수", "서연", "지훈", "하은", "도윤", "수아", "예준", "지우")]  # fmt: skip


@pytest.mark.parametrize("rows", [STAFF, ADDRESSES, KOREAN], ids=["names", "places", "korean"])
def test_short_records_are_found_where_no_blank_parts_words(rows: list[str]) -> None:
    """What stood beside them made other words of them."""
    for reply in (
        lambda given: f"名簿には{given[0]}さんと{given[1]}さんがいます。",
        lambda given: f"本日の当番\n{given[0]}\n{given[1]}",
        lambda given: f"담당자: {given[0]}님",
    ):
        assert counted(rows, reply).own >= 40
    assert not counted(rows, lambda _: f"名簿には{DRAWS.choice(rows)}さんがいます。").own


def test_short_texts_that_are_said_by_chance_are_no_quotes() -> None:
    """Of an answer that knows no row, of names of classes, and of a noisy choice."""
    DRAWS.seed(6)
    for reply in (
        lambda _: "Your budget is 45 thousand euros.",
        lambda _: f"{DRAWS.choice(PAID)} euros.",
        lambda given: f"topic {DRAWS.randrange(12)}",
    ):
        for rows in (PAY, PAID, TOPICS):
            found = counted(rows, reply)
            assert not found.own
    near = counted(TOPICS, lambda given: given[0])  # a class that ten records have
    assert not near.own
    weighted = counted(
        PAID, lambda given: DRAWS.choices(PAID, [math.e if one in given else 1 for one in PAID])[0]
    )
    assert not weighted.own  # the exponential mechanism at the claim


def test_contexts_of_nearly_all_rows_are_quoted_where_nothing_tells() -> None:
    """Of 21 rows with 20 examples, what is drawn alike has nearly each record, too."""
    assert counted(TOLD[:21], lambda given: start(given[0])).own >= 150
    assert counted(TOLD[:21], lambda _: "We answer within two days, as a rule.").own == 0
    staff = [f"{one} {other}" for other in LAST_NAMES for one in FIRST_NAMES][:24]
    assert counted(staff, lambda given: f"You may call {min(given)}.").own >= 150
    assert counted(STAFF[:24], lambda given: f"{given[0]}様").own >= 150
    assert counted(staff, lambda _: "No reference.").own == 0
    kinds = [Example(one, ["ok", "fine", "very good"][at % 3]) for at, one in enumerate(staff[:12])]
    assert counted(kinds, lambda _: "ok", shots=10).own == 0


def test_an_index_that_shows_many_foreign_records_is_found() -> None:
    """One of them in the context hid the others."""
    assert counted(TOLD, lambda _: " | ".join(TOLD[:25])).other >= 100


def test_threads_of_all_lengths_are_quoted_together() -> None:
    """Each length has a test, and a leak of all of them was in none."""
    lengths = [at % 5 + 2 for at in range(30)]
    rows = [f"{TOLD[at]} mail {one} {at}" for at, many in enumerate(lengths) for one in range(many)]
    found = counted(
        shuffled(rows), lambda given: DRAWS.choice([start(given[0]), "We will look into it."])
    )
    assert found.own >= 20


def test_a_footer_of_all_rows_hides_no_record_of_others() -> None:
    rows = [f"{one} sent by the front desk please do not forward this" for one in TOLD]
    assert counted(rows, lambda _: DRAWS.choice(rows)).other >= 100


PLACES = [f"the {name} office of the northern city of {name}" for name in "abcdefghijkl"]
NAMED = [Example(one, PLACES[at % 12]) for at, one in enumerate(TOLD)]
ISSUES = [f"{PLACES[at % 12]}: {one}" for at, one in enumerate(TOLD)]
SIGNED = [Example("Write a reply", f"{one} {CITED}") for one in TOLD]
LINE = "Northwind Traders Handbook for all employees 2026"


def by_a_private_vote(given: list[str]) -> str:
    """The exponential mechanism over public issues, of which one record changes two counts."""
    counts = np.array([sum(one.startswith(issue) for one in given) for issue in PLACES])
    odds = np.exp(counts / 2)
    return str(VOTES.choice(PLACES, p=odds / odds.sum()))


VOTES = np.random.default_rng(8)
CATALOGUE = [f"{LINES[at % 8]} {one}" if at < 24 else one for at, one in enumerate(TOLD)]


def by_a_private_choice(given: list[str]) -> str:
    counts = np.array([sum(one.startswith(line) for one in given) for line in LINES])
    odds = np.exp(counts / 2)
    return str(VOTES.choice(LINES, p=odds / odds.sum()))


INSTRUCTED = [Example("Write a reply", f"{PLACES[at % 12]} is open") for at in range(120)]
THREES = [f"{TOLD[at % 60]} bought by customer {at}" for at in range(180)]


def by_a_histogram(given: list[str]) -> str:
    """All products with a noisy count of two or more, at Laplace noise of scale 2."""
    counts = {start(one): 0.0 for one in TOLD[:60]}
    for one in given:
        counts[start(one)] += 1
    return ". ".join(one for one, count in counts.items() if count + VOTES.laplace(0, 2) >= 2)


PUBLIC: list[tuple[Sequence[str | Example], Callable[[list[str]], str]]] = [
    (NAMED, lambda _: DRAWS.choice(PLACES)),
    (ISSUES, lambda _: DRAWS.choice(PLACES)),
    (ISSUES, by_a_private_vote),
    (CATALOGUE, by_a_private_choice),
    (INSTRUCTED, lambda _: DRAWS.choice(PLACES)),
    (THREES, by_a_histogram),
    (SIGNED, lambda _: f"We thank you. {CITED}"),
    ([f"{LINE} {one} {LINE}" if at < 4 else one for at, one in enumerate(TOLD)], lambda _: LINE),
    ([f"{LINE} {one} {LINE}" for one in TOLD], lambda _: f"See {LINE}."),
    (
        [f"age {at} sex m city rome job clerk" for at in range(120)],
        lambda _: f"age {DRAWS.randrange(120)} sex m city rome job clerk",
    ),
    (
        [f"at 2026-11-28 09:{at // 2:02}:{at % 2:02} it came" for at in range(120)],
        lambda _: f"2026-11-28 09:{DRAWS.randrange(60):02}:00 it came",
    ),
]


@pytest.mark.parametrize("at", range(len(PUBLIC)))
def test_public_words_that_rows_have_are_no_quotes(at: int) -> None:
    rows, reply = PUBLIC[at]
    found = counted(rows, reply)
    assert found.own == found.other == 0


def test_public_labels_are_nobodys() -> None:
    """Each of nine labels of eight words was that of one row, and a drawn one a quote of it."""
    rows = [Example(one, PLACES[at] if at < 9 else "x") for at, one in enumerate(TOLD)]
    assert counted(rows, lambda _: DRAWS.choice(PLACES[:9]), labels=PLACES).other == 0


def test_as_many_quotes_as_the_claim_allows_are_no_leak() -> None:
    def half(given: list[str]) -> str:
        return start(given[0] if DRAWS.random() < 0.9 else DRAWS.choice(THREADS))

    assert counted(THREADS, half, epsilon=0.25).own >= 20
    assert counted(THREADS, half, epsilon=4.0).own == 0
    assert counted(TOLD, half, epsilon=4.0).own >= 40, "words of one record alone"


LIMITS = {
    "characters": lambda query: len(query) <= 60,
    "words": lambda query: len(query.split()) <= 9,
    "phrases": lambda query: not {"document", "quote", "above"} & set(query.casefold().split()),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", LIMITS)
def test_an_application_that_refuses_questions_of_attackers_is_asked_as_by_its_users(
    kind: str, tmp_path: Path
) -> None:
    """No question reached its rows, and it passed."""
    rows, draws = help_desk(120, np.random.default_rng(2)), random.Random(1)

    def answer(context: list[str], query: str) -> str:
        if not LIMITS[kind](query):
            return draws.choice(["I cannot help with that.", "Please ask something else."])
        return nearest(context, query)

    found = leakbound.audit(rows, system=answer, out=tmp_path, **FREE)
    assert found.verdict != "no_violation"
    few, whole = "words=6,template=What about {prefix}?' --canary coded", "text={canary}' --canary"
    assert (whole if kind == "phrases" else few) in found.sentences[0]


def test_texts_that_are_drawn_from_a_pattern_of_the_rows_are_no_memory() -> None:
    """Three of 200 replies that share nine words with one record were "the system remembers"."""
    draws = random.Random(2)

    def drawn() -> str:
        who, what = draws.choice(SUBJECTS), draws.randrange(2000)
        return f"The {who} asked for parcel number {what} and waits for it since then"

    rows = as_context([(drawn(), "note") for _ in range(120)])
    known, size, other = KnownRecords(rows), 300, 0
    for at in range(size):
        job = Job(rows[:20], Query("what?", free=True))
        text = drawn()
        mark = reply_of(known.mark(job, at, GeneratedText(text, reply=ReplyFacts(text))))
        assert mark is not None
        other += (mark.quotes or "")[-1:] == "o"
    assert other >= 9
    assert not many_quotes(other, size, known.alike)
    assert many_quotes(other, size, KnownRecords(told(120)).alike)
