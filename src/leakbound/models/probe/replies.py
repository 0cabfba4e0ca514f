"""Read what an endpoint generated from its JSON: a text, and tokens with log-probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from leakbound.models.http.post_json import Fault
from leakbound.models.openai.wire.generated import read_generated

if TYPE_CHECKING:
    from pydantic import JsonValue

BROKEN = (KeyError, IndexError, TypeError, ValueError, Fault)  # raised for unexpected JSON


@dataclass(frozen=True, slots=True)
class Token:
    text: str
    logprob: float | None
    top: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ScoredText:
    text: str
    tokens: tuple[Token, ...] = ()


def read_completion(choice: object) -> ScoredText | None:
    """Read a choice of /v1/completions.

    Examples:
        >>> read_completion({"text": "a"})
        ScoredText(text='a', tokens=())
    """
    try:
        found = _mapping(choice)
        text, logprobs = _answer(choice), found.get("logprobs")
        if isinstance(logprobs, dict) and logprobs.get("content"):
            return ScoredText(text, _chat_tokens(logprobs))
        if not isinstance(logprobs, dict) or "token_logprobs" not in logprobs:
            return ScoredText(text)
        tokens, values = _list(logprobs["tokens"]), _list(logprobs["token_logprobs"])
        tops = _list(logprobs.get("top_logprobs") or [None] * len(tokens))
        rows = zip(tokens, values, tops, strict=True)
        return ScoredText(text, tuple(Token(str(t), _number(v), _top(top)) for t, v, top in rows))
    except BROKEN:
        return None


def read_chat(choice: object) -> ScoredText | None:
    try:
        found = _mapping(choice)
        text = _answer({**found, "message": _mapping(found["message"])})
        return ScoredText(text, _chat_tokens(_mapping(found.get("logprobs") or {})))
    except BROKEN:
        return None


def read_prompt(choice: object) -> ScoredText | None:
    """Read the tokens of a prompt from vLLM's `prompt_logprobs`."""
    try:
        rows = _list(_mapping(choice)["prompt_logprobs"] or [])
        return ScoredText("", tuple(map(_prompt_token, rows))) if rows else None
    except BROKEN:
        return None


def _answer(choice: object) -> str:
    """The text as an audit reads it."""
    return read_generated({"choices": [cast("JsonValue", choice)]}).answer


def _chat_tokens(logprobs: Mapping[str, object]) -> tuple[Token, ...]:
    entries = _list(logprobs.get("content") or [])
    return tuple(map(_chat_token, map(_mapping, entries)))


def _chat_token(entry: Mapping[str, object]) -> Token:
    others = map(_mapping, _list(entry.get("top_logprobs") or []))
    # if tokens share a text, the likeliest one counts, which comes first
    top = {str(other["token"]): _float(other["logprob"]) for other in reversed([*others])}
    return Token(str(entry["token"]), _number(entry["logprob"]), top)


def _prompt_token(row: object) -> Token:
    if row is None:
        return Token("", None, {})
    entries = list(map(_mapping, _mapping(row).values()))
    top = {str(entry["decoded_token"]): _float(entry["logprob"]) for entry in entries}
    return Token(str(entries[0]["decoded_token"]), _float(entries[0]["logprob"]), top)


def _top(top: object) -> dict[str, float]:
    return {str(token): _float(value) for token, value in _mapping(top or {}).items()}


def _number(value: object) -> float | None:
    return None if value is None else _float(value)


def _float(value: object) -> float:
    if not isinstance(value, int | float | str):
        raise TypeError("no number")
    return float(value)


def _mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise TypeError("no object")
    return value


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError("no list")
    return value
