"""Find the positions of tokens in a text when only their texts are known.

Tokens that are parts of a character are written as U+FFFD, and some servers leave out the blank
before a word. Both cases are handled. Ambiguous positions are refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from leakbound.errors import TargetError

PART = "�"  # represents bytes that are not a whole character
RUN = re.compile(f"{PART}+")
HELD = 4  # the most characters that one token of parts can complete
FIRST = 256  # the most characters of a first token; the longest known ones are 128 blanks
NO_FIRST = (
    "the first token of a text has no log-probability, so a continuation of nothing cannot be "
    "scored."
)
ACROSS = (
    "a token of the endpoint lies across the boundary of a prompt and its continuation, so the "
    "continuation cannot be scored; score token ids (prompt_logprobs and token_ids), or use "
    "another mechanism."
)
OTHERS = (
    "the tokens that the endpoint echoes do not make up the text that was sent, so their "
    "log-probabilities cannot be placed (the prompt may have been changed or cut, or the server "
    "does not echo); use token ids, or another mechanism."
)
Positions = frozenset[int]


def boundaries(
    pieces: Sequence[str], prompt: str, response: str, first_known: bool = True
) -> tuple[int, int]:
    """Find the tokens of a response.

    Examples:
        >>> boundaries(["Say", " yes", " or", " no", "."], "Say yes", " or no")
        (2, 4)
        >>> boundaries(["", " yes", " or", " no"], "Say yes", " or no", first_known=False)
        (2, 4)
    """
    text = prompt + response
    before = _reached(pieces, text, first_known)
    found = [
        (begin, end)
        for begin, reached in enumerate(before)
        if len(prompt) in reached and _may_begin(pieces[begin : begin + 1], prompt, response)
        for end in _ends(pieces, begin, text, len(prompt), first_known)
    ]
    if len(found) == 1 and "" not in pieces[slice(*found[0])]:
        return found[0]
    ends = before if first_known else before[-1:]
    whole = any(at >= len(text) for reached in ends for at in reached)
    raise TargetError(ACROSS if whole else OTHERS)


def makes_up(pieces: Sequence[str], text: str) -> bool:
    """Whether tokens add up to a text, possibly with more text after it."""
    return any(at >= len(text) for reached in _reached(pieces, text, True) for at in reached)


def _reached(pieces: Sequence[str], text: str, first_known: bool) -> list[Positions]:
    """Positions in the text where each token may begin, and where the last one may end."""
    known = frozenset({0}) if first_known else frozenset(range(min(FIRST, len(text)) + 1))
    found = [frozenset({0}), known] if not first_known else [known]
    for piece in pieces[len(found) - 1 :]:
        found.append(_behind(piece, found[-1], text))
    return found


def _may_begin(token: Sequence[str], prompt: str, response: str) -> bool:
    """Whether a response may begin with a token. A token of character parts may, if only the
    response can have such parts there.
    """
    if not token or not token[0].startswith(PART):
        return bool(token)
    return not response[:1].isascii() and prompt[-1:].isascii()


def _ends(pieces: Sequence[str], begin: int, text: str, at: int, first_known: bool) -> list[int]:
    """Where the text may end if a token begins at a position: after the first token that completes
    it, or with the last token.
    """
    reached, found = frozenset({at}), []
    for end in range(begin + 1, len(pieces) + 1):
        reached = _behind(pieces[end - 1], reached, text)
        if len(text) in reached and not _within_character(pieces, end):
            found.append(end)
    return found[:1] if first_known else [end for end in found if end == len(pieces)]


def _behind(piece: str, starts: Positions, text: str) -> Positions:
    """Positions after a token that begins at one of several positions."""
    return frozenset(end for at in starts for end in _from(piece, at, text))


def _from(piece: str, at: int, text: str) -> set[int]:
    if PART in piece:
        return _of_parts(RUN.split(piece), at, text)
    if at <= len(text) and piece.startswith(text[at : at + len(piece)]):  # it may end behind it
        return {at + len(piece)}
    return {at + 1 + len(piece)} if text.startswith(f" {piece}", at) else set()


def _of_parts(literals: Sequence[str], at: int, text: str) -> set[int]:
    """Match parts of characters, which represent at most a few characters that are not ASCII."""
    reached = {at + len(literals[0])} if text.startswith(literals[0], at) else set()
    for literal in literals[1:]:
        held = {end for start in reached for end in _characters(start, text)}
        reached = {end + len(literal) for end in held if text.startswith(literal, end)}
    return reached


def _characters(start: int, text: str) -> list[int]:
    found = [start]
    while len(found) <= HELD and found[-1] < len(text) and not text[found[-1]].isascii():
        found.append(found[-1] + 1)
    return found


def _within_character(pieces: Sequence[str], at: int) -> bool:
    """Whether parts of one character may be on both sides of a token boundary."""
    return 0 < at < len(pieces) and pieces[at - 1].endswith(PART) and pieces[at].startswith(PART)
