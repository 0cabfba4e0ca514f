"""What a run stores of a reply: the whole reply, or its measurements without its words.

An interrupted run resumes from what it stored, so the witness never sees more than that. If the
text is not stored, the witness sees the measurements, which are computed from the whole reply
before it is dropped, and the strings that are on public lists, in alphabetical order. These are
words such as "sorry" and "the" in seven languages and "approved" in English, punctuation and common
signs, how often each of them occurs, runs of such signs, and the usual finish reasons. Of the
numbers that the text shows, some are kept, to two digits (`numerals.coarse`). How many words fall
into each of four halves of all words is stored too, four bits of a reply of one word; and the same
of neighbouring words, of words with their capitals, of what stands between words, and of tool calls
with their arguments. Tool names, other words and their order are not; a caller may add digests of
words with a key of its own.
"""

from __future__ import annotations

import math
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeAlias

import numpy as np

from leakbound.witness.features import SCALARS, ReplyFacts, ReplyFeatures, features
from leakbound.witness.lexicon import COMMON_WORDS, NUMBER_WORDS, STATUS_MARKS
from leakbound.witness.numerals import ROW, numbers_of

StoredReply: TypeAlias = ReplyFacts | ReplyFeatures
Json: TypeAlias = dict[str, Any]
# finish reasons of the common chat APIs; any other reason might hold private text
FINISH_REASONS = frozenset({
    "None", "stop", "length", "content_filter", "tool_calls", "function_call", "end_turn",
    "max_tokens", "stop_sequence", "tool_use", "refusal", "pause_turn", "safety", "eos", "error",
})  # fmt: skip
OTHER_REASON = "finish:other"
SAID_AT, OF_ALL, FORMS_AT = 4, 5, 6  # places of digests of words and forms; OF_ALL of no pair alone
DIGEST = "digest:"
_WORDS = COMMON_WORDS | {"#"}
_MARKS = frozenset({*string.punctuation, *STATUS_MARKS, "\n"})
PUBLIC = frozenset({
    *(f"word:{word}" for word in _WORDS), *(f"mark:{mark}" for mark in _MARKS),
    *(f"finish:{reason}" for reason in FINISH_REASONS),
})  # fmt: skip
_COUNTED = _WORDS | _MARKS
PUBLIC_KEPT = PUBLIC | {OTHER_REASON}
_ANSWER_MARK = "mark:."  # a mark that may follow an answer


def mask_reply(reply: StoredReply, canary: str = "", answers: Sequence[str] = ()) -> ReplyFeatures:
    """The parts of a reply that may be stored when its text may not."""
    if isinstance(reply, ReplyFeatures):
        return reply
    whole = features(reply, canary)
    scores = {name: whole.scores[name] for name in answers if name in whole.scores}
    coarse = numbers_of(reply.text, stored=True)
    each = zip(SCALARS, whole.scalars.tolist(), strict=True)
    scalars = np.array([coarse.get(name, value) for name, value in each])
    strings = (*_public(whole.strings), *_of_digests(whole.digests))
    return ReplyFeatures(scalars, strings, (), scores, whole.quotes, whole.digests)


def shows_more(reply: StoredReply | None, answers: Sequence[str]) -> bool:
    """Whether a system returns more than one of the answers: a longer text, other words or marks,
    tokens, a finish reason or tool calls."""
    if reply is None:
        return False
    found = features(reply) if isinstance(reply, ReplyFacts) else reply
    numbers = dict(zip(SCALARS, found.scalars.tolist(), strict=True))
    reasons = {text for text in found.strings if text.startswith("finish:")}
    known = {_ANSWER_MARK, *(text for one in answers for text in features(ReplyFacts(one)).strings)}
    said = {text for text in found.strings if text.startswith(("word:", "mark:"))}
    longer = numbers["chars"] > max(map(len, answers), default=0) + 1 or not said <= known
    metadata = not math.isnan(numbers["tokens"]) or numbers["tools"] > 0
    return longer or metadata or reasons != {"finish:None"}


def _public(strings: Sequence[str]) -> tuple[str, ...]:
    """Those on public lists, sorted; no words for numbers where they may spell a code."""
    kept = {OTHER_REASON if s.startswith("finish:") and s not in PUBLIC else s for s in strings}
    numbers = {text for text in kept if _word_of(text) in NUMBER_WORDS}
    public = {text for text in kept if is_public(text)}
    return tuple(sorted(public - (numbers if len(numbers) >= ROW else set())))


def _of_digests(digests: Sequence[str]) -> Iterator[str]:
    return (f"{DIGEST}{one}" for one in "".join(digests[OF_ALL : OF_ALL + 1]).split())


def _word_of(text: str) -> str:
    """The word of "word:two" and of "times:two 3"."""
    kind, _, rest = text.partition(":")
    return {"word": rest, "times": rest.partition(" ")[0]}.get(kind, "")


def is_public(text: str) -> bool:
    if text in PUBLIC_KEPT:
        return True
    kind, _, rest = text.partition(":")
    if kind == "run":
        return _MARKS.issuperset(rest.replace(" ", ""))
    return kind == "times" and rest.partition(" ")[0] in _COUNTED


def reply_to_json(reply: StoredReply) -> Json:
    if isinstance(reply, ReplyFacts):
        return {name: value for name, value in asdict(reply).items() if value not in (None, ())}
    numbers = zip(SCALARS, reply.scalars.tolist(), strict=True)
    return {
        "numbers": {name: None if math.isnan(v) else v for name, v in numbers if v != 0},
        "strings": [one for one in reply.strings if not one.startswith(DIGEST)],
        "scores": dict(reply.scores),
        **({"quotes": reply.quotes} if reply.quotes else {}),
        **({"digests": list(reply.digests)} if reply.digests else {}),
    }


def reply_from_json(found: Mapping[str, Any]) -> StoredReply:
    if "numbers" not in found:
        sequences = {name: tuple(found.get(name, ())) for name in ("tool_calls", "digests")}
        return ReplyFacts(**{**found, **sequences})
    numbers = [found["numbers"].get(name, 0.0) for name in SCALARS]
    scalars = np.array([math.nan if value is None else value for value in numbers], float)
    digests = tuple(found.get("digests", ()))
    strings = (*found["strings"], *_of_digests(digests))
    return ReplyFeatures(scalars, strings, (), dict(found["scores"]), found.get("quotes"), digests)
