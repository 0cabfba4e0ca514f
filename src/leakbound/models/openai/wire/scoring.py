"""Log-probabilities as endpoints write them, aligned with the text in question.

What cannot be aligned is refused: no score is invented.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from leakbound.errors import TargetError
from leakbound.models.http.post_json import Fault

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
    before = _reach(pieces, text, first_known)
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
    return any(at >= len(text) for reached in _reach(pieces, text, True) for at in reached)


def _reach(pieces: Sequence[str], text: str, first_known: bool) -> list[Positions]:
    """Positions in the text where each token may begin, and where the last one may end."""
    known = frozenset({0}) if first_known else frozenset(range(min(FIRST, len(text)) + 1))
    found = [frozenset({0}), known] if not first_known else [known]
    for piece in pieces[len(found) - 1 :]:
        found.append(_behind(piece, found[-1], text))
    return found


def _may_begin(token: Sequence[str], prompt: str, response: str) -> bool:
    """Whether a response may begin with a token, which may hold parts of its first character."""
    if not token or not token[0].startswith(PART):
        return bool(token)
    return not response[:1].isascii() and prompt[-1:].isascii()


def _ends(pieces: Sequence[str], begin: int, text: str, at: int, first_known: bool) -> list[int]:
    """Where the text may end: after the first token that completes it, or with the last token."""
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


Floats = npt.NDArray[np.float32]
ROUNDING = 1e-5  # how far above 0 the log-probability of a probability of 1 may be rounded


def log_probability(value: object) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or value > ROUNDING
    ):
        raise Fault("an invalid log-probability")
    return min(0.0, float(value))


def align_echo(
    tokens: Sequence[object], values: Sequence[object], prompt: str, response: str
) -> Floats:
    """Scores of a response from an echo, which may begin and end with further tokens."""
    texts = [token for token in tokens if isinstance(token, str)]
    if not len(texts) == len(tokens) == len(values):
        raise Fault("echoed tokens and values that do not match")
    first = 0 if makes_up(texts, prompt + response) else 1
    begin, end = boundaries(texts[first:], prompt, response)
    return np.array([_own(value) for value in values[first + begin : first + end]], np.float32)


def align_prompt(entries: object, ids: object, prompt: str, response: str) -> Floats:
    """Scores from vLLM's `prompt_logprobs`, placed from the end: the first token has no text."""
    if not isinstance(entries, list) or not entries:
        raise Fault("no prompt log-probabilities")
    known = ids if isinstance(ids, list) and len(ids) == len(entries) else [None] * len(entries)
    rows = [_token(entry, token) for entry, token in zip(entries[1:], known[1:], strict=True)]
    pieces = [text for text, _ in rows]
    begin, end = boundaries(["", *pieces], prompt, response, first_known=False)
    return np.array([_own(value) for _, value in rows[begin - 1 : end - 1]], np.float32)


def _token(entry: object, token: object) -> tuple[str, object]:
    if not isinstance(entry, dict) or (token is None and len(entry) != 1):
        raise Fault("prompt log-probabilities of several tokens")
    found = next(iter(entry.values())) if token is None else entry.get(str(token))
    if not isinstance(found, dict):
        raise Fault("prompt log-probabilities without tokens")
    return str(found.get("decoded_token")), found.get("logprob")


def _own(value: object) -> float:
    if value is None:
        raise TargetError(NO_FIRST)
    return log_probability(value)


def align_ids(entries: object, prompt: Sequence[int], response: Sequence[int]) -> Floats:
    """Scores of the tokens of a response, from vLLM's `prompt_logprobs` of token ids."""
    ids = (*prompt, *response)
    if not isinstance(entries, list) or len(entries) != len(ids):
        raise TargetError(
            f"{len(ids)} token ids were sent, and the endpoint gives log-probabilities of another "
            "number of tokens; its server adds or removes tokens, so it cannot score token ids."
        )
    found = [_under(entry, token) for entry, token in zip(entries, ids, strict=True)][len(prompt) :]
    return np.array([_own(value) for value in found], np.float32)


def _under(entry: object, token: int) -> object:
    if entry is None:
        return None
    found = entry.get(str(token)) if isinstance(entry, dict) else None
    if not isinstance(found, dict):
        raise Fault("prompt log-probabilities of other tokens")
    return found.get("logprob")


def first_token_scores(top: Mapping[str, object], labels: Sequence[str]) -> Floats:
    """Scores of labels that are reported next tokens, with or without a blank; else NaN."""
    tokens = [_shown_as(top, label) for label in labels]
    scores = [math.nan if token is None else log_probability(top[token]) for token in tokens]
    return np.array(scores, np.float32)


def _shown_as(top: Mapping[str, object], label: str) -> str | None:
    """The reported token of a label: the likelier one of those with and without a blank."""
    fits = [token for token in top if token.strip() and token.lstrip() == label.strip()]
    return max(fits, key=lambda token: log_probability(top[token]), default=None)
