"""Aggregates as the text of an evidence row.

A list is votes, an object one of the other kinds or votes with the reply that was counted. Rows of
earlier versions have no reply, and read as before.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias

from leakbound.tasks.outputs import Aggregate, GeneratedText, Vector, Votes
from leakbound.witness import StoredReply, reply_from_json, reply_to_json

Json: TypeAlias = dict[str, Any]


def packed(aggregate: Aggregate) -> str:
    """An aggregate (PRIVATE) as JSON, which `unpacked` reads.

    Examples:
        >>> packed(Votes((3, 1, 0)))
        '[3, 1, 0]'
    """
    if isinstance(aggregate, Votes) and aggregate.reply is None and not aggregate.channels:
        return json.dumps(aggregate.counts)
    return json.dumps(_object(aggregate))


def _object(aggregate: Aggregate) -> Json:
    reply = {} if aggregate.reply is None else {"reply": reply_to_json(aggregate.reply)}
    channels = {name: _object(one) for name, one in aggregate.channels.items()}
    return {**_values(aggregate), **reply, **({"channels": channels} if channels else {})}


def _values(aggregate: Aggregate) -> Json:
    if isinstance(aggregate, Votes):
        return {"votes": aggregate.counts}
    if isinstance(aggregate, GeneratedText):
        return {"text": aggregate.text}
    return {"values": aggregate.values, "choices": aggregate.choices, "points": aggregate.points}


def unpacked(text: str) -> Aggregate:
    """The aggregate (PRIVATE) of a text that `packed` made, in this version or an earlier one."""
    found = json.loads(text)
    if isinstance(found, list):
        return Votes(tuple(found))
    reply, channels = _reply(found), _channels(found)
    if "votes" in found:
        return Votes(tuple(found["votes"]), reply, channels)
    if "text" in found:
        return GeneratedText(found["text"], reply, channels)
    points = tuple(map(tuple, found["points"]))
    return Vector(tuple(found["values"]), tuple(found["choices"]), points, reply, channels)


def _channels(found: Json) -> dict[str, GeneratedText]:
    texts = found.get("channels", {}).items()
    return {name: GeneratedText(one["text"], _reply(one)) for name, one in texts}


def _reply(found: Json) -> StoredReply | None:
    return reply_from_json(found["reply"]) if "reply" in found else None
