"""Features of one reply: a row of numbers, and the strings that it contains.

A feature decides nothing by itself. A threshold on a number, or the presence of a string, becomes a
witness: a function of the reply with values 0 and 1, on which an e-process can stake.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from zlib import crc32

import numpy as np

from leakbound.stats.arrays import Floats
from leakbound.witness.lexicon import COMMON_WORDS, LANGUAGES, PATTERNS, WORD_LISTS
from leakbound.witness.numerals import numbers_of

_BLOT = "█"
LONGEST_TOKEN = 40  # characters of a token that is a string
LONGEST_RUN = 100  # of a run of marks, such as a bar
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
# what is counted where its text is not stored, as a reader knows it
COUNTED = {
    "word": "words", "neighbours": "pairs of neighbouring words",
    "case": "words as they are capitalised", "gap": "blanks and marks between words",
    "call": "tool calls with their arguments",
}  # fmt: skip
SETS = 4  # halves of all texts, by a checksum, in which words are counted: few differ in none
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]{2,}")  # Thai, Lao, kana, Han


def blot_out(text: str, canary: str) -> str:
    """A text without what repeats the canary."""
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


LONGEST_WHOLE = 2000  # of a reply as a whole
LONGEST_LINE = 200
MOST_LINES = 12  # lines or sentences whose place counts


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


ARGUMENTS = ("arguments", "args", "input", "parameters")  # of a tool call, of several frameworks
MOST_ARGUMENTS = 8  # arguments of a tool call that become strings; a call may hold a document
LONGEST_VALUE = 40  # characters of an argument that are kept in its string
MOST_CALLS = 20  # calls whose order is compared
LONGEST_CALL = 400  # characters of a call with its arguments
MOST_COMPARED = 40  # sentences whose order is compared; the cost is quadratic
_LETTERS = rf"[^\W\d_{SUPERSCRIPT}]+"
_WORD = re.compile(rf"{_LETTERS}(?:'{_LETTERS})*|\d+(?:[.,:]\d+)*|[{SUPERSCRIPT}]")
_CASED, _BETWEEN = re.compile(_LETTERS), re.compile(r"[\W_]+")  # words, and what stands between
_MARK = re.compile(r"[^\w\s]|\n")
_ITEM = re.compile(r"^\s*(?:[-*•–+]|\d+[.)])\s*")
_FOREIGN = tuple(code for code in LANGUAGES if code != "en")


@dataclass(frozen=True, slots=True, repr=False)
class ReplyFacts:
    """What an auditor sees of one reply (PRIVATE)."""

    text: str
    seconds: float | None = None
    tokens: int | None = None
    finish_reason: str | None = None
    tool_calls: tuple[object, ...] = ()
    scores: Mapping[str, float] | None = None
    quotes: str | None = None  # records of its "context", or of an "other" one
    digests: tuple[str, ...] = ()  # keyed, of its text and of its numbers

    def __repr__(self) -> str:
        return "ReplyFacts(<private>)"


@dataclass(frozen=True, slots=True, repr=False)
class ReplyFeatures:
    """Measurements of one reply (PRIVATE)."""

    scalars: Floats
    strings: tuple[str, ...]
    openings: tuple[str, ...]
    scores: Mapping[str, float]
    quotes: str | None = None  # depends on the context, too: no reading of the reply
    digests: tuple[str, ...] = ()


def features(reply: ReplyFacts, canary: str = "") -> ReplyFeatures:
    parts = _Parts.of(reply.text)
    inner = [_inner(call) for call in reply.tool_calls]
    tools = [str(of.get("name", "?") if isinstance(of, Mapping) else of) for of in inner]
    values = _values(reply, parts, tools, canary)
    scalars = np.fromiter((values[name] for name in SCALARS), float, len(SCALARS))
    strings = dict.fromkeys([*_strings(parts, canary), *_tool_strings(reply, tools, canary)])
    openings = tuple(f"opening:{' '.join(words[:2])}" for words in parts.each)
    scores = dict(reply.scores or {})
    return ReplyFeatures(scalars, tuple(strings), openings, scores, reply.quotes, reply.digests)


def as_features(reply: ReplyFacts | ReplyFeatures, canary: str = "") -> ReplyFeatures:
    """Measure a reply, unless that was done before."""
    return reply if isinstance(reply, ReplyFeatures) else features(reply, canary)


@dataclass(frozen=True, slots=True)
class _Parts:
    """Sentences of a text and their words, in lower case. Every numeral becomes the word "#";
    what the numerals say is measured apart."""

    text: str
    sentences: list[str]
    each: list[list[str]]
    words: list[str]
    marks: list[str]

    @staticmethod
    def of(text: str) -> _Parts:
        found = (_ITEM.sub("", s).strip() for s in SENTENCE.split(text))
        sentences = [s for s in found if s]
        each = [_words(s) for s in sentences]
        return _Parts(text, sentences, each, [w for s in each for w in s], _MARK.findall(text))


def _words(text: str) -> list[str]:
    found = _WORD.findall(text.lower().replace("’", "'"))
    return ["#" if word[0].isdecimal() else word for word in found]


def _values(
    reply: ReplyFacts, parts: _Parts, tools: Sequence[str], canary: str
) -> dict[str, float]:
    secret = set(_words(canary))
    return {
        **_sizes(parts),
        **_marks(parts),
        **_word_counts(parts),
        **_sets("neighbours", map(" ".join, pairwise(parts.words))),
        **_sets("case", _CASED.findall(parts.text)),
        **_sets("gap", _BETWEEN.findall(parts.text)),
        **_sets("call", _calls(reply, tools, canary)),
        "order_alphabet": _ascent([s.lower() for s in parts.sentences]),
        "order_length": _ascent([float(len(s)) for s in parts.sentences]),
        "canary_words": len(secret & set(parts.words)) / len(secret) if secret else math.nan,
        **numbers_of(parts.text),
        **_metadata(reply, parts, tools),
    }


def _sizes(parts: _Parts) -> dict[str, float]:
    lengths = [len(words) for words in parts.each] or [0]
    count = len(parts.words)
    return {
        "chars": len(parts.text),
        "words": count,
        "sentences": len(parts.sentences),
        "lines": parts.text.count("\n") + 1,
        "word_length": sum(map(len, parts.words)) / max(count, 1),
        "sentence_length": count / len(lengths),
        "longest_sentence": max(lengths),
        "first_sentence": lengths[0],
        "last_sentence": lengths[-1],
        "type_token_ratio": len(set(parts.words)) / max(count, 1),
        "blank_ends": sum(line != line.rstrip(" \t") for line in parts.text.split("\n")),
        "other_blanks": sum(one.isspace() and one not in " \n" for one in parts.text)
        + parts.text.count("  "),
        "small_starts": sum(sentence[0].islower() for sentence in parts.sentences),
    }


def _marks(parts: _Parts) -> dict[str, float]:
    text, size = parts.text, max(len(parts.text), 1)
    return {
        **{name: len(pattern.findall(text)) for name, pattern in PATTERNS.items()},
        "digits": sum(map(str.isdigit, text)) / size,
        "upper_case": sum(map(str.isupper, text)) / size,
        "capital_words": sum(word.isupper() and len(word) > 1 for word in text.split()),
        "non_ascii": 0 if text.isascii() else sum(ord(c) > 127 for c in text),
        "exclamations": text.count("!"),
        "questions": text.count("?"),
        "commas": text.count(",") / size,
        "punctuation": len(parts.marks) / size,
    }


def _word_counts(parts: _Parts) -> dict[str, float]:
    size = max(len(parts.words), 1)
    lists = {name: sum(map(w.__contains__, parts.words)) for name, w in WORD_LISTS.items()}
    share = {code: sum(map(w.__contains__, parts.words)) / size for code, w in LANGUAGES.items()}
    return {
        **lists,
        **_sets("word", parts.words),
        **{f"stop_{code}": value for code, value in share.items()},
        "foreign_less_english": max(share[code] for code in _FOREIGN) - share["en"],
    }


def _sets(kind: str, found: Iterable[str]) -> dict[str, float]:
    """How many fall into each of some fixed halves of all texts: a reply whose text is not stored
    still shows which order, capitals, blanks or arguments it has, if it has them often."""
    halves = [crc32(one.encode("utf-8", "surrogatepass")) for one in found]
    return {f"{kind}_set_{bit + 1}": sum(of >> bit & 1 for of in halves) for bit in range(SETS)}


def _ascent(values: Sequence[str] | Sequence[float]) -> float:
    """Share of pairs in ascending order minus the share in descending order (Kendall's tau)."""
    some = values[:MOST_COMPARED]
    if len(some) < 2:
        return 0.0
    ranks = np.unique(np.array(some), return_inverse=True)[1]
    above = np.sign(ranks[None, :] - ranks[:, None])[np.triu_indices(len(some), 1)]
    return float(above.mean())


def _metadata(reply: ReplyFacts, parts: _Parts, tools: Sequence[str]) -> dict[str, float]:
    seconds = math.nan if reply.seconds is None else float(reply.seconds)
    tokens = math.nan if reply.tokens is None else float(reply.tokens)
    return {
        "seconds": seconds,
        "tokens": tokens,
        "tokens_odd": tokens % 2,
        "seconds_per_token": seconds / max(tokens, 1.0),
        "tokens_per_word": tokens / max(len(parts.words), 1),
        "tools": len(tools),
        "distinct_tools": len(set(tools)),
    }


def _strings(parts: _Parts, canary: str) -> Iterator[str]:
    words = parts.words
    yield from (f"word:{w}" for w in words)
    yield from (f"mark:{m}" for m in parts.marks)
    yield from (f"bigram:{a} {b}" for a, b in pairwise(words))
    for one, count in Counter([*words, *parts.marks]).items():
        yield from (f"times:{one} {times}" for times in range(2, min(count, MOST_TIMES) + 1))
    yield from (f"run:{run[:LONGEST_RUN]}" for run in _RUN.findall(parts.text))
    yield from _of_text(blot_out(parts.text[:LONGEST_WHOLE], canary))
    for part in _UNSPACED.findall(parts.text[:LONGEST_WHOLE]):
        yield from (f"gram:{part[at : at + 2]}" for at in range(len(part) - 1))
    for size in (1, 2):
        yield from (f"opening:{' '.join(s[:size])}" for s in parts.each)
        yield f"first:{' '.join(words[:size])}"
        yield f"last:{' '.join(words[-size:])}"


def _tool_strings(reply: ReplyFacts, tools: Sequence[str], canary: str) -> Iterator[str]:
    yield from (f"tool:{name}" for name in tools)
    yield f"tools:{'>'.join(tools)}"
    yield f"finish:{reply.finish_reason}"
    calls = _calls(reply, tools, canary)
    yield from (f"call:{one[:LONGEST_CALL]}" for one in calls)
    yield f"calls:{'>'.join(one[:LONGEST_CALL] for one in calls[:MOST_CALLS])}"
    yield from _in_order(tools, reply.tool_calls, canary)
    for name, call in zip(tools, reply.tool_calls, strict=True):
        for key, value in list(_arguments(call).items())[:MOST_ARGUMENTS]:
            yield f"argument:{name}.{key}"
            yield f"argument:{name}.{key}={str(value)[:LONGEST_VALUE]}"


def _calls(reply: ReplyFacts, tools: Sequence[str], canary: str) -> list[str]:
    each = zip(tools, reply.tool_calls, strict=True)
    return [blot_out(f"{name} {_canonical(call)}", canary) for name, call in each]


def _in_order(tools: Sequence[str], calls: Sequence[object], canary: str) -> Iterator[str]:
    """The values of each argument, in the order of the calls."""
    values: dict[str, list[str]] = {}
    for name, call in zip(tools[:MOST_CALLS], calls, strict=False):
        for key, value in list(_arguments(call).items())[:MOST_ARGUMENTS]:
            said = blot_out(str(value), canary)[:LONGEST_VALUE]
            values.setdefault(f"{name}.{key}", []).append(said)
    yield from (f"calls:{key}={'>'.join(said)}" for key, said in values.items())


def _canonical(call: object) -> str:
    """The arguments, whatever the order of their names."""
    each = ((str(key), repr(value)) for key, value in _arguments(call).items())
    return ", ".join(f"{key}={value}" for key, value in sorted(each))


def _inner(call: object) -> object:
    return call.get("function", call) if isinstance(call, Mapping) else call


def _arguments(call: object) -> Mapping[object, object]:
    inner = _inner(call)
    given = inner if isinstance(inner, Mapping) else {}
    found: object = next((given[name] for name in ARGUMENTS if name in given), {})
    if isinstance(found, str):
        try:
            found = json.loads(found)
        except (ValueError, RecursionError):  # no JSON, or nested too deeply
            return {"text": found}
    return found if isinstance(found, Mapping) else {"value": found}


SCALARS = tuple(_values(ReplyFacts(""), _Parts.of(""), (), ""))  # names of the numbers
