"""The reply that a user's answer stands for, checked."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import TYPE_CHECKING, cast

from leakbound.errors import TargetError
from leakbound.systems.protocol import Reply

if TYPE_CHECKING:
    from pydantic import JsonValue

__all__ = ["METADATA", "as_reply"]

MOST_TOKENS = 1 << 53  # whole numbers that a float holds; no reply is as long
METADATA = ("scores", "seconds", "tokens", "finish_reason", "tool_calls")  # beside the text


def as_reply(answer: object, name: str, seconds: float | None = None) -> Reply:
    """The reply that a system's answer stands for.

    Args:
        answer: A text; or a `Reply`, a mapping or an object with `text` and any of `scores`,
            `seconds`, `tokens`, `finish_reason` and `tool_calls`. Methods of an object are not
            read.
        name: Of the system, for messages.
        seconds: How long the answer took, where it does not say so itself.

    Returns:
        The reply.

    Raises:
        TargetError: If there is no text, or something else is of a wrong type. No value is shown:
            it may be private.

    Examples:
        >>> as_reply({"text": "yes", "scores": {"yes": 0.9, "no": 0.1}}, "mine").scores["yes"]
        0.9
        >>> as_reply({"text": "yes", "tokens": "3"}, "mine")
        Traceback (most recent call last):
        ...
        leakbound.errors.TargetError: the system 'mine' returned tokens as str; it must be a whole \
number of at least 0, or None.
    """
    text = _part(answer, "text")
    if text is None and not isinstance(answer, Mapping):
        text = answer
    if not isinstance(text, str):
        raise TargetError(
            f"the system {name!r} returned {type(text).__name__}; it must return the answer as str."
        )
    found = {part: _checked(_part(answer, part), part, name) for part in METADATA}
    given = cast("float | None", found["seconds"])
    return Reply(
        text=text,
        scores=cast("Mapping[str, float] | None", found["scores"]),
        seconds=seconds if given is None else given,
        tokens=cast("int | None", found["tokens"]),
        finish_reason=cast("str | None", found["finish_reason"]),
        tool_calls=cast("tuple[JsonValue, ...] | None", found["tool_calls"]),
    )


def _part(answer: object, part: str) -> object:
    """Of an answer that a user's own class may hold."""
    if isinstance(answer, Mapping):
        return answer.get(part)
    found: object = getattr(answer, part, None)
    return None if callable(found) else found


def _checked(value: object, part: str, name: str) -> object:
    """The value as a plain one."""
    if value is None:
        return None
    read, must = CHECKS[part]
    found = read(value)
    if found is None:
        raise TargetError(
            f"the system {name!r} returned {part} as {type(value).__name__}; it must be {must}, or "
            "None."
        )
    return found


def _scores(value: object) -> dict[str, float] | None:
    if not isinstance(value, Mapping):
        return None
    found = {key: _number(score) for key, score in value.items() if score is not None}
    if not all(isinstance(key, str) for key in found) or None in found.values():
        return None
    return cast("dict[str, float]", found)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, Real) and not isinstance(value, bool) else None


def _seconds(value: object) -> float | None:
    number = _number(value)
    return number if number is not None and math.isfinite(number) and number >= 0 else None


def _tokens(value: object) -> int | None:
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    return int(cast(int, value)) if whole and 0 <= cast(int, value) < MOST_TOKENS else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _tool_calls(value: object) -> tuple[JsonValue, ...] | None:
    """As JSON holds them, so that a stored reply equals the one that was given."""
    if not isinstance(value, list | tuple):
        return None
    if not all(isinstance(call, str | Mapping) for call in value):
        return None
    try:
        calls = [call if isinstance(call, str) else dict(call) for call in value]
        return tuple(json.loads(json.dumps(calls, allow_nan=False)))
    except (TypeError, ValueError, RecursionError):
        return None


CHECKS: Mapping[str, tuple[Callable[[object], object], str]] = {
    "scores": (_scores, "a mapping of answers to numbers"),
    "seconds": (_seconds, "a finite number of at least 0"),
    "tokens": (_tokens, "a whole number of at least 0"),
    "finish_reason": (_text, "a str such as 'stop'"),
    "tool_calls": (_tool_calls, "a list of tool names, or of JSON objects with 'name' and "
                   "'arguments'"),
}  # fmt: skip
