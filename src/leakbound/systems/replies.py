"""Make a checked reply of what a system of the user returned."""

from __future__ import annotations

import inspect
import json
import math
import re
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import islice
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from leakbound.errors import TargetError
from leakbound.models.content import whole
from leakbound.models.http.blocking import ToEnd, run_blocking
from leakbound.systems.channels import CHANNELS_MUST, channel_texts
from leakbound.systems.protocol import Reply
from leakbound.tasks import Query

if TYPE_CHECKING:
    from pydantic import JsonValue

MOST_ITEMS = 1000  # of an iterator in a reply
MOST_NESTED = 100  # lists and objects within each other in a tool call
MOST_TOKENS = 1 << 53  # whole numbers that a float holds; no reply is as long
# Names of what holds an answer, of frameworks, clients and services, the likeliest first.
ANSWERS = (
    "answer", "response", "reply", "output_text", "output", "result", "completion", "text",
    "content", "generated_text", "message", "label", "prediction", "delta",
)  # fmt: skip
LISTS = (("messages", -1), ("choices", 0), ("replies", 0))  # and which of their items holds it
DEPTH = 5  # choices -> item -> message -> content -> parts -> text


def as_reply(answer: object, name: str, seconds: float | None = None) -> Reply:
    """Make a reply of what a system returned."""
    text = text_in(answer)
    if not isinstance(text, str):
        if text is None and isinstance(answer, Mapping):  # its keys may be private
            raise TargetError(
                f"the system {name!r} returned a {type(answer).__name__} with no text under the "
                f"names of an answer ({', '.join(ANSWERS)}); it must return the answer as str, or "
                "under one of these names."
            )
        raise TargetError(
            f"the system {name!r} returned {'None' if text is None else type(text).__name__}; it "
            "must return the answer as str."
        )
    given = {part: _part(answer, part) for part in CHECKS}
    own_parts = {part: not isinstance(value, OTHERS.get(part, ())) for part, value in given.items()}
    found: dict[str, Any] = {
        part: _check(value, part, name) if own_parts[part] else None
        for part, value in given.items()
    }
    if found["seconds"] is None:
        found["seconds"] = seconds
    own = found["channels"] is not None or isinstance(answer, Reply)  # which names what it has
    declared = [part for part in DECLARED if own_parts[part]]
    if not own and (told := whole_reply(answer, text, declared)) is not None:
        found["channels"] = {REPLY: whole(told)}
    return Reply(whole(text), **found)


REPLY = "reply"  # the channel of a whole reply, where it has more than its answer
# What frameworks give under these names: scores of retrieved texts, counts by kind.
OTHERS: Mapping[str, tuple[type, ...]] = {"scores": (list, tuple), "tokens": (Mapping,)}
DECLARED = ("scores", "seconds", "tokens", "tool_calls")  # parts that are read by themselves
CALL_IDS = ("id", "call_id", "tool_call_id")
# Names of words that say how a reply was made, whatever they are.
MADE_BY = frozenset({"model", "object", "system_fingerprint", "service_tier", "version"})
# Names of states; what is usual of them tells nothing, and other values are read.
STATES = frozenset({
    "finish_reason", "stop_reason", "status", "status_code", "ok", "success", "type", "role",
    "index", "logprobs", "prompt_logprobs", "refusal", "audio", "annotations", "function_call",
    "tool_calls", "usage", "timings",
})  # fmt: skip
USUAL = frozenset({
    "stop", "eos", "eos_token", "length", "max_tokens", "end_turn", "stop_sequence", "tool_calls",
    "assistant", "tool", "message", "text", "ok", "success", "succeeded", "done", "complete",
    "completed", "finished",
})  # fmt: skip
NUMBERS = {"index": 0, "status": 200, "status_code": 200}
OUTER = ("choices", "message", "delta", "usage", "timings", "tool_calls")  # which tell of it, too
DURATIONS = re.compile(r"(^|_)(times?|ms|secs?|seconds|latency|elapsed|duration|took)$")
MOMENTS = re.compile(r"(^|_)(created|timestamp|date|time|at|ts)$")
DAY = 26 * 3600  # seconds: a clock of any time zone
ID = re.compile(r"([A-Za-z]{1,12}[-_:.])?(?P<drawn>[0-9A-Za-z_-]{8,})")
WORDS = re.compile(r"(?<![0-9A-Za-z])[a-z]{3,}(?![0-9A-Za-z])")


def whole_reply(reply: object, answer: str, but: Collection[str] = ()) -> str | None:
    """All of a reply but some fields, where it has more than its answer and how it was made."""
    inner, said = _object_in(answer), answer
    told = (reply if isinstance(reply, list) else _fields(reply)) or inner
    if told is None:  # a text, which may hold the JSON of a stream of events, line by line
        lines = (line.removeprefix("data:").strip() for line in answer.splitlines())
        with suppress(ValueError, RecursionError):
            if runs := _runs([json.loads(one) for one in lines if one.startswith("{")], answer):
                return "\n".join([answer, *runs])
        return None
    if isinstance(told, Mapping):
        told = {name: one for name, one in told.items() if name not in but}
    try:
        text = json.dumps(told, default=_plain)
        if inner is not None:
            text = text.replace(json.dumps(answer), json.dumps(_without_bookkeeping(inner)))
            answer = found if isinstance(found := text_in(inner), str) else ""
        plain = json.loads(text)
    except (TypeError, ValueError, RecursionError):  # such as objects that hold each other
        return " ".join(map(str, told.values() if isinstance(told, Mapping) else told))
    left = _without_bookkeeping(plain)
    if isinstance(left, list):  # parts, of which each may hold a text of the answer
        more = any(_has_more(one, answer) and _has_more(one, _piece(one)) for one in left)
    else:
        more = _has_more(left, answer)
    runs = _runs(left, said)
    text = json.dumps(left, ensure_ascii=False)
    return "\n".join([text, *runs]) if more or runs else None


WHOLE = 8  # words of a piece, on average, that is a text of its own


def _runs(value: object, answer: str) -> list[str]:
    # what short texts under one name, or numbered ones, say together, beside the answer
    found: dict[tuple[str, ...], list[str]] = {}
    open_values: list[tuple[tuple[str, ...], object]] = [((), value)]
    while open_values:
        path, one = open_values.pop()
        if isinstance(one, str):
            found.setdefault(path, []).append(one)
        elif isinstance(one, list):
            each = [(path, inner) for inner in one]
            if all(isinstance(inner, list) for inner in one):  # as pairs of word and tag
                each = [((*path, str(at)), x) for inner in one for at, x in enumerate(inner)]
            open_values += reversed(each)
        elif isinstance(one, dict):
            if all(isinstance(weight, int | float) for weight in one.values()):
                found.setdefault(path, []).extend(one)  # of words
            open_values += [
                ((*path, key.strip("0123456789")), inner) for key, inner in reversed(one.items())
            ]
    several = (
        texts for texts in found.values()
        if len(texts) > 1 and len(" ".join(texts).split()) <= WHOLE * len(texts)
    )  # fmt: skip
    # words, or pieces that have their blanks; of a mixture both
    runs = [
        blank.join(texts) for texts in several for blank, joins in (
            ("", any(one != one.strip() for one in texts)),
            (" ", any(one == one.strip() for one in texts)),
        ) if joins
    ]  # fmt: skip
    return [one for one in runs if " ".join(one.split()) not in " ".join(answer.split())]


def _object_in(text: str) -> dict[str, JsonValue] | None:
    with suppress(ValueError, RecursionError):  # such as a number of 5,000 digits
        found = json.loads(text) if text.lstrip().startswith("{") else None
        return found if isinstance(found, dict) else None
    return None


def _fields(reply: object) -> Mapping[object, object] | None:
    held = {} if reply is None else dict(getattr(reply, "__dict__", ()))
    own = {name: one for name, one in held.items() if not str(name).startswith("_")}
    if isinstance(reply, Mapping):
        return own | {str(key): one for key, one in reply.items()}
    if isinstance(reply, str):  # of a class of its own
        return own or None
    if isinstance(reply, tuple) and hasattr(reply, "_fields"):
        return dict(zip(reply._fields, reply, strict=True))
    if reply is None or isinstance(reply, bytes | int | float | Sequence | Set):
        return None
    found = vars(type(reply)).items()
    read = [name for name, one in found if isinstance(one, property)]
    names = {*held, *_slots(reply), *read}
    return {name: _quietly(reply, name) for name in sorted(names) if not name.startswith("_")}


def _quietly(reply: object, name: str) -> object:
    """A property may fail."""
    try:
        return _part(reply, name)
    except Exception:
        return None


def _slots(thing: object) -> Iterator[str]:
    for kind in type(thing).__mro__:
        names = getattr(kind, "__slots__", ())
        yield from (names,) if isinstance(names, str) else names


def _plain(value: object) -> object:
    """What stands for an object in a reply."""
    if isinstance(value, Set):
        return [*map(str, value)]
    if isinstance(value, Iterator):
        return [*islice(value, MOST_ITEMS)]
    found = _fields(value)
    return {str(key): one for key, one in found.items()} if found else str(value)


def _without_bookkeeping(value: object, outer: bool = True) -> object:
    """JSON without clocks and, where only the reply is told of, what is usual of any reply."""
    if isinstance(value, list):
        return [_without_bookkeeping(one, outer) for one in value]
    if not isinstance(value, dict):
        return value
    kept = {k: _without_bookkeeping(one, outer and k in OUTER) for k, one in value.items()}
    return {k: one for k, one in kept.items() if not _is_bookkeeping(k.lower(), one, outer)}


def _is_bookkeeping(name: str, value: object, outer: bool) -> bool:
    number = isinstance(value, int | float)
    if (DURATIONS.search(name) and number) or (MOMENTS.search(name) and _is_now(value)):
        return True
    if not outer:
        return False
    if name == "id":
        return _is_drawn(value)
    if name in MADE_BY:
        return number or value is None or (isinstance(value, str) and " " not in value.strip())
    usual = value.lower() in USUAL if isinstance(value, str) else value in (None, [], {})
    return name in STATES and (usual or value is True or value == NUMBERS.get(name))


def _is_drawn(value: object) -> bool:
    """An id that was made for this reply, and names no record in words."""
    found = ID.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return value is None
    return sum(map(str.isdigit, found["drawn"])) > 1 and len(WORDS.findall(found["drawn"])) < 2


def _is_now(value: object) -> bool:
    now = datetime.now(UTC)
    if isinstance(value, int | float):
        present, units = int(now.timestamp()), (1, 10**3, 10**6, 10**9)
        return any(-DAY < value / unit - present < DAY for unit in units if abs(value) < 1e20)
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        with suppress(ValueError, TypeError, IndexError, OverflowError):
            shown = read(str(value))
            shown = shown if shown.tzinfo else shown.replace(tzinfo=UTC)
            return abs((shown - now).total_seconds()) < DAY
    return value is None


def _has_more(value: object, answer: str) -> bool:
    if isinstance(value, dict):
        return any(_has_more(one, answer) for one in value.values())
    if isinstance(value, list):  # an empty one may be of texts in the next reply
        return not value or any(_has_more(one, answer) for one in value)
    return value != answer


RESOLUTION = 0.01  # seconds of a clock in this process: nobody outside sees less


def seen_seconds(began: float) -> float:
    """The time since then to 10 ms, after a draw below that: it hides smaller differences."""
    passed = time.perf_counter() - began + RESOLUTION * float(np.random.default_rng().random())
    return math.floor(passed / RESOLUTION) * RESOLUTION


def together(replies: Sequence[Reply], query: Query) -> Reply:
    """All replies to the questions of a query as one."""
    if len(replies) == 1:
        return replies[0]
    seconds = [reply.seconds for reply in replies if reply.seconds is not None]
    tokens = [reply.tokens for reply in replies if reply.tokens is not None]
    ends = dict.fromkeys(reply.finish_reason for reply in replies if reply.finish_reason)
    seen = [item for reply in replies for item in (reply.channels or {}).items()]
    channels = {name: "\n".join(text for key, text in seen if key == name) for name, _ in seen}
    return Reply(
        query.joined(reply.text for reply in replies),
        seconds=sum(seconds) if seconds else None,
        tokens=sum(tokens) if tokens else None,
        finish_reason=",".join(ends) or None,
        tool_calls=tuple(call for reply in replies for call in reply.tool_calls or ()) or None,
        channels=channels or None,
    )


def join_pieces(answer: object) -> object:
    """An answer that comes in pieces, as one."""
    return _in_one([*answer]) if isinstance(answer, Iterator) else answer


def _in_one(pieces: Sequence[object]) -> object:
    """The texts of pieces as one, with what is in them beside texts."""
    texts = [*map(_piece, pieces)]
    told: list[object] = [
        piece if isinstance(piece, list) else _fields(piece) or {}
        for piece, text in zip(pieces, texts, strict=True)
        if whole_reply(piece, text) is not None
    ]
    text = "".join(texts)
    told += _runs(texts, text)
    found: dict[str, object] = {"pieces": told} if told else {}
    if empty := pieces.count(""):  # which users see as pauses
        found["empty pieces"] = empty
    return {"text": text, **found} if found else text


def finish(answer: object, run: ToEnd = run_blocking) -> object:
    """What a function returned that is not declared as asynchronous, awaited and joined."""
    later = inspect.isawaitable(answer) or isinstance(answer, AsyncIterator)
    return run(finish_async(answer)) if later else join_pieces(answer)


async def finish_async(answer: object) -> object:
    answer = await answer if inspect.isawaitable(answer) else answer
    if not isinstance(answer, AsyncIterator):
        return join_pieces(answer)
    return _in_one([piece async for piece in answer])


def _piece(piece: object) -> str:
    """Pieces without a text, such as retrieved documents, add nothing."""
    found = text_in(piece)
    return found if isinstance(found, str) else ""


def text_in(answer: object, depth: int = DEPTH) -> object:
    if isinstance(answer, str) or depth == 0:
        return answer
    for name in ANSWERS:
        if (part := _part(answer, name)) is not None:
            return text_in(part, depth - 1)
    for name, at in LISTS:
        part = _part(answer, name)
        if isinstance(part, Sequence) and part and not isinstance(part, str):
            return text_in(part[at], depth - 1)
    if isinstance(answer, list):  # parts of a message; others than text are left
        texts = [text for one in answer if isinstance(text := text_in(one, depth - 1), str)]
        typed = all(isinstance(_part(one, "type"), str) for one in answer)  # calls of tools alone
        return "".join(texts) if texts or typed else answer  # an empty list found nothing
    if _part(answer, "tool_calls"):  # of an agent that says nothing beside
        return ""
    return None if isinstance(answer, Mapping) else answer


def _part(answer: object, part: str) -> object:
    """Of an answer that a user's own class may hold."""
    if isinstance(answer, Mapping):
        return answer.get(part)
    found: object = getattr(answer, part, None)
    return None if callable(found) and not isinstance(found, str) else found


def _check(value: object, part: str, name: str) -> object:
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
    try:
        return float(value) if isinstance(value, Real) and not isinstance(value, bool) else None
    except OverflowError:  # of a whole number of more than 308 digits
        return None


def _seconds(value: object) -> float | None:
    number = _number(value)
    return number if number is not None and math.isfinite(number) and number >= 0 else None


def _tokens(value: object) -> int | None:
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    return int(cast(int, value)) if whole and 0 <= cast(int, value) < MOST_TOKENS else None


def _tool_calls(value: object) -> tuple[JsonValue, ...] | None:
    """As JSON holds them, so that a stored reply equals the one that was given."""
    calls: Sequence[Any] = value if isinstance(value, list | tuple) else [None]
    try:  # objects of a client, too
        plain = [dict(one) if isinstance(one, Mapping) else one if isinstance(one, str)
                 else vars(one) for one in calls]  # fmt: skip
        found = json.loads(json.dumps(plain, default=vars, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return None
    return tuple(found) if _is_flat(found, MOST_NESTED) else None


def _is_flat(value: JsonValue, most: int) -> bool:
    """Whether so many lists and objects at most are nested."""
    if not isinstance(value, list | dict):
        return True
    inner = value.values() if isinstance(value, dict) else value
    return most > 0 and all(_is_flat(one, most - 1) for one in inner)


def call_text(call: JsonValue) -> str:
    """The names and values of a tool call, but for an id that was drawn for it."""
    parts = (_object_in(call) if isinstance(call, str) else None) or call
    if isinstance(parts, dict):
        parts = {k: one for k, one in parts.items() if k not in CALL_IDS or not _is_drawn(one)}
    said, open_values = list[str](), [("", parts)]
    while open_values:
        name, value = open_values.pop()
        inner = _object_in(value) if isinstance(value, str) else None  # arguments, as some APIs do
        value = value if inner is None else inner
        if isinstance(value, dict):
            open_values += reversed(value.items())
        elif isinstance(value, list):
            open_values += [(name, one) for one in reversed(value)]
        else:
            said.append(f"{name}: {value}" if name else str(value))
    return "\n".join(said)


CHECKS: Mapping[str, tuple[Callable[[object], object], str]] = {
    "scores": (_scores, "a mapping of answers to numbers"),
    "seconds": (_seconds, "a finite number of at least 0"),
    "tokens": (_tokens, "a whole number of at least 0"),
    "finish_reason": (
        lambda one: whole(one) if isinstance(one, str) else None, "a str such as 'stop'",
    ),
    "tool_calls": (_tool_calls, "a list of tool names, or of JSON objects with 'name' and "
                   f"'arguments', of finite numbers and nested at most {MOST_NESTED} deep"),
    "channels": (channel_texts, CHANNELS_MUST),
}  # fmt: skip
