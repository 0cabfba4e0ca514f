"""What replies contain beside texts: log-probabilities of the next token, embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from leakbound.models.openai.faults import Fault
from leakbound.models.openai.generated import choice_of, read_generated

if TYPE_CHECKING:
    from pydantic import JsonValue

Floats = npt.NDArray[np.float32]
NONE_SHOWN: Mapping[str, object] = {}


def next_tokens(reply: dict[str, JsonValue]) -> Mapping[str, object]:
    """The most likely next tokens in a reply.

    /completions has an object of values by token, /chat/completions has a list of entries.
    llama.cpp writes the second form in both.
    """
    choice = choice_of(reply)
    found = choice.get("logprobs")
    if isinstance(found, dict):
        if isinstance(found.get("top_logprobs"), list) and not found.get("content"):
            return _first(found["top_logprobs"])
        if found.get("content"):
            return _of_entries(_first(found["content"]).get("top_logprobs"))
    if read_generated(reply).outcome != "text":
        return NONE_SHOWN
    raise Fault("no log-probabilities of the next token")


def _first(value: object) -> dict[str, JsonValue]:
    """The first object of a list. An empty list belongs to an answer without tokens."""
    if value == []:
        return {}
    if isinstance(value, list) and isinstance(value[0], dict):
        return value[0]
    raise Fault("no log-probabilities of the next token")


def _of_entries(entries: object) -> Mapping[str, object]:
    if not isinstance(entries, list):
        raise Fault("no log-probabilities of the next token")
    # the likeliest comes first; tokens with the same text (a blank, a byte) cannot be distinguished
    return dict(_named(entry) for entry in reversed(entries))


def _named(entry: object) -> tuple[str, object]:
    if not isinstance(entry, dict) or "logprob" not in entry:
        raise Fault("no log-probabilities of the next token")
    token = entry.get("token")
    if not isinstance(token, str):
        raise Fault("a token without text")
    return token, entry["logprob"]


def embedding_of(reply: dict[str, JsonValue]) -> Floats:
    """The embedding in a reply."""
    data = reply.get("data")
    one = data[0] if isinstance(data, list) and len(data) == 1 else None
    values = one.get("embedding") if isinstance(one, dict) else None
    try:
        found = np.asarray(values, np.float32)
    except (TypeError, ValueError):
        raise Fault("an invalid embedding") from None
    if found.ndim != 1 or not found.size or not np.isfinite(found).all():
        raise Fault("an invalid embedding")
    return found
