"""What passes through a mechanism: jobs, aggregates before noise, also as JSON, outputs.

What is marked PRIVATE depends on the private context, and no repr shows it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from leakbound.models.content import Private
from leakbound.tasks.example import Context
from leakbound.tasks.task import Query
from leakbound.witness import ReplyFacts, StoredReply, reply_from_json, reply_to_json

Floats = npt.NDArray[np.float64]
ANSWER = "answer"  # the channel that every system has


@dataclass(frozen=True, slots=True, repr=False)
class Job(Private):
    """One query over one private context (PRIVATE)."""

    context: Context
    query: Query


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class _Aggregate(Private):
    """What every aggregate before noise (PRIVATE) may hold.

    Attributes:
        reply: The reply that it was made of, where a user sees it, or what was kept of it.
        channels: What went through the other channels of a system, where the audit reads them;
            what stands in a channel has none of its own.
    """

    reply: StoredReply | None = field(default=None, compare=False)
    channels: Mapping[str, GeneratedText] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True, repr=False)
class Votes(_Aggregate):
    """Aggregate before noise (PRIVATE): votes for each answer.

    Attributes:
        counts: One count for each answer, and a last one for "none of them" (unparsable).
    """

    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Vector(_Aggregate):
    """Aggregate before noise (PRIVATE): a mean embedding, mean counts, probabilities or scores.

    Attributes:
        values: (dim,) numbers.
        choices: Public texts that the release chooses from; none for the query's own answers.
        points: (choices, dim) public embeddings of the choices, where the values live in their
            space.
    """

    values: tuple[float, ...]
    choices: tuple[str, ...] = ()
    points: tuple[tuple[float, ...], ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class GeneratedText(_Aggregate):
    """Aggregate of a mechanism that generates token by token: its noise is drawn already.

    Attributes:
        text: What the release will give.
    """

    text: str


Aggregate: TypeAlias = Votes | Vector | GeneratedText


def reply_of(aggregate: Aggregate) -> StoredReply | None:
    """What a user saw of an answer, for the learned witness, or what was kept of it; None if the
    release shows nothing but a choice or noisy values.

    Examples:
        >>> reply_of(GeneratedText("Yes.")).text
        'Yes.'
    """
    if aggregate.reply is None and isinstance(aggregate, GeneratedText):
        return ReplyFacts(aggregate.text)
    return aggregate.reply


def channel_of(aggregate: Aggregate, name: str) -> Aggregate:
    """What went through one channel of a system: the answer itself for `ANSWER`, else the text of
    the channel; an empty text where nothing went through it.

    Examples:
        >>> spoken = GeneratedText("Done.", channels={"logs": GeneratedText("wrote 1 file")})
        >>> channel_of(spoken, "logs").text, channel_of(spoken, "memory").text
        ('wrote 1 file', '')
    """
    return aggregate if name == ANSWER else aggregate.channels.get(name, GeneratedText(""))


@dataclass(frozen=True, slots=True)
class Outputs:
    """What leaves a mechanism (public), for several independent draws.

    Attributes:
        answers: (draws,) index of the released choice; len(choices) means none of them.
        noisy: (draws, dim) noisy aggregates where the guarantee covers them, else None.
        choices: Texts that the indices refer to; empty for the query's own answers.
        points: (choices, dim) public embeddings of the choices, or None.
        scale: Number of answers that a noisy aggregate is the mean of.
        picked: (draws, k) indices where k choices are released together, or None.
    """

    answers: npt.NDArray[np.int64]
    noisy: Floats | None = None
    choices: tuple[str, ...] = ()
    points: Floats | None = None
    scale: float = 1.0
    picked: npt.NDArray[np.int64] | None = None


Json: TypeAlias = dict[str, Any]


def pack(aggregate: Aggregate) -> str:
    """An aggregate (PRIVATE) as JSON, which `unpack` reads.

    Examples:
        >>> pack(Votes((3, 1, 0)))
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


def unpack(text: str) -> Aggregate:
    """The aggregate (PRIVATE) of a text that `pack` made, in this version or an earlier one."""
    found = json.loads(text)
    if isinstance(found, list):
        return Votes(tuple(found))
    texts = found.get("channels", {}).items()
    channels = {name: GeneratedText(one["text"], reply=_reply(one)) for name, one in texts}
    return replace(_numbers(found), reply=_reply(found), channels=channels)


def _numbers(found: Json) -> Aggregate:
    if "votes" in found:
        return Votes(tuple(found["votes"]))
    if "text" in found:
        return GeneratedText(found["text"])
    points = tuple(map(tuple, found["points"]))
    return Vector(tuple(found["values"]), tuple(found["choices"]), points)


def _reply(found: Json) -> StoredReply | None:
    return reply_from_json(found["reply"]) if "reply" in found else None
