"""Replies that quote records, of the context that they answer from or of others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from zlib import crc32

from leakbound.tasks import Aggregate, Example, Job, reply_of
from leakbound.witness import ReplyFacts

WORD, NUMBER = re.compile(r"\w+"), re.compile(r"\d[\d.,]*")
LONG = 6  # words in a row that only one record has
MANY, EACH = 64, 8  # of a longer record, one in eight of these is kept, by its checksum
MOST = 4_000_000  # characters of the records that are known; of more, every second or third, ...


@dataclass(frozen=True)
class KnownRecords:
    """The records that contexts are made of, by words in a row that one of them alone has
    (PRIVATE). What is marked depends on the rows, the context and the reply alone."""

    rows: Sequence[Example] = field(repr=False)

    @cached_property
    def _rare(self) -> frozenset[int]:
        texts = dict.fromkeys(one.input for one in self.rows if isinstance(one.input, str))
        step = sum(map(len, texts)) // MOST + 1
        once, more = set[int](), set[int]()
        for text in list(texts)[::step]:
            pieces = set(_pieces(text))
            if len(pieces) > MANY:
                pieces = {piece for piece in pieces if piece % EACH == 0}
            more |= once & pieces
            once |= pieces
        return frozenset(once - more)

    @cached_property
    def _key(self) -> bytes:
        """Of the rows: who has the stored replies alone cannot try texts."""
        return blake2b(
            repr([(one.input, one.label) for one in self.rows]).encode("utf-8", "surrogatepass")
        ).digest()

    def mark(self, job: Job, found: Aggregate) -> Aggregate:
        """The answer, with a mark if its reply quotes what its question does not hold, and with
        digests of its text and its numbers, which tell only whether two replies are equal."""
        reply = reply_of(found)
        if not isinstance(reply, ReplyFacts):
            return found
        said = reply.text.replace(str(job.query.text), "")  # an echo has the number of its request
        each = said.encode("utf-8", "surrogatepass"), " ".join(NUMBER.findall(said)).encode()
        digests = tuple(blake2b(one, digest_size=8, key=self._key).hexdigest() for one in each)
        marked = replace(reply, digests=digests)
        quoted = self._rare.intersection(_pieces(reply.text))
        quoted -= _in_any((job.query.text, *job.query.further) if quoted else ())
        if quoted:
            own = quoted <= _in_any(row.input for row in job.context)
            marked = replace(marked, quotes="context" if own else "other")
        return replace(found, reply=marked)


def _in_any(texts: Iterable[object]) -> set[int]:
    return {piece for text in texts if isinstance(text, str) for piece in _pieces(text)}


def _pieces(text: str) -> Iterator[int]:
    words = WORD.findall(text.casefold())
    return (
        crc32(" ".join(words[at : at + LONG]).encode("utf-8", "surrogatepass"))
        for at in range(len(words) - LONG + 1)
    )
