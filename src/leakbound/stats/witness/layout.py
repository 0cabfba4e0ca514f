"""Strings that tell replies of the same words apart: ratings, codes, tables and the order of words.

A reply often quotes the record that it was asked about, which is another one in each pair. What
repeats the canary is blotted out first, so that such replies can be alike.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from leakbound.stats.witness.lexicon import COMMON_WORDS

_BLOT = "█"
LONGEST_TOKEN = 40  # characters of a token that is a string
LONGEST_RUN = 100  # of a run of marks, such as a bar
LONGEST_WHOLE = 2000  # of a reply as a whole
LONGEST_LINE = 200
MOST_LINES = 12  # lines or sentences whose place counts
MOST_TIMES = 6  # a word or mark that occurs more often counts as so many
MOST_SKIPPED = 120  # words of which pairs that stand near each other are strings
NEAR = (1, 2, 3, 4, 6)  # so many words apart
SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")  # what stands between sentences or lines
SUPERSCRIPT = "²³¹⁰⁴-⁹₀-₉①-⓿❶-➓"  # numbers that no numeral is made of, as of footnotes
_PIECE = re.compile(rf"[{SUPERSCRIPT}]|[^\W\d_{SUPERSCRIPT}]+|\d+")
_NUMBER = re.compile(r"\w*\d\w*(?:[.,:/-]\w*\d\w*)*")  # and what may name a request: 3f2a-9c1e
_LONG = re.compile(r"\w*\d\w+(?:[.,:/-]\w*\d\w*)*|\w+\d")  # but one digit, as of a footnote
_NEAR = re.compile(r"[^\W_]+|#|[^\w\s.,:;/\"'<>(){}\[\]]")  # words, and marks that say something
_GAP = re.compile(r"[\s,.;:'’\-–]*")  # between words that repeat a text
_RUN = re.compile(r"[^\w\s](?: ?[^\w\s])+")
_EDGE = ".,;:!?\"'()"  # marks around a token
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]{2,}")  # Thai, Lao, kana, Han


def blotted(text: str, canary: str) -> str:
    """A text without what repeats the canary.

    Examples:
        >>> blotted("Found “the blue heron”: yes, in the notes", "The blue heron of Oslo")
        'Found “█”: yes, in the notes'
    """
    known = {piece.lower() for piece in _PIECE.findall(canary)}
    kept, at = list[str](), 0
    for start, end in _repeats(text, known) if known else ():
        kept += [text[at:start], _BLOT]
        at = end
    return "".join([*kept, text[at:]])


def _repeats(text: str, known: set[str]) -> Iterator[tuple[int, int]]:
    """Spans of adjacent words that are known, of which at least one is no common word."""
    start = end = -1
    rare = False
    for piece in _PIECE.finditer(text):
        word = piece[0].lower()
        if word not in known:
            continue
        if end < 0 or not _GAP.fullmatch(text, end, piece.start()):
            if rare:
                yield start, end
            start, rare = piece.start(), False
        end = piece.end()
        rare |= word not in COMMON_WORDS
    if rare:
        yield start, end


def layout_strings(
    text: str, words: Sequence[str], marks: Sequence[str], canary: str
) -> Iterator[str]:
    """The strings of a reply."""
    for one, count in Counter([*words, *marks]).items():
        yield from (f"times:{one} {times}" for times in range(2, min(count, MOST_TIMES) + 1))
    yield from (f"run:{run[:LONGEST_RUN]}" for run in _RUN.findall(text))
    yield from _of_text(blotted(text[:LONGEST_WHOLE], canary))
    for part in _UNSPACED.findall(text[:LONGEST_WHOLE]):
        yield from (f"gram:{part[at : at + 2]}" for at in range(len(part) - 1))


def _of_text(text: str) -> Iterator[str]:
    tokens = (token.strip(_EDGE) for token in text.split())
    yield from (f"token:{one[:LONGEST_TOKEN]}" for one in tokens if one and not one.isalpha())
    shape = _NUMBER.sub("#", text)
    yield from (f"whole:{text}", f"whole:{shape}")
    for place, line in enumerate(SENTENCE.split(shape)[:MOST_LINES]):
        yield f"line:{place} {line.strip()[:LONGEST_LINE]}"
    some = _NEAR.findall(_LONG.sub("#", text).lower())[:MOST_SKIPPED]
    for apart in NEAR:
        yield from (f"skip:{a} … {b}" for a, b in zip(some, some[apart:], strict=False))
