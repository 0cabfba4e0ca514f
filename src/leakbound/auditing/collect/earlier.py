"""Replies that quote a record of another context than the one that they answer from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from leakbound.models.content import Content
from leakbound.tasks import Aggregate, Example, Job, reply_of
from leakbound.witness import ReplyFacts

WORD = re.compile(r"\w+")
LONG = 6  # words in a row that only one record has
MANY, EACH = 64, 8  # of a longer record, one in eight of these is kept, by its hash
SHARED = None  # several records have these words


@dataclass(slots=True)
class EarlierRecords:
    """The records of all contexts that were given, by words in a row that one of them alone has
    (PRIVATE).

    Of those that are `known`, by the hash of their text: a canary shares its words with the record
    that it was made of.
    """

    known: frozenset[int] = field(repr=False)
    _of: dict[int, int | None] = field(default_factory=dict, repr=False)
    _given: set[int] = field(default_factory=set, repr=False)

    @classmethod
    def of(cls, rows: Iterable[Example]) -> EarlierRecords:
        """For contexts that are made of these rows."""
        return cls(frozenset(hash(one.input) for one in rows if isinstance(one.input, str)))

    def marked(self, jobs: Sequence[Job], found: Sequence[Aggregate]) -> list[Aggregate]:
        """The answers, with a mark on each whose reply quotes a record that its context does not
        hold."""
        for job in jobs:
            self._add(row.input for row in job.context)
        return [self._mark(job, one) for job, one in zip(jobs, found, strict=True)]

    def _add(self, records: Iterable[Content]) -> None:
        for text in records:
            if not isinstance(text, str) or (name := hash(text)) in self._given:
                continue
            if name not in self.known:
                continue
            self._given.add(name)
            pieces = set(_pieces(text))
            if len(pieces) > MANY:
                pieces = {piece for piece in pieces if piece % EACH == 0}
            for piece in pieces:
                self._of[piece] = SHARED if piece in self._of else name

    def _mark(self, job: Job, found: Aggregate) -> Aggregate:
        reply = reply_of(found)
        if not isinstance(reply, ReplyFacts):
            return found
        quoted = {one for one in _pieces(reply.text) if self._of.get(one) is not SHARED}
        if quoted:
            told = (*(row.input for row in job.context), job.query.text, *job.query.further)
            quoted -= {one for text in told if isinstance(text, str) for one in _pieces(text)}
        return replace(found, reply=replace(reply, earlier=True)) if quoted else found


def _pieces(text: str) -> Iterator[int]:
    words = WORD.findall(text.casefold())
    return (hash(tuple(words[at : at + LONG])) for at in range(len(words) - LONG + 1))
