"""The units of a context that people think in: documents, paragraphs, lines, sentences, chunks.

They are found in the text, with exact characters, and ablated as the tokens that contain them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from leakbound.attribution.spans import Span
from leakbound.errors import UsageError

DOCUMENT = "document"
MESSAGE = "message"
WHOLE_TEXT = ("sentence", "line", "paragraph", DOCUMENT, MESSAGE)
SIZED = ("chunk", "tokens")
# Where a sentence may end: a mark with closing quotes and a blank, a Chinese or Japanese mark
# without a blank, or an empty line.
END = re.compile(r"""[.!?…]+["'”’»)\]]*\s+|[。！？]+[」』”’）]*\s*|\s*\n\s*\n\s*""")
EMPTY_LINE = re.compile(r"\n\s*\n")
ABBREVIATIONS = frozenset((
    "mr", "mrs", "ms", "dr", "prof", "st", "jr", "sr", "vs", "e.g", "i.e", "cf", "al", "nos", "fig",
    "figs", "eq", "vol", "pp", "eds", "inc", "ltd", "corp", "dept", "est", "approx", "ca", "jan",
    "feb", "mar", "apr", "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec",
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class UnitKind:
    """A kind of unit.

    Attributes:
        name: `sentence`, `line`, `paragraph`, `document`, `message`, `chunk` or `tokens`.
        size: The most characters of a chunk, or the tokens of a block; None for other kinds.
    """

    name: str
    size: int | None = None

    @classmethod
    def parse(cls, text: str) -> UnitKind:
        """Read a kind from its name.

        Args:
            text: A name such as `sentence` or `chunk:200`.

        Raises:
            UsageError: If there is no such kind, or its size is missing or below 1.

        Examples:
            >>> UnitKind.parse("chunk:200")
            UnitKind(name='chunk', size=200)
        """
        name, colon, size = text.strip().partition(":")
        if name in WHOLE_TEXT and not colon:
            return cls(name)
        if name in SIZED and size.isdecimal() and int(size) > 0:
            return cls(name, int(size))
        raise UsageError(
            f"the unit is {text!r}; it must be {', '.join(WHOLE_TEXT)}, chunk:N (at most N "
            "characters, cut between words) or tokens:N, with N at least 1."
        )

    def __str__(self) -> str:
        return self.name if self.size is None else f"{self.name}:{self.size}"


@dataclass(frozen=True, slots=True, repr=False)
class TextUnit:
    """A unit of a context."""

    name: str
    characters: Span
    source: int | None = None


def find_units(
    text: str, kind: UnitKind, sources: Sequence[tuple[str, int, int]] = ()
) -> tuple[TextUnit, ...]:
    """Find the units of a context, in order. No unit crosses from one source to another.

    Examples:
        >>> note = "Dr. Ash came. The code is 48213.  It rained!"
        >>> [note[a:b] for a, b in (u.characters for u in find_units(note, UnitKind("sentence")))]
        ['Dr. Ash came.', 'The code is 48213.', 'It rained!']
    """
    if kind.name in (DOCUMENT, MESSAGE):
        _require_sources(kind, sources)
        return tuple(TextUnit(name, (a, b), at) for at, (name, a, b) in enumerate(sources))
    found: list[TextUnit] = []
    for at, (name, first, end) in enumerate(sources or (("", 0, len(text)),)):
        prefix = f"{name}, " if name else ""
        found += [
            TextUnit(f"{prefix}{kind.name} {number}", span, at if sources else None)
            for number, span in enumerate(_pieces(text, first, end, kind), 1)
        ]
    if not found:
        raise UsageError(f"the context has no {kind.name}; give a context that is not blank.")
    return tuple(found)


def _require_sources(kind: UnitKind, sources: Sequence[tuple[str, int, int]]) -> None:
    if kind.name == DOCUMENT and len(sources) < 2:
        raise UsageError(
            f"the context has {len(sources) or 'no'} named source{'s' * (len(sources) != 1)}, and "
            "--by document needs at least two: give --context more than once, or a .jsonl file "
            'with {"question": ..., "chunks": [{"id": ..., "text": ...}, ...]} in each row.'
        )
    if not sources:
        raise UsageError(
            "the context is not a chat, and --by message needs one: give chat messages, such as a "
            '.jsonl file with {"messages": [{"role": "system", "content": "..."}, ...]} in each '
            "row."
        )


def _pieces(text: str, first: int, end: int, kind: UnitKind) -> Iterator[Span]:
    """Spans of a part of the text, without blanks at their ends."""
    if kind.name == "sentence":
        cuts: Iterable[int] = _sentence_cuts(text, first, end)
    elif kind.name == "paragraph":
        cuts = (match.end() for match in EMPTY_LINE.finditer(text, first, end))
    elif kind.name == "line":
        cuts = (at + 1 for at in range(first, end) if text[at] == "\n")
    else:
        cuts = _chunk_cuts(text, first, end, kind.size or 1)
    begin = first
    for cut in (*cuts, end):
        if text[begin:cut].strip():
            piece = text[begin:cut]
            yield (cut - len(piece.lstrip()), begin + len(piece.rstrip()))
        begin = cut


def _sentence_cuts(text: str, first: int, end: int) -> Iterator[int]:
    begin = first
    for match in END.finditer(text, first, end):
        if EMPTY_LINE.search(match[0]) or not _goes_on(text, begin, match, end):
            yield match.end()
            begin = match.end()


def _goes_on(text: str, begin: int, match: re.Match[str], end: int) -> bool:
    """Whether the mark ends an abbreviation, an initial or an item number, or a lower-case letter
    follows.
    """
    after = text[match.end() : match.end() + 1] if match.end() < end else ""
    if after.islower():
        return True
    sentence = text[begin : match.start()].strip()
    word = sentence.rpartition(" ")[2].lstrip("(\"'“‘[")
    if match[0][0] != "." or match[0].startswith(".."):
        return False
    initial = len(word) == 1 and word.isupper()
    return initial or word.lower() in ABBREVIATIONS or (word == sentence and word.isdecimal())


def _chunk_cuts(text: str, first: int, end: int, size: int) -> Iterator[int]:
    """End each chunk after the last blank that fits; a longer word is cut."""
    begin = first
    while end - begin > size:
        blank = next((at for at in range(begin + size, begin, -1) if text[at].isspace()), None)
        begin = begin + size if blank is None else blank + 1
        yield begin


def unit_spans(
    units: Sequence[TextUnit], text: str, bounds: Sequence[int]
) -> tuple[tuple[TextUnit, Span], ...]:
    """The tokens of each unit. Together they are all tokens of the context.

    A token belongs to the unit that contains its first non-blank character, or that precedes it. A
    unit without such a token shares its token with the unit before it, and the two are joined.
    """
    starts = [unit.characters[0] for unit in units]
    owners = [max(0, bisect_right(starts, at) - 1) for at in _places(text, bounds)]
    owners[0] = 0
    found: list[tuple[TextUnit, Span]] = []
    for at, unit in enumerate(units):
        first, end = bisect_right(owners, at - 1), bisect_right(owners, at)
        if first < end:
            found.append((unit, (first, end)))
        else:
            one = found[-1][0]
            characters = one.characters[0], unit.characters[1]
            found[-1] = (
                TextUnit(f"{one.name} and {unit.name}", characters, one.source),
                found[-1][1],
            )
    return tuple(found)


def _places(text: str, bounds: Sequence[int]) -> Iterator[int]:
    """The first non-blank character of each token, or its first one."""
    for first, end in pairwise(bounds):
        piece = text[first:end]
        yield first + (len(piece) - len(piece.lstrip()) if piece.strip() else 0)
