"""What an endpoint said, read from its JSON:

a text, and tokens with log-probabilities where it gave any.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Said", "Token", "read_chat", "read_completion", "read_prompt"]

BROKEN = (KeyError, IndexError, TypeError, ValueError, AttributeError)


@dataclass(frozen=True, slots=True)
class Token:
    """A token's text, its ln p (None where the server gave none, as for the first token), and its
    alternatives' ln p.
    """

    text: str
    logprob: float | None
    top: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Said:
    """A text and its tokens, which are empty without log-probabilities."""

    text: str
    tokens: tuple[Token, ...] = ()


def read_completion(choice: Any) -> Said | None:
    """One choice of /v1/completions, in the legacy shape; None if it has another."""
    try:
        text, logprobs = str(choice["text"]), choice.get("logprobs")
        if not logprobs or "token_logprobs" not in logprobs:
            return Said(text)
        tops = logprobs.get("top_logprobs") or [None] * len(logprobs["tokens"])
        rows = zip(logprobs["tokens"], logprobs["token_logprobs"], tops, strict=True)
        return Said(
            text, tuple(Token(str(token), _number(value), _top(top)) for token, value, top in rows)
        )
    except BROKEN:
        return None


def read_chat(choice: Any) -> Said | None:
    """One choice of /v1/chat/completions; None if it has another shape."""
    try:
        text, logprobs = str(choice["message"]["content"] or ""), choice.get("logprobs")
        entries = (logprobs or {}).get("content") or ()
        return Said(text, tuple(
            Token(str(entry["token"]), _number(entry["logprob"]),
                  {str(other["token"]): float(other["logprob"]) for other in entry.get("top_logprobs") or ()})
            for entry in entries
        ))  # fmt: skip
    except BROKEN:
        return None


def read_prompt(choice: Any) -> Said | None:
    """The tokens of a prompt from vLLM's `prompt_logprobs`; None if there are none.

    The prompt's own token comes first.
    """
    try:
        rows = choice["prompt_logprobs"]
        return Said("", tuple(_prompt_token(row) for row in rows)) if rows else None
    except BROKEN:
        return None


def _prompt_token(row: Mapping[str, Any] | None) -> Token:
    if row is None:
        return Token("", None, {})
    top = {str(entry["decoded_token"]): float(entry["logprob"]) for entry in row.values()}
    own = next(iter(row.values()))
    return Token(str(own["decoded_token"]), float(own["logprob"]), top)


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _top(top: Any) -> dict[str, float]:
    return {str(token): float(value) for token, value in (top or {}).items()}
