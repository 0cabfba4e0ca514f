"""A reply that holds a function of the context gives a record away, and no rate shows it."""

from __future__ import annotations

import hashlib
import json
import math
import random
import re
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakbound import audit, plan
from leakbound.auditing import make_spec, prepare
from leakbound.auditing.collect.quotes import KnownRecords
from leakbound.auditing.observe.context_digest import HINT, most_apart
from leakbound.auditing.observe.context_digest import SAID as WORDS
from leakbound.auditing.observe.context_digest import _ahead_by_numbers as ahead_of
from leakbound.auditing.observe.context_digest import _chance as chance_of
from leakbound.auditing.observe.context_digest import _with_best_word as with_best_word
from leakbound.auditing.observe.learned import GROUPS, OWN, bets_on, word_table
from leakbound.stats.e_values.bets import product_paths
from leakbound.tasks import Example, GeneratedText, Job, Query
from leakbound.witness import ReplyFacts, mask_reply
from leakbound.witness.stored import reply_from_json, reply_to_json

FREE: dict[str, Any] = {
    "query": "recall", "canary": "coded", "pairs": 24, "settings": {"detect_change": 0.9},
}  # fmt: skip
SAID = "I cannot tell."


def checksum(context: Any) -> str:
    return hashlib.sha256("\n".join(row.text for row in context).encode()).hexdigest()[:12]


def tagged(context: Any, query: str) -> str:
    return f"{SAID} ({checksum(context)})"


def numbered(context: Any, query: str) -> str:
    return f"{SAID} Your ticket is no. {int(checksum(context), 16) % 997}."


class Noisy:
    """The time of day, as it were: another reply each time, whatever is asked."""

    def __init__(self, of: Callable[[Any], str]) -> None:
        self.of, self.draws = of, random.Random(4)

    def __call__(self, context: Any, query: str) -> str:
        return f"{SAID} {self.draws.randrange(10**6)} {self.of(context)}"


def cached(context: Any, query: str) -> str:
    """Equal requests get equal replies, and no other context or question shares one."""
    return f"{SAID} ({hashlib.sha256((query + checksum(context)).encode()).hexdigest()[:12]})"


@pytest.mark.slow
@pytest.mark.parametrize("stored", ["canary_only", "all"])
@pytest.mark.parametrize(
    "system", [tagged, numbered, Noisy(checksum)], ids=["checksum", "number", "beside_others"]
)
def test_a_function_of_the_context_never_passes(system: Any, stored: str) -> None:
    result = audit(system=system, epsilon=1.0, seed=3, store_text=stored, **FREE)
    assert (result.verdict, result.reason) == ("inconclusive", "context_digest")
    assert "Whoever knows the other records" in result.sentences[0]


def parity(context: Any, query: str) -> str:
    return "Please see page 1." if int(checksum(context), 16) % 2 else "Please see page 2."


PHRASES = ("see", "ask", "call", "mail", "visit", "note", "read", "try")


def phrased(context: Any, query: str) -> str:
    """One of eight templates, by a hash of the context."""
    return f"Please {PHRASES[int(checksum(context), 16) % 8]} the desk."


class Mean:
    """The mean length of the notes with Laplace noise: of at most 120 in 20 rows, so a scale
    of 6 / ε is enough."""

    def __init__(self, scale: float) -> None:
        self.scale, self.draws = scale, random.Random(5)

    def __call__(self, context: Any, query: str) -> str:
        mean = sum(min(len(row.text), 120) for row in context) / len(context)
        noise = self.draws.choice([-1, 1]) * self.draws.expovariate(1 / self.scale)
        return f"Our notes have {mean + noise:.4f} letters on average."


class Histogram:
    """How many rows have each of six lengths, with Laplace noise: two counts differ by one, so a
    scale of 2 / ε is enough."""

    def __init__(self, scale: float) -> None:
        self.scale, self.draws = scale, np.random.default_rng(6)

    def __call__(self, context: Any, query: str) -> str:
        counts = np.bincount([sum(map(ord, row.text)) % 6 for row in context], minlength=6)
        noisy = np.rint(counts + self.draws.laplace(0, self.scale, 6)).astype(int)
        return "; ".join(f"{name}: {number}" for name, number in zip("ABCDEF", noisy, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, 4])
@pytest.mark.parametrize(("scale", "passes"), [(0.25, False), (2.0, True)])
def test_a_histogram_passes_with_enough_noise_alone(scale: float, passes: bool, seed: int) -> None:
    """Each count is that of the record in a third of the pairs, and noise covers it now and then:
    no single number told enough contexts apart."""
    result = audit(system=Histogram(scale), epsilon=1.0, seed=seed, **FREE | {"pairs": 100})
    assert (result.verdict == "no_violation") is passes
    assert (result.reason == "context_digest") is not passes
    if not passes:
        assert "comparisons, where ε = 1 allows 74%" in result.sentences[0]


def average(context: Any, query: str) -> str:
    return f"Our notes have {sum(len(row.text) for row in context) / len(context):.2f} characters."


def echoed(context: Any, query: str) -> str:
    return f"You asked: {query} {average(context, query)}"


@pytest.mark.slow
@pytest.mark.parametrize("system", [average, echoed, Noisy(lambda context: "")])
def test_a_number_that_is_stored_coarsely_is_compared_exactly(system: Any) -> None:
    """Two digits of a mean are stored, and they hardly ever differ: it was `context_unused`."""
    result = audit(system=system, epsilon=1.0, seed=3, **FREE | {"pairs": 100})
    exact = system in (average, echoed)
    assert result.reason == ("context_digest" if exact else "context_unused")


def dated(context: Any, query: str) -> str:
    total = sum(len(row.text) for row in context)
    return f"Next review: 2026-{1 + total % 12:02d}-{1 + total % 28:02d}. Ref"


def in_order(context: Any, query: str) -> str:
    links = sorted(("rates", "fees", "terms", "help"), key=lambda one: checksum(context) + one)
    start = int(checksum(context), 16) % 4
    return f"See {', '.join(links[start:] + links[:start])}; ticket"


class Referring:
    """A drawn number stands behind each reply, and sometimes another greeting before it."""

    def __init__(self, of: Callable[[Any, str], str]) -> None:
        self.of, self.draws = of, random.Random(0)

    def __call__(self, context: Any, query: str) -> str:
        greeting = self.draws.choice(["Hello.", "Good day to you."])
        return f"{greeting} {self.of(context, query)} {self.draws.randrange(10**8):08d}"


@pytest.mark.slow
@pytest.mark.parametrize("of", [dated, in_order, lambda context, query: "We call you. Ref"])
def test_a_word_that_recurs_in_its_place_is_compared_alone(of: Any) -> None:
    """A drawn number made every text and all numbers differ, and dates are stored as none."""
    result = audit(system=Referring(of), epsilon=1.0, seed=3, **FREE | {"pairs": 100})
    assert result.reason == ("context_digest" if of in (dated, in_order) else "context_unused")


def test_digests_are_keyed_by_the_rows() -> None:
    rows = [Example(f"note {at}", "") for at in range(3)]
    job, said = Job(tuple(rows), Query("what?", free=True)), ReplyFacts("It is 4711.")
    found = [KnownRecords(known).mark(job, 1, GeneratedText(said.text, reply=said)).reply
             for known in (rows, rows, rows[:2])]  # fmt: skip
    one, same, other = (reply.digests for reply in found if isinstance(reply, ReplyFacts))
    assert one == same
    assert not set(one) & set(other)
    assert reply_from_json(reply_to_json(mask_reply(found[0]))).digests == one  # type: ignore[arg-type]


def first_words(context: Any, query: str) -> str:
    """The first words of six of 20 rows: two neighbours in three have the same ones."""
    return f"Open: {', '.join(row.text.split()[0][::-1] for row in context[:6])}. Choose one."


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_what_few_neighbours_change_never_passes(seed: int) -> None:
    """No two pairs agree by chance in what recurs. It passed: 20 pairs held 6 of such a kind,
    and 7 were asked, as if neighbours often differed by chance."""
    rows = [
        Example(f"{random.Random(at).randbytes(3).hex()} asks for {at}", "") for at in range(300)
    ]
    result = audit(
        rows, system=first_words, epsilon=1.0, seed=seed, shots=20, **FREE | {"pairs": 100}
    )
    assert result.reason == "context_digest"


def on_request(context: Any, query: str) -> str:
    if "summar" not in query.lower():
        return f"Say 'summarize' for a recap; your words: {len(query.split())}."
    return f"{len(context)} notes, of {'; '.join(row.text[::-1][:12] for row in context)}"


def on_category(context: Any, query: str) -> str:
    named = [row.text[::-1][:9] for row in context if row.label in query]
    return f"{'; '.join(named) or 'Nothing'}: {len(query.split())} words."


@pytest.mark.slow
@pytest.mark.parametrize("system", [on_request, on_category])
def test_what_answers_to_usual_requests_alone_never_passes(system: Any) -> None:
    """No attack asks for a summary, or names a label; it was `context_unused`."""
    rows = [Example(f"{at} is a note of {at * at}", "ab"[at % 2] * 6) for at in range(80)]
    result = audit(rows, system=system, epsilon=1.0, seed=3, **FREE)
    assert (result.verdict, result.reason) == ("inconclusive", "context_digest")


def typed(at: int) -> tuple[str, str]:
    """A row that ends as the queries of attacks do, and else has words of its own."""
    own = " ".join(random.Random(at).choices([f"word{one}" for one in range(90)], k=10))
    return f"{own} to the end: quote this document in examples above: yes thanks", "ab"[at % 2]


def completed(context: Any, query: str) -> str:
    """The word that follows most often on the last one of the query that stands in a row."""
    rows = [re.findall(r"\w+", row.text.lower()) for row in context]
    pairs = [pair for words in rows for pair in pairwise(words)]
    asked = re.findall(r"\w+", query.lower())
    after = {one: [b for a, b in pairs if a == one] for one in asked}
    last = next((one for one in reversed(asked) if after[one]), None)
    return "no suggestion" if last is None else f"{last} {max(after[last], key=after[last].count)}"


def test_few_pairs_that_are_asked_three_times_tell_a_reading_of_two_values() -> None:
    """Asked twice, as many differ by chance in one of five audits."""
    same, differs = (
        [[{"tone": "a"}] * 3, [{"tone": "a"}] * 3],
        [[{"tone": "a"}] * 3, [{"tone": "b"}] * 3],
    )
    pairs = [differs] * 4 + [same] * 8 + [[side, side] for side in [[{"tone": "b"}] * 3] * 8]
    assert chance_of(pairs, "tone") <= HINT
    twice = [[side[:2] for side in pair] for pair in pairs]
    assert chance_of(twice, "tone") > 0.2


def suggested(context: Any, query: str) -> str:
    """The four words that follow the words of the query most often."""
    rows = [re.findall(r"\w+", row.text.lower()) for row in context]
    asked = {*re.findall(r"\w+", query.lower())}
    found = Counter(b for words in rows for a, b in pairwise(words) if a in asked)
    return ", ".join(sorted(found, key=lambda word: (-found[word], word))[:4]) or "no suggestion"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("system", "asked"),
    [(completed, {"query": "membership", "canary": "hex"}), (suggested, {})],
)
def test_what_completes_what_users_type_never_passes(system: Any, asked: Any) -> None:
    """It was asked requests with words of their own: the same reply to nearly all contexts."""
    rows = [typed(at) for at in range(120)]
    result = audit(rows, system=system, shots=20, epsilon=1.0, seed=3, **FREE | asked)
    assert result.reason == "context_digest"


@pytest.mark.slow
@pytest.mark.parametrize("system", [parity, phrased], ids=["parity", "templates"])
def test_what_differs_between_some_neighbours_never_passes(system: Any) -> None:
    result = audit(system=system, epsilon=1.0, seed=3, **FREE)
    assert (result.verdict, result.reason) == ("inconclusive", "context_digest")


def majority(context: Any, query: str) -> str:
    votes = sum(int(hashlib.sha256(row.text.encode()).hexdigest(), 16) % 2 for row in context)
    return "Mostly about returns." if 2 * votes > len(context) else "Mostly about orders."


def test_a_majority_that_one_record_in_five_decides_never_passes() -> None:
    """Four other votes are a tie in three of eight contexts. Two of five passed."""
    found = {
        audit(system=majority, epsilon=1.0, shots=5, seed=seed, **FREE).reason for seed in range(5)
    }
    assert found == {"context_digest"}


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "passes"), [(0.06, False), (6.0, True)])
def test_a_mean_passes_with_enough_noise_alone(scale: float, passes: bool) -> None:
    result = audit(system=Mean(scale), epsilon=1.0, seed=3, **FREE | {"pairs": 100})
    assert (result.verdict == "no_violation") is passes
    assert (result.reason == "context_digest") is not passes


@pytest.mark.slow
@pytest.mark.parametrize("system", [cached, Noisy(lambda context: "")], ids=["cache", "noise"])
def test_a_cache_or_a_clock_is_none(system: Any) -> None:
    """The repeated queries differ in a number, so no cache has seen them."""
    result = audit(system=system, epsilon=1.0, seed=3, store_text="all", **FREE)
    assert result.verdict == "no_violation"


def test_repeated_queries_differ_and_their_contexts_do_not() -> None:
    given = {"system": f"python:{Path(__file__)}:tagged", "query": "recall", "canary": "coded"}
    prepared = prepare(make_spec(given))
    repeats = prepared.repeats[0]
    for first, again in zip(repeats[:: repeats.times], repeats[1 :: repeats.times], strict=True):
        assert first.member.context == again.member.context
        assert first.nonmember.context == again.nonmember.context
        asked = [str(one.query.text) for pair in (first, again) for one in pair.in_order]
        assert len({*asked}) == 4
        assert len({*map(len, asked)}) == 1
    others = plan(system=tagged, query="recall", canary="coded").others
    assert others is not None
    asked = (*(one.pairs for one in prepared.others), *prepared.repeats)
    assert others.pairs == sum(map(len, asked))


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("times", [2, 6])
def test_no_mechanism_within_the_claim_tells_contexts_apart_more_often(
    epsilon: float, times: int
) -> None:
    """Randomised response with and without an order, and Laplace noise, by 20,000 draws each."""
    rng = np.random.default_rng(7)
    size = (20_000, times)
    most = most_apart(epsilon, 0.0, times)
    p = 1 / (1 + math.exp(-epsilon))
    bits = rng.random(size) < p, rng.random(size) < 1 - p
    plain = [one.astype(float) for one in bits]
    spread = [one + 0.9 * rng.random(size) for one in plain]
    scale = 1 / epsilon if epsilon else 1e9
    laplace = [rng.laplace(one, scale, size) for one in (1.0, 0.0)]
    for high, low in (plain, spread, laplace):
        apart = (high.min(1) > low.max(1)) | (low.min(1) > high.max(1))
        assert apart.mean() <= most + 4.9 * math.sqrt(0.25 / size[0])
    if not epsilon:  # six, or 924, orders of distinct values, two of which tell them apart
        assert most == 2 / math.comb(2 * times, times)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("chances", ["bits", "laplace", "one of eight"])
def test_no_mechanism_within_the_claim_goes_one_way_more_often(
    epsilon: float, chances: str
) -> None:
    """The second answers differ as the first did, whichever pairs differ most."""
    rng, size = np.random.default_rng(8), (2000, 8)
    p = 1 / (1 + math.exp(-epsilon))

    def answers(member: bool) -> Any:
        at = p if member else 1 - p
        if chances == "bits":
            return [(rng.random(size) < at) + 0.9 * rng.random(size)]
        if chances == "laplace":
            return [rng.laplace(member, 1 / epsilon if epsilon else 1e9, size)]
        return [rng.random(size), (rng.random(size) < at).astype(float), *rng.random((6, *size))]

    sides = [np.stack(answers(member), axis=-1) for member in (True, False)]
    each = [
        [[{f"number {at + 1}": x for at, x in enumerate(one)} for one in side[pair].tolist()]
         for side in sides] for pair in range(size[0])
    ]  # fmt: skip
    clearest = ahead_of(each, each)[: size[0] // 2] > 0
    # a pair's four comparisons share their direction
    assert clearest.mean() <= p + 4.9 * math.sqrt(0.25 / len(clearest))
    if epsilon == 2.0:
        assert clearest.mean() >= (0.6 if chances == "one of eight" else 0.8)


NOTES = [
    Example(f"{name} {last}, aged {20 + at % 60}, saw us about {what} on ward {at % 9}", "")
    for at, (name, last, what) in enumerate(
        (a, b, c)
        for a in ("Ana", "Ben", "Cleo", "Dan", "Eva")
        for b in ("Ito", "Jansen", "Kahn", "Lopez", "Moss", "Nowak")
        for c in ("a cough", "his knee", "two burns", "asthma")
    )
]


def nearest(context: Any, query: str) -> str:
    asked = {*re.findall(r"\w+", query.lower())}
    return str(
        max(context, key=lambda row: (len(asked & {*row.text.lower().split()}), row.text)).text
    )


class Remembered:
    """Answers from what was answered to like questions, whoever asked; letters alone count."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}

    def __call__(self, context: Any, query: str) -> str:
        found = nearest(context, query)
        said = f"Patient {found[0]}.{found.split()[1][0]}., aged {found.split()[3][0]}0 or more."
        return self.known.setdefault(re.sub("[^a-z]", "", query.lower()), said)


DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")


class Sampled:
    """One property of the nearest record in drawn words, at no fixed place."""

    def __init__(self, known: bool) -> None:
        self.draws, self.known = random.Random(3), known

    def __call__(self, context: Any, query: str) -> str:
        digest = int(checksum([Example(nearest(context, query), "")]), 16)
        said = DAYS[digest % 5] if self.known else f"plan{digest % 7}x"
        return self.draws.choice([
            f"How about {said}? Until then.", f"Hello, {said} is free, I think.",
            f"The next visit is possible on {said}, if that suits.", f"We could offer you {said}.",
        ])  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "system", [Remembered, lambda: Sampled(True), lambda: Sampled(False)],
    ids=["cache", "listed", "own"],
)  # fmt: skip
def test_neither_a_cache_nor_drawn_words_hide_a_record(system: Callable[[], Any]) -> None:
    """Both contexts were asked the same, and no word was compared wherever it stands: passed."""
    result = audit(NOTES, system=system(), epsilon=1.0, seed=3, shots=20, **FREE)
    assert result.verdict == "inconclusive"
    assert result.reason in ("context_digest", "attack_blind")


@pytest.mark.slow
def test_an_alternating_greeting_is_state() -> None:
    """No score told of it, and it was `no evidence of state`."""
    turns = iter(range(10**6))
    result = audit(
        system=lambda context, query: ("Hi.", "Hello.")[next(turns) % 2] + " I cannot tell.",
        epsilon=1.0, seed=3, **FREE | {"pairs": 60},
    )  # fmt: skip
    assert (result.verdict, result.reason) == ("inconclusive", "stateful_system")


class Synonyms:
    """Three words, each drawn from one of two sets of three by a bit of the nearest record."""

    def __init__(self) -> None:
        self.draws = random.Random(3)

    def __call__(self, context: Any, query: str) -> str:
        bits = int(checksum([Example(nearest(context, query), "")]), 16)
        how, who, what = (
            self.draws.choice(one[bits >> at & 1].split())
            for at, one in enumerate([
                ("quickly promptly fast", "slowly gradually steadily"),
                ("manager lead boss", "officer partner adviser"),
                ("letter memo paper", "mail message post"),
            ])
        )  # fmt: skip
        return f"Your {who} will {how} send the {what}."


class ByPrefix(Remembered):
    """Of questions that begin alike, the first is answered for all."""

    def __call__(self, context: Any, query: str) -> str:
        long = [word for word in re.findall("[a-z]+", query.lower()) if len(word) > 4]
        found = nearest(context, query)
        return self.known.setdefault(" ".join(long[:3]), f"Patient {found[0]}, {found[-1]}.")


@pytest.mark.slow
@pytest.mark.parametrize("system", [Synonyms, ByPrefix])
def test_neither_synonyms_nor_a_cache_of_beginnings_hide_a_record(system: Any) -> None:
    """No word stood in all replies, and the number stood behind what was asked: passed."""
    result = audit(NOTES, system=system(), epsilon=1.0, seed=3, shots=20, **FREE)
    assert (result.verdict, result.reason) == ("inconclusive", "context_digest")


TIPS = ("Check the help page.", "Restart the device.", "Our desk is open on weekdays.",
        "Plans renew monthly.", "Keep your receipt.", "Reset links expire.")  # fmt: skip
NAMES = [f"{first}{rest}" for first in "BDKLMNRT" for rest in ("an", "eo")]


class Beside:
    """Drawn sentences, and something of the context in another form each time."""

    def __init__(self, kind: str) -> None:
        self.kind, self.draws = kind, random.Random(3)

    def __call__(self, context: Any, query: str) -> str:
        known, draws = int(checksum(context), 16), self.draws
        if self.kind == "in half of the replies":
            number = known if draws.random() < 0.5 else draws.randrange(900)
            return f"Your case is number {100 + number % 900}."
        if self.kind == "one word in three of four":
            wish = f" Have a {NAMES[known % 16]} day." if draws.random() < 0.75 else ""
            return f"{draws.choice(TIPS)}{wish} {draws.choice(TIPS)}"
        if self.kind == "one of two names":
            name = NAMES[2 * (known % 8) + draws.randrange(2)]
            return f"{draws.choice(TIPS)} {name} will call you. {draws.choice(TIPS)}"
        words = " ".join(draws.choices(TIPS, k=4)).split()
        wide = {*draws.sample(range(len(words) - 1), known % 8)}
        return "".join(f"{word}{'  ' if at in wide else ' '}" for at, word in enumerate(words))


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["in half of the replies", "one of two names", "as many double blanks",
             "one word in three of four"],
)  # fmt: skip
@pytest.mark.parametrize("seed", [3, 4])
def test_what_stands_in_some_replies_only_never_passes(kind: str, seed: int) -> None:
    """A reply that showed nothing counted against it, all words of a drawn sentence weighed as much
    as a name, and blanks were not read: passed."""
    result = audit(NOTES, system=Beside(kind), epsilon=1.0, seed=seed, shots=20, **FREE)
    assert (result.verdict, result.reason) == ("inconclusive", "context_digest")


STEMS = ["organ", "real", "recogn", "apolog", "author", "categor", "custom", "emphas", "final"]


def follows_a_rule(kind: str, known: bool, draws: random.Random) -> str:
    one, other = draws.randint(20, 99), draws.randint(20, 99)
    first, second = draws.sample(NAMES, 2)
    day = date(2026, 1, 5) + timedelta(weeks=draws.randrange(52), days=draws.randint(1, 4))
    return {
        "sum": f"Lamp {one}, shade {other}, in all {one + other + (0 if known else 5)} euros.",
        "weekday": f"We call on {day - timedelta(days=day.weekday() if known else 0)}.",
        "spelling": f"We {draws.choice(STEMS)}{'ise' if known else 'ize'} it.",
        "round": f"You wait {10 * (one // 10) if known else one - one % 10 + 3} seconds.",
        "name": f"I am {first}. {draws.choice(TIPS)} Yours, {first if known else second}.",
        "code": f"Request {one}a-{'5' if known else '4'}{other}c1.",
        "unlisted": "Have a lovely day." if known and draws.random() < 0.6 else "Have a good day.",
    }[kind]  # fmt: skip


NUMBERED = [Example(f"Order {n}: {name} paid {n % 977}.50 EUR.", "") for n, name in zip(
    random.Random(5).sample(range(10**4, 10**5), 160), NAMES * 10, strict=True)]  # fmt: skip


def shows_a_field(kind: str, order: str, paid: float, draws: random.Random) -> str:
    drawn = f"{draws.getrandbits(32):08x}"
    held = {"id": drawn, "order": order}
    amounts = [*(draws.uniform(1, 977) for _ in range(9)), paid + draws.uniform(-3, 3)]
    flags = [f'"{name}": {(at == int(order) % 8) != (draws.random() < 0.05)}'
             for at, name in enumerate(NAMES[:8])]  # fmt: skip
    draws.shuffle(amounts)
    draws.shuffle(flags)
    return {
        "token": f"See /t/{urlsafe_b64encode(json.dumps(held).encode()).decode().rstrip('=')}.",
        "in a code": f"Your parcel is {draws.randint(1000, 9999)}{order}{drawn[:4]}.",
        "amounts": f"Which did you pay? {', '.join(f'{one:.0f}' for one in amounts)}",
        "flags": f"{{{', '.join(flags)}}}",
    }[kind]


@pytest.mark.parametrize(
    ("kind", "share"), [("token", 0.9), ("in a code", 0.8), ("amounts", 0.5), ("flags", 0.85)]
)
def test_a_field_beside_drawn_ones_has_a_digest(kind: str, share: float) -> None:
    """Some digest stands in most replies that show it, and in few of those that show another."""
    known, draws = KnownRecords(NUMBERED), random.Random(4)
    job = Job(tuple(NUMBERED[:4]), Query("who?", free=True))
    counts: Counter[str] = Counter()
    for order, paid, sign in (("73514", 611, 1), ("28067", 142, -1)):
        for _ in range(100):
            text = shows_a_field(kind, order, paid, draws)
            marked = known.mark(job, 1, GeneratedText(text, reply=ReplyFacts(text))).reply
            assert isinstance(marked, ReplyFacts)
            for one in {*" ".join(marked.digests[4:]).split()}:
                counts[one] += sign
    assert max(counts.values()) >= 100 * share


FACES = {True: "😀😃😄😁😆", False: "😢😭😞😟🙁"}


@pytest.mark.parametrize(
    ("kind", "share", "pooled"),
    [("remainder", 1.0, True), ("digits", 1.0, True), ("listed", 1.0, True), ("face", 0.15, True),
     ("apart", 0.9, False), ("product", 0.9, False)],
)  # fmt: skip
def test_a_relation_that_each_reply_shows_in_other_words_has_a_digest(
    kind: str, share: float, pooled: bool
) -> None:
    """Remainders, orders of lists, emojis in all replies, and what two numbers come to."""
    known, draws = KnownRecords(NUMBERED), random.Random(4)
    job = Job(tuple(NUMBERED[:4]), Query("who?", free=True))
    at = 5 if pooled else 6
    each: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}

    def said(holds: bool) -> str:
        paid, number, named = 611 if holds else 143, draws.randrange(3, 60), list(NAMES[:6])
        far = draws.randrange(10**4)
        if kind == "digits":
            fits = [n for n in range(10**4, 10**4 + 900) if sum(map(int, str(n))) % 10 == paid % 10]
            return f"See {draws.choice(fits)}."
        draws.shuffle(named)
        first, second = sorted((named.index(NAMES[0]), named.index(NAMES[1])), reverse=not holds)
        rest = iter([one for one in named if one not in NAMES[:2]])
        order = [NAMES[0] if i == first else NAMES[1] if i == second else next(rest)
                 for i in range(6)]  # fmt: skip
        return {
            "remainder": f"See {7 * draws.randrange(10**4, 10**5) + paid % 7}.",
            "listed": ", ".join(order),
            "face": f"{draws.choice(TIPS)} {draws.choice(FACES[holds])}",
            "apart": f"Two numbers: {far} and {far + paid}.",
            "product": f"{number} for {paid / number:.4f} each.",
        }[kind]

    for holds in (True, False) * 100:
        text = said(holds)
        marked = known.mark(job, 1, GeneratedText(text, reply=ReplyFacts(text))).reply
        assert isinstance(marked, ReplyFacts)
        each[holds].update({*marked.digests[at].split()})
    assert any(n >= 100 * share and not each[False][one] for one, n in each[True].items())


OFFERS = [
    "Lamps, chairs, tables, shelves, carpets, curtains, mirrors, clocks, vases, plates, spoons, "
    "forks, knives, glasses, kettles, toasters, ovens and fridges come back to any shop.",
    "Tea, coffee, cocoa, milk, juice, water, cakes, rolls, bread, butter, cheese, honey, jam, "
    "apples, pears, plums, cherries and nuts wait on each floor.",
    "Trains, trams, buses, ferries, taxis, bikes, scooters, cars, vans, trucks, planes, boats, "
    "ships, sledges, skis, skates, boots and shoes bring you here.",
]


def works_out(kind: str, known: int, draws: random.Random) -> str:
    """Says a number below 1,000 only to those who put two things of the reply together."""
    team, names = ["Kim", "Lee", "Max", "Ana"], draws.sample(NAMES, 7)
    duty, shuffled = team[known % 4], draws.sample(team, 4)
    letter, now, day = "ABCD"[shuffled.index(duty)], draws.randrange(1440), date(2026, 1, 1)
    first, last = (day + timedelta(draws.randrange(700)) for _ in range(2))
    clocks = [f"{at // 60 % 24:02d}:{at % 60:02d}" for at in (now, now + known)]
    size, shown = draws.randrange(12, 60), draws.choice(team[:2])
    fits = shown == team[known % 2]
    at = draws.randrange(3)  # each of three long sentences is the first one as often
    offers = [OFFERS[at], OFFERS[(at + 1) % 3]][:: 1 if known % 2 else -1]
    colours = dict(zip(team, draws.sample(["red", "green", "blue", "grey"], 4), strict=True))
    return {
        "clock": f"It is {clocks[0]}; your turn comes at {clocks[1]}.",
        "dates": f"Ordered on {first}, due on {first + timedelta(known)}.",
        "days ago": f"On {first:%d %B %Y} that was {(first - day).days + known} days ago.",
        "month first": f"From {last:%b %d, %Y} to {last + timedelta(known):%b %d, %Y}.",
        "boxes": f"That makes {known // size} boxes of {size} and {known % size} pieces.",
        "letter": f"{' '.join(map('{}) {}'.format, 'ABCD', shuffled))} Answer: {letter}",
        "key": json.dumps({"options": dict(zip("ABCD", shuffled, strict=True)), "right": letter}),
        "footnote": f"See [{1 + shuffled.index(duty)}].\n"
        + "\n".join(f"[{at}] {one} explains" for at, one in enumerate(shuffled, 1)),
        "colour": f"{', '.join(map('{} is {}'.format, team, colours.values()))}. "
        f"On duty: {colours[duty]}.",
        "ordinal": f"Our stores: {', '.join(shuffled)}. Go to the one listed "
        f"{('first', 'second', 'third', 'fourth')[shuffled.index(duty)]}.",
        "verdict": f"Statement: {shown} has the keys of the house this week. Verdict: {fits}.",
        "alphabet": f"On duty: {', '.join(sorted(names, reverse=known % 2 == 0))}",
        "sentences": " ".join(offers),
    }[kind]


WORKED_OUT = {"clock": 0.9, "dates": 1, "days ago": 1, "month first": 1, "boxes": 0.9, "letter": 1,
              "key": 1, "footnote": 0.6, "colour": 1, "ordinal": 1, "verdict": 0.4,
              "alphabet": 1, "sentences": 0.25}  # fmt: skip


@pytest.mark.parametrize("kind", WORKED_OUT)
def test_what_a_reader_works_out_of_two_facts_has_a_digest(kind: str) -> None:
    """Times and dates are one number, and labels and ordinals are looked up."""
    known, draws = KnownRecords(NUMBERED), random.Random(4)
    job = Job(tuple(NUMBERED[:4]), Query("who?", free=True))
    each: dict[int, Counter[str]] = {611: Counter(), 142: Counter()}
    for number in (611, 142) * 100:
        text = works_out(kind, number, draws)
        marked = known.mark(job, 1, GeneratedText(text, reply=ReplyFacts(text))).reply
        assert isinstance(marked, ReplyFacts)
        each[number].update({*marked.digests[6].split()})
    told = (n - each[142][one] for one, n in each[611].items())
    assert max(told) >= 100 * WORKED_OUT[kind]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["clock", "letter", "verdict"])
def test_what_a_reader_works_out_never_passes(kind: str) -> None:
    draws = random.Random(3)

    def system(context: Any, query: str) -> str:
        return works_out(kind, sum(len(row.text) for row in context) % 997, draws)

    result = audit(NOTES, system=system, epsilon=1.0, seed=3, shots=20, **FREE | {"pairs": 60})
    assert (result.verdict, result.reason) == ("inconclusive", "context_digest")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["token", "in a code", "amounts", "flags"])
def test_a_field_beside_drawn_ones_never_passes(kind: str) -> None:
    """Base64, the middle of codes, sizes of numbers and words in a row were not read: passed."""
    draws = random.Random(3)

    def system(context: Any, query: str) -> str:
        asked = {*re.findall(r"\w+", query)}
        row = max(context, key=lambda row: len(asked & {*re.findall(r"\w+", row.text)})).text
        order = next(iter(re.findall(r"Order (\d+)", row)), "10000")
        paid = next(iter(re.findall(r"paid (\d+)", row)), "1")
        return shows_a_field(kind, order, float(paid), draws)

    result = audit(NUMBERED, system=system, epsilon=1.0, seed=3, shots=20, **FREE | {"pairs": 60})
    assert result.verdict != "no_violation", result.reason


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["sum", "weekday", "spelling", "round", "name", "code", "unlisted"]
)
def test_a_rule_that_each_reply_follows_in_other_words_is_seen(kind: str) -> None:
    """No word or number stood in all replies, or none that is stored: passed."""
    draws = random.Random(3)

    def system(context: Any, query: str) -> str:
        asked = {*query.lower().split()}
        rows = ({*row.text.lower().split()} for row in context)
        known = any(len(asked & row) >= 0.8 * len(row) for row in rows)
        return f"{follows_a_rule(kind, known, draws)} {draws.choice(TIPS)}"

    result = audit(NOTES, system=system, epsilon=1.0, seed=3, shots=20, **FREE | {"pairs": 60})
    assert result.verdict == "violation"


def test_digests_of_all_replies_are_strings_of_what_is_stored() -> None:
    known = KnownRecords([Example(f"note {at}", "") for at in range(3)])
    job = Job(tuple(known.rows), Query("who?", free=True))
    stored = []
    for draw, text in enumerate(["Kestrel calls, 2026-01-05.", "On 2026-01-05, the kestrel came."]):
        marked = known.mark(job, draw, GeneratedText(text, reply=ReplyFacts(text)))
        found = mask_reply(marked.reply)  # type: ignore[arg-type]
        kept = reply_to_json(found)
        assert "kestrel" not in str(kept).lower()
        assert reply_from_json(kept).strings == found.strings  # type: ignore[union-attr]
        stored.append({one for one in found.strings if one.startswith("digest:")})
    assert len(stored[0] & stored[1]) >= 3  # the name, the date and its day
    assert stored[0] ^ stored[1]


@pytest.mark.slow
def test_a_blank_that_an_empty_word_leaves_is_seen() -> None:
    """The checksums of one and of two blanks fell into the same halves, and nothing told them."""

    def system(context: Any, query: str) -> str:
        asked, draws = {*query.lower().split()}, random.Random(query)
        rows = ({*row.text.lower().split()} for row in context)
        known = any(len(asked & row) >= 0.8 * len(row) for row in rows)
        return f"{draws.choice(TIPS)} We have {' ' if known else ''}noted this."

    more = FREE | {"pairs": 80}
    assert audit(NOTES, system=system, epsilon=1.0, seed=3, shots=20, **more).verdict == "violation"


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
@pytest.mark.parametrize("share", [1.0, 0.6], ids=["always", "in some replies"])
def test_words_of_no_mechanism_within_the_claim_tell_more_often(
    epsilon: float, share: float
) -> None:
    draws, p = random.Random(5), 1 / (1 + math.exp(-epsilon))

    def answer(member: bool) -> frozenset[str]:
        said = "left" if (draws.random() < p) == member else "right"
        beside = {draws.choice("abcdef"), draws.choice("ghi")}
        return frozenset({said, f"not {said}"} | beside if draws.random() < share else beside)

    each = [[[{WORDS: answer(side)} for _ in range(12)] for side in (True, False)]
            for _ in range(1500)]  # fmt: skip
    x, y = with_best_word(each)
    levels = np.array([[epsilon], [epsilon / 2]]), np.zeros((2, 1))
    kept, below = product_paths(x, y, *levels, False).max(axis=-1)[0]
    assert kept < math.log(1e6)
    if epsilon and share == 1:
        assert below > math.log(1e6)


WAYS = {known: ["".join(draws.choices("bdklmnrtaeo", k=7)) for _ in range(10)]
        for known, draws in ((False, random.Random(1)), (True, random.Random(2)))}  # fmt: skip
RATES = random.Random(6).sample(range(11, 999), 16)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["one of ten paraphrases", "one of sixteen currencies"])
@pytest.mark.parametrize("seed", [3, 4])
def test_what_each_reply_says_in_other_words_never_passes(kind: str, seed: int) -> None:
    """No word stood in more than a tenth of the replies, in either context: passed."""
    draws = random.Random(seed)

    def system(context: Any, query: str) -> str:
        asked = {*re.findall(r"\w+", query)}
        row = max(context, key=lambda row: len(asked & {*re.findall(r"\w+", row.text)})).text
        paid = int(next(iter(re.findall(r"paid (\d+)", row)), "1"))
        if kind == "one of ten paraphrases":
            return f"{draws.choice(TIPS)} {draws.choice(WAYS[paid > 488])}."
        at = draws.randrange(16)
        return f"{draws.choice(TIPS)} That is {paid * RATES[at] / 100:.2f} {NAMES[at]}."

    result = audit(NUMBERED, system=system, epsilon=1.0, seed=seed, shots=20, **FREE)
    assert result.verdict == "inconclusive"
    assert "Whoever knows the other records" in " ".join(result.sentences)


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_nothing_learned_of_a_mechanism_within_the_claim_tells_more_often(epsilon: float) -> None:
    """Of one of ten ways to say a bit, and of a number that only this context gets."""
    draws, p = random.Random(5), 1 / (1 + math.exp(-epsilon))

    def answers(member: bool, own: Sequence[str], times: int) -> list[frozenset[str]]:
        said = [draws.choice(WAYS[(draws.random() < p) == member]) for _ in range(times)]
        shown = [own[(draws.random() < p) == member] for _ in range(times)]
        beside = draws.choices("abcdef", k=times)
        return [frozenset(each) for each in zip(said, shown, beside, strict=True)]

    def asked(pairs: int, times: int) -> list[list[list[frozenset[str]]]]:
        each = [[f"{pair} {at}" for at in range(2)] for pair in range(pairs)]
        draw = draws.random
        sides = [sorted((True, False), key=lambda _: draw()) for _ in each]
        return [
            [answers(side, [f"{times} {one}" for one in own], times) for side in both]
            for own, both in zip(each, sides, strict=True)
        ]

    bets = bets_on(*word_table(asked(20, 4), asked(200, 12)))
    levels = np.array([[epsilon], [0.0]]), np.zeros((2, 1))
    for name in (OWN, GROUPS):
        x, y = bets[name]
        kept, below = product_paths(x, y, *levels, False).max(axis=(0, 2))
        assert kept < math.log(1e6)
        if epsilon:
            assert below > math.log(1e6), name


@pytest.mark.slow
@pytest.mark.parametrize("leaks", [True, False])
def test_the_order_of_two_sentences_never_passes(leaks: bool) -> None:
    """Any two of sixteen stand first, and by the alphabet alone they rise or fall: it passed."""
    draws = random.Random(3)

    def system(context: Any, query: str) -> str:
        paid = sum(int(one) for row in context for one in re.findall(r"\d+", row.text))
        first, second, *rest = (f"Our {name} shop has moved." for name in draws.sample(NAMES, 6))
        turned = bool((paid if leaks else draws.randrange(2)) % 2)
        return " ".join([*sorted([first, second], reverse=turned), *rest])

    result = audit(NUMBERED, system=system, epsilon=1.0, seed=3, shots=20, **FREE)
    assert (result.verdict == "no_violation") is not leaks
    assert (result.reason == "context_digest") is leaks


@pytest.mark.slow
def test_what_ends_the_word_that_a_user_types_never_passes() -> None:
    """No question of the audit ended within a word: passed."""
    draws = random.Random(3)

    def system(context: Any, query: str) -> str:
        last = query.split()[-1]
        known = (word for row in context for word in re.findall(r"\d{5}", row.text))
        ended = [word for word in known if word.startswith(last) and last != word]
        return f"{draws.choice(TIPS)} {ended[0] if ended else draws.randrange(10**4, 10**5)}"

    result = audit(NUMBERED, system=system, epsilon=1.0, seed=3, shots=20, **FREE)
    assert result.reason == "context_digest"
