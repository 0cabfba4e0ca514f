"""Quotes: words in a row that a reply shares with records, and not with its question."""

from __future__ import annotations

import random
import re
from base64 import b64decode
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cache, cached_property, lru_cache
from hashlib import blake2b
from html import unescape
from itertools import chain, combinations, pairwise
from math import floor, isclose, log
from unicodedata import category, normalize
from urllib.parse import unquote

import scipy

from leakbound.tasks import Aggregate, Context, Example, Job, reply_of
from leakbound.witness import ReplyFacts
from leakbound.witness.features import SENTENCE
from leakbound.witness.lexicon import COMMON_WORDS
from leakbound.witness.numerals import numerals_in

WORD, NUMBER = re.compile(r"\w+"), re.compile(r"\d[\d.,]*")
SIGN = re.compile(r"\w+|[^\w\s]")  # a word, or a mark, such as an emoji
MARK = re.compile(r"[^\w\s]|[^\S\n]{2,}|[^\S \n]|\n\s+")  # or blanks, but not a single one
# Where no blanks part words (Chinese, Japanese, Thai, Lao, Khmer, Burmese), any six characters.
CHARACTERS = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff\u3400-\u9fff"
BETWEEN = re.compile(rf"(?<=[{CHARACTERS}])[\W_]+(?=[{CHARACTERS}])")
TAG = re.compile(r"</?[a-z][^<>]*>|\x1b\[[\d;]*m")  # or a colour of a terminal
ESCAPE = re.compile(r"(?<!\\)\\+(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|[nrtbf\"/])")  # of JSON
# Words of these, and of Korean, stand beside particles and titles without a blank.
GLUED, EDGES = re.compile(rf"[{CHARACTERS}\u1100-\u11ff]"), re.compile(r"^[\W_]+|[\W_]+$")
SAID = re.compile(rf"(?=([{CHARACTERS}]{{6}}))[{CHARACTERS}]|[^\W_{CHARACTERS}]+|[{CHARACTERS}]+")
LONG = 6  # words in a row that are compared
ALONE = 4  # of them behind each other, of one record alone: nine words that no other record has
WORD_LENGTH = 30  # characters: no text of fewer words is longer
NAME = 2  # characters of a word where no blanks part words
FEW = 4  # rows about one text, and records that have words
FIRST, LAST, WIDE = 48, 24, 2  # words of a reply that are compared one by one; bytes of each
NEAR = 4  # words between which the order is compared
CODE = re.compile(r"[^\s\"',;:(){}\[\]<>]*\d[^\s\"',;:(){}\[\]<>]*")  # a number or code, whole
ENCODED, URL_SAFE = re.compile(r"[\w+/-]{16,}", re.ASCII), str.maketrans("-_", "+/")
MOST_CODES = 8
ENDING = 3  # letters of a word that an inflection or a spelling changes
DATE = re.compile(r"\b(?:19|20)\d\d-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])\b")
DIVISORS = (5, 6, 7, 8, 9, 11, 13)  # of a number, whose remainders are compared
PARTED, LISTED, PLACED = re.compile(r"[,;|\n]"), 16, 6  # of a list; words that are compared; places
MOST = 4_000_000  # characters of the records that are known; of more, every second or third, ...
MOST_ROWS = 1 / 2  # in a context: what is drawn has most of them, too
READ = 512  # texts whose words are kept
ISO = re.compile(r"\b(\d{4})-(\d\d)-(\d\d)(?!\d)")
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
ON = r"(\d\d?)(?:st|nd|rd|th|\.)?"
WRITTEN = re.compile(  # 12 February 2026, Feb 12, 2026
    rf"\b(?:{ON} )?({'|'.join(MONTHS)})(?:r?uary|ch|il|[ety]|ust|t?(?:em|o)ber)?\b\.?"
    rf"(?: {ON})?(?:,? (\d{{4}}))?\b", re.IGNORECASE,
)  # fmt: skip
CLOCK, MINUTES = re.compile(r"\b(\d\d?):([0-5]\d)\b(?:\s?([ap])\.?m\b)?", re.IGNORECASE), 1440
SOME_YEAR = 2001  # of dates without one
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")
FILLERS = COMMON_WORDS - {"true", "false", "yes", "no", "not", "more", "less", "before", "after"}
REACH = 192  # words of which those are looked for that stand twice


@dataclass(frozen=True)
class KnownRecords:
    """The records that contexts are made of, by words in a row (PRIVATE); not of public `labels`.
    Marks depend on the rows, the context, the reply and its pair's draw."""

    rows: Sequence[Example] = field(repr=False)
    labels: Sequence[str] = ()

    @cached_property
    def _short(self) -> tuple[dict[int, bool], tuple[int, ...], tuple[int, ...]]:
        """Whole texts of fewer words, of few records, and whether they are of one and more than a
        word; of how many words there are any, and of how many characters, where these may be glued
        to others."""
        rows = Counter(text for text in _texts_of(self.rows) if len(text) <= LONG * WORD_LENGTH)
        whole, words, glued = dict[int, bool](), {LONG}, set[int]()
        for text, number in rows.items():
            part = _parts_of(text)[0]
            each, bare = _words_of(part), EDGES.sub("", part)
            if number > FEW or not each or len(each) > LONG:
                continue
            if GLUED.search(part):
                glued.add(len(bare))
                whole[hash(bare)] = number == 1 and len(bare) > NAME
            elif len(each) < LONG:
                words.add(len(each))
                whole[hash(" ".join(each))] = number == 1 and len(each) > 1
        return whole, (LONG, *sorted(words - {LONG})), tuple(glued)

    @cached_property
    def _had_by(self) -> Counter[int]:
        """How many records have each. A few rows about one text are one record; what more have
        for their input is an instruction."""
        some = self.rows[:: sum(map(len, _texts_of(self.rows))) // MOST + 1]
        inputs = {row.input for row in some}
        shared = Counter(row.input for row in {*self.rows} if row.input in inputs)
        records = dict[object, set[int]]()
        for at, row in enumerate(some):
            key = row.input if shared[row.input] <= FEW else at
            for text in _texts_of([row]):
                records.setdefault(key, set()).update(self._pieces(text))
        found = Counter(chain.from_iterable(records.values()))
        for one in chain.from_iterable(map(self._pieces, self.labels)):
            found.pop(one, None)
        # a short text may be said by chance: it counts as if several records had it
        return Counter({one: max(had, 1 + (one in self._short[0])) for one, had in found.items()})

    @cached_property
    def alike(self) -> float:
        # at most so many records (95 %) have nine words in a row with one other: texts that are
        # drawn from their patterns have as often
        some = self.rows[:READ]
        texts = ("\n".join(_texts_of([row])) for row in some)
        each = ([self._had_by[one] == 2 for one in self._pieces(text)] for text in texts)
        runs = ("x" * ALONE in "".join("x" if two else " " for two in one) for one in each)
        found = sum(runs)
        return float(scipy.special.betaincinv(found + 1, max(len(some) - found, 1), 0.95))

    def _pieces(self, text: str) -> list[int]:
        whole, lengths, sizes = self._short
        long, *short = (pieces_of(text, words) for words in lengths)
        for part in _parts_of(text) if sizes else ():
            ends = ((size, range(size, len(part) + 1)) for size in sizes)
            short += ([hash(part[end - size : end]) for end in some] for size, some in ends)
        return long + [one for some in short for one in some if one in whole]

    @cached_property
    def _read(self) -> Callable[[str], frozenset[int]]:
        return lru_cache(READ)(lambda text: frozenset(self._pieces(text)))

    @cached_property
    def _key(self) -> bytes:
        # of the rows: who has the stored replies alone cannot try texts
        found = blake2b()
        for one in self.rows:
            found.update(repr((one.input, one.label)).encode("utf-8", "surrogatepass"))
        return found.digest()

    def mark(self, job: Job, draw: int, found: Aggregate) -> Aggregate:
        """The answer, with a mark if its reply quotes what its question does not hold, and with
        digests: of its text and its numbers, which tell only whether two replies are equal; of its
        first and last words by their places, of these, marks and words near each other at any
        place, and of forms (`_forms`), of replies to one pair; of words and rules, of all."""
        reply = reply_of(found)
        if not isinstance(reply, ReplyFacts):
            return found
        said = reply.text.replace(str(job.query.text), "")  # an echo has the number of its request
        each = said.encode("utf-8", "surrogatepass"), " ".join(NUMBER.findall(said)).encode()
        digests = [self._digest(one, 8) for one in each]
        beside = "\n".join(one.text for one in found.channels.values())
        plain, coded = ("\n".join(_plain(one)) for one in (reply.text, beside))
        alone = f"{said}\n{plain}"  # what is beside a reply is read apart
        shown = f"{alone}\n{beside}\n{coded}"
        words, own = WORD.findall(shown), WORD.findall(alone)
        for name, some in (("first", words[:FIRST]), ("last", words[: -LAST - 1 : -1])):
            places = (f"{draw} {name} {at} {word}".encode() for at, word in enumerate(some))
            digests.append(" ".join(self._digest(one, WIDE) for one in places))
        each_sign = SIGN.findall(shown)
        several = {*each_sign[:FIRST], *each_sign[-LAST:]}
        for apart in range(1, NEAR + 1):
            several |= {
                f"{one} {other}" for one, other in zip(words, words[apart:FIRST], strict=False)
            }
        marks = Counter(MARK.findall(shown))
        several |= {*marks} | {f"{mark} {number}" for mark, number in marks.items()}
        rules = {*_parts_of_words(own), *_relations(said, own), *_references(said, own)}
        own_signs = SIGN.findall(alone)
        common = {*own_signs[:FIRST], *own_signs[-LAST:]} | rules
        forms = rules | {*_forms(shown, words)}
        for of, signs in ((f"{draw} any", several), ("all", common), (f"{draw} form", forms)):
            any_place = (f"{of} {one.casefold()}".encode() for one in signs)
            digests.append(" ".join(sorted({self._digest(one, WIDE) for one in any_place})))
        marked = replace(reply, digests=tuple(digests))
        pieces = self._pieces("\n".join([reply.text, beside, str(reply.tool_calls), plain, coded]))
        if any(one in self._had_by for one in pieces):
            texts = str(job.query.text), *job.query.further
            asked = {*chain.from_iterable(map(self._pieces, texts))}
            mark = self._mark(job.context, draw, [one for one in pieces if one not in asked])
            marked = replace(marked, quotes=mark)
        return replace(found, reply=marked)

    def _digest(self, text: bytes, size: int) -> str:
        return blake2b(text, digest_size=size, key=self._key).hexdigest()

    def _mark(self, context: Context, draw: int, pieces: list[int]) -> str | None:
        """Does it say more of its context than of one that is drawn as it was ("+"), or less ("-"),
        in words of one record, of several, and of two, three, four or more? "=" for as much, where
        contexts have half of the rows. Then "o": what one record alone has, not in this context."""
        chance = random.Random(draw)
        drawn = chance.sample(self.rows, min(len(context), len(self.rows)))
        known = {one: had for one in pieces if (had := self._had_by.get(one, 0)) > 0}
        own, by_chance = (
            known.keys() & set[int]().union(*map(self._read, _texts_of(some)))
            for some in (context, drawn)
        )
        foreign = "".join("x" if known.get(one) == 1 and one not in own else " " for one in pieces)
        more, less = (sum(known[one] == 1 for one in some) for some in (own, by_chance))
        shown = more or any(self._short[0].get(one) for one in own)
        equal = "=" if shown and len(context) > MOST_ROWS * len(self.rows) else "0"
        sign = "+" if more > less else "-" if more < less else equal
        # of many phrases of several records, each of which may say as much as the claim allows, one
        apart = [one for one in known if known[one] > 1 and (one in own) != (one in by_chance)]
        for had in range(1, FEW + 2):
            some = [one for one in apart if had in (1, min(known[one], FEW + 1))]  # 1: of any
            sign += "0" if not some else "+" if chance.choice(some) in own else "-"
        sign += "o" if "x" * ALONE in foreign else "0"
        return sign if sign.strip("0") else None


def _parts_of_words(words: Iterable[str]) -> Iterator[str]:
    # endings of words, and how numbers and codes begin and end
    for one in words:
        if one.isalpha():
            yield from [f"…{one[-ENDING:]}"] * (len(one) > 2 * ENDING - 1)
        elif any(map(str.isdigit, one)):
            yield from (f"{one[0]}… {len(one)}", f"…{one[-1]}", f"…{one[-2:]}")


def _forms(text: str, words: Sequence[str]) -> Iterator[str]:
    # Each two words in a row, initials of words by place, characters of numbers and codes by place
    # from either end, how large numbers are, to 2 and 10 %, and what two in a row come to.
    yield from (f"{one}+{other}" for one, other in pairwise(words[:FIRST]))
    yield from (f"{at}: {word[0]}" for at, word in enumerate(words[:FIRST]))
    for code in CODE.findall(text)[:MOST_CODES]:
        yield from (f"@{at} {one}" for at, one in enumerate(code[:LAST]))
        yield from (f"-@{at} {one}" for at, one in enumerate(code[: -LAST - 1 : -1]))
    values = [abs(one.value) for one in numerals_in(text)[:FIRST] if one.value]
    for value in values:
        for wide in (0.02, 0.1):
            yield from (f"~{wide} {floor(log(value) / wide + half)}" for half in (0, 0.5))
    values = [abs(one.value) for one in numerals_in(_as_one(text))[:LISTED] if one.value]
    for one, other in pairwise(values):
        yield from (f"{one + other:.6g} in all", f"{other - one:.6g} apart", f"{one * other:.3g} x")
        yield from [f"{(other - one) % MINUTES:.6g} later"] * (CLOCK.search(text) is not None)
    for one, other, last in zip(values, values[1:], values[2:], strict=False):
        yield from (f"{one * other + last:.6g} made", f"{one + other * last:.6g} made")


def _as_one(text: str) -> str:
    """Each date as the number of its day, each time of day as that of its minute."""

    def day(found: re.Match[str], year: str, month: int, at: str) -> str:
        try:
            return str(date(int(year), month, int(at)).toordinal())
        except ValueError:
            return found[0]

    def minute(found: re.Match[str]) -> str:
        hours = int(found[1]) % 12 + 12 * (found[3] in "pP") if found[3] else int(found[1])
        return str(60 * hours + int(found[2]))

    def month(found: re.Match[str]) -> str:
        named = MONTHS.index(found[2].lower()) + 1
        return day(found, found[4] or str(SOME_YEAR), named, found[1] or found[3] or "0")

    text = ISO.sub(lambda found: day(found, found[1], int(found[2]), found[3]), text)
    return CLOCK.sub(minute, WRITTEN.sub(month, text))


def _references(text: str, words: Sequence[str]) -> Iterator[str]:
    """The words beside one that stands twice, as a label does, and the item that "third" means."""
    said = [one.casefold() for one in words[:REACH]]
    often = Counter(said)
    alone = [at for at, one in enumerate(said)
             if often[one] == 1 and len(one) > 1 and one not in COMMON_WORDS]  # fmt: skip
    for at, one in enumerate(said):
        if often[one] > 1 and (len(one) == 1 or one not in COMMON_WORDS):
            next_one = bisect(alone, at)
            yield from (f"{said[before]} <- {often[one]}" for before in alone[:next_one][-1:])
            yield from (f"{often[one]} -> {said[after]}" for after in alone[next_one:][:1])
    items = [WORD.findall(part) for part in PARTED.split(text.casefold())]
    for one in {*said} & {*ORDINALS}:
        for item in items[ORDINALS.index(one) :][:1]:
            yield from (f"-> {end}" for end in (*item[:1], *item[-1:]))


def _plain(text: str) -> Iterator[str]:
    # what it says in base64, of either alphabet, or in hexadecimal digits
    for one in ENCODED.findall(text):
        whole = one.translate(URL_SAFE) + "=" * (-len(one) % 4)
        for decode, coded in ((b64decode, whole), (bytes.fromhex, one)):
            try:
                said = decode(coded).decode()
            except ValueError:  # not coded so
                continue
            if all(sign.isprintable() or sign.isspace() for sign in said):
                yield said


def _relations(text: str, words: Sequence[str]) -> Iterator[str]:
    """What holds of several numbers (a sum that adds up, one that stands twice, their order, round
    and odd ones), of names that stand twice or by the alphabet, the days of the week of dates, and
    which of two words or sentences comes first, in a reply, by the alphabet or by length."""
    values = [one.value for one in numerals_in(text)[:FIRST]]
    names = [one for one in words if one[0].isupper()]
    listed = [*dict.fromkeys(one for one in map(str.casefold, words) if one not in FILLERS)]
    facts = {
        "adds up": any(isclose(values[at], sum(values[start:at]), abs_tol=1e-6)
                       for at in range(2, len(values)) for start in range(at - 1)),
        "again": len({*values}) < len(values), "name again": len({*names}) < len(names),
        "rise": values == sorted(values), "fall": values == sorted(values, reverse=True),
        "names rise": sum(one < other for one, other in pairwise(names)) > len(names) // 2,
        "some round": any(one % 10 == 0 for one in values),
        "all round": all(one % 10 == 0 for one in values),
        "odd": [one % 2 for one in (*values[:1], *values[-1:])],
        "total": (sum(values) % 2, sum(values) % 3),
    }  # fmt: skip
    for at, one in enumerate(map(int, (*values[:1], *values[-1:]))):
        facts |= {f"{at} by {by}": one % by for by in DIVISORS}
        facts[f"{at} digits"] = sum(map(int, str(abs(one)))) % 10
    yield from (f"# {name} {value}" for name, value in facts.items())
    yield from (f"# {date.fromisoformat(one):%a}" for one in DATE.findall(text))
    yield from (f"{one}<{other}" for one, other in combinations(listed[:LISTED], 2))
    each = [one.casefold() for one in SENTENCE.split(text)[:REACH]]
    said = ([word for word in WORD.findall(one) if word not in FILLERS] for one in each)
    starts = [" ".join(some[:2]) for some in said]
    yield from (f"{one} << {other}" for one, other in combinations(starts[:LISTED], 2))
    yield from (f"{one} << {other}" for one, other in pairwise(starts[LISTED:]))
    for key in ([*map(len, each)], each):  # at which places those stand, whatever they say
        ranked = sorted(range(len(each[:PLACED])), key=key.__getitem__)
        yield from (f"{key is each} {one} << {other}" for one, other in combinations(ranked, 2))


def _texts_of(rows: Iterable[Example]) -> Iterator[str]:
    return (text for row in rows for text in (row.input, row.label) if isinstance(text, str))


def pieces_of(text: str, long: int = LONG) -> list[int]:
    """A number for each so many words in a row, as they are read, and as they stand in tags."""
    found = list[int]()
    for words in map(_words_of, _parts_of(text)):
        ends = range(long, len(words) + 1)
        found += (hash(" ".join(words[end - long : end])) for end in ends)
    return found


def _words_of(part: str) -> list[str]:
    return [one[1] or one[0] for one in SAID.finditer(part)]


def _parts_of(text: str) -> list[str]:
    """A text without tags, what is within tags, and what tags have parted; nothing hides words."""
    if "\\" in text:
        text = ESCAPE.sub(lambda found: chr(int(found[1] or found[2] or "20", 16)), text)
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    text = unescape(unquote(text)).casefold()
    if not text.isascii():
        text = normalize("NFKD", text).translate(_marks())
    tags = TAG.findall(text)
    parts = (TAG.sub(" ", text), " ".join(tags), TAG.sub("", text) if tags else "")
    return [" ".join(BETWEEN.sub("", part).split()) for part in parts]


@cache
def _marks() -> dict[int, None]:
    """Accents, vowel signs and other marks, and characters that are not seen."""
    kinds = ("Mn", "Mc", "Me", "Cf")
    return dict.fromkeys(at for at in range(0x80, 0x20000) if category(chr(at)) in kinds)
