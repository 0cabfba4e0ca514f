"""Quotes: words in a row that a reply shares with records, and not with its question."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from hashlib import blake2b
from html import unescape
from itertools import chain, islice
from unicodedata import category, normalize
from urllib.parse import unquote

from leakbound.tasks import Aggregate, Context, Example, Job, reply_of
from leakbound.witness import ReplyFacts

WORD, NUMBER = re.compile(r"\w+"), re.compile(r"\d[\d.,]*")
# Where no blanks part words (Chinese, Japanese, Thai, Lao, Khmer, Burmese), any six characters.
CHARACTERS = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff\u3400-\u9fff"
BETWEEN = re.compile(rf"(?<=[{CHARACTERS}])\W+(?=[{CHARACTERS}])")
TAG = re.compile(r"</?[a-z][^<>]*>")
ESCAPE = re.compile(r"(?<!\\)\\+(?:u([0-9a-fA-F]{4})|[nrtbf\"/])")  # of JSON
SAID = re.compile(rf"(?=([{CHARACTERS}]{{6}}))[{CHARACTERS}]|[^\W{CHARACTERS}]+|[{CHARACTERS}]+")
LONG = 6  # words in a row that are compared
NEAR = range(-2, 3)  # words beside a phrase of several records that others may have by chance
FIRST, LAST, WIDE = 48, 24, 2  # words of a reply that are compared one by one; bytes of each
MOST = 4_000_000  # characters of the records that are known; of more, every second or third, ...
CHUNKS = 4  # of a document that have a word; what more records begin and end with is public
MOST_STARTS = 8  # places at which the next record may begin in one


@dataclass(frozen=True)
class KnownRecords:
    """The records that contexts are made of, by words in a row (PRIVATE). Marks depend on the rows,
    the context, the reply and its pair's draw."""

    rows: Sequence[Example] = field(repr=False)

    @cached_property
    def _had_by(self) -> Counter[int]:
        """How many records have each; chunks of a document that overlap have that part once."""
        records, classes = dict[object, dict[str, None]](), Counter(row.label for row in self.rows)
        for row in self.rows[:: sum(map(len, _texts_of(self.rows))) // MOST + 1]:
            own = (text for text in _texts_of([row]) if classes[text] < 2)  # else a class
            records.setdefault(row.input, {}).update(dict.fromkeys(own))
        found, twice, before = Counter[int](), Counter[int](), list[int]()
        for texts in records.values():
            each = [pieces_of(text) for text in texts]
            found.update({*chain(*each)})
            after = each[0] if each else []
            twice.update(_overlap(before, after))
            before = after
        found.subtract({one: times for one, times in twice.items() if found[one] <= CHUNKS})
        return found

    @cached_property
    def _key(self) -> bytes:
        # of the rows: who has the stored replies alone cannot try texts
        rows = repr([(one.input, one.label) for one in self.rows])
        return blake2b(rows.encode("utf-8", "surrogatepass")).digest()

    def mark(self, job: Job, draw: int, found: Aggregate) -> Aggregate:
        """The answer, with a mark if its reply quotes what its question does not hold, and with
        digests: of its text and its numbers, which tell only whether two replies are equal, and of
        its first and its last words, each by its place, which tell so of replies to one pair."""
        reply = reply_of(found)
        if not isinstance(reply, ReplyFacts):
            return found
        said = reply.text.replace(str(job.query.text), "")  # an echo has the number of its request
        each = said.encode("utf-8", "surrogatepass"), " ".join(NUMBER.findall(said)).encode()
        digests = [blake2b(one, digest_size=8, key=self._key).hexdigest() for one in each]
        beside = "\n".join(one.text for one in found.channels.values())
        words = WORD.findall(f"{said}\n{beside}")
        for name, some in (("first", words[:FIRST]), ("last", words[: -LAST - 1 : -1])):
            places = (f"{draw} {name} {at} {word}".encode() for at, word in enumerate(some))
            found_at = (blake2b(one, digest_size=WIDE, key=self._key).hexdigest() for one in places)
            digests.append(" ".join(found_at))
        marked = replace(reply, digests=tuple(digests))
        pieces = pieces_of("\n".join([reply.text, beside, str(reply.tool_calls)]))
        quoted = {one for one in pieces if one in self._had_by}
        quoted -= _in_any((job.query.text, *job.query.further) if quoted else ())
        if mark := self._mark(job.context, draw, pieces, quoted):
            marked = replace(marked, quotes=mark)
        return replace(found, reply=marked)

    def _mark(self, context: Context, draw: int, pieces: list[int], quoted: set[int]) -> str | None:
        """Is it of "context", "other", or several ("shared N", "chance N": bits of how many)?"""
        if not quoted:
            return None
        # a signature with the word that is before it in some record is a quote of nobody
        phrases = (at for at, one in enumerate(pieces) if self._had_by.get(one, 0) > 1)
        near = {at + by for at in phrases for by in NEAR}
        alone = quoted & {one for at, one in enumerate(pieces) if at not in near}
        own = _in_any(_texts_of(context))
        if alone:
            return "context" if alone <= own else "other"
        # those that the fewest have are in the context and not in one that is drawn as it was, or
        # the other way round, which is as frequent of a text that does not depend on its context
        fewest = min(self._had_by[one] for one in quoted)
        rarest = {one for one in quoted if self._had_by[one] == fewest}
        drawn = random.Random(draw).sample(self.rows, min(len(context), len(self.rows)))
        known, by_chance = bool(rarest & own), bool(rarest & _in_any(_texts_of(drawn)))
        mark = f"{'shared' if known else 'chance'} {fewest.bit_length()}"
        return None if known == by_chance else mark


def _texts_of(rows: Iterable[Example]) -> Iterator[str]:
    return (text for row in rows for text in (row.input, row.label) if isinstance(text, str))


def _in_any(texts: Iterable[object]) -> set[int]:
    return {piece for text in texts if isinstance(text, str) for piece in pieces_of(text)}


def pieces_of(text: str, long: int = LONG) -> list[int]:
    """A number for each so many words in a row, as they are read, and as they stand in tags."""
    if "\\" in text:
        text = ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else " ", text)
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    text = unescape(unquote(text)).casefold()
    if not text.isascii():
        text = BETWEEN.sub("", normalize("NFKD", text).translate(_marks()))
    found = list[int]()
    for part in (" ".join(TAG.findall(text)), TAG.sub(" ", text)):
        words = [one[1] or one[0] for one in SAID.finditer(part)]
        ends = range(long, len(words) + 1)
        found += (hash(" ".join(words[end - long : end])) for end in ends)
    return found


@cache
def _marks() -> dict[int, None]:
    """Accents, vowel signs and other marks, and characters that are not seen."""
    kinds = ("Mn", "Mc", "Me", "Cf")
    return dict.fromkeys(at for at in range(0x80, 0x20000) if category(chr(at)) in kinds)


def _overlap(one: list[int], other: list[int]) -> set[int]:
    """What ends one and begins the other; the first and the last word may be half of one."""
    starts = (at for at, piece in enumerate(one) if other[1:2] == [piece])
    for at in islice(starts, MOST_STARTS):
        if other[1 : len(one) - at] == one[at:-1]:
            return {*one[max(at - 1, 0) :]} & {*other[: len(one) - at + 1]}
    return set()
