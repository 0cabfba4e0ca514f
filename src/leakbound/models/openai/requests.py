"""A request to a model as an HTTP request: path, body, size, and how to read its reply."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from leakbound.errors import TargetError
from leakbound.models.content import Chat, Image, Parts, data_url
from leakbound.models.openai.account import Size
from leakbound.models.openai.endpoint import OWN, Capabilities, Dialect
from leakbound.models.openai.replies import (
    FILTERED,
    LOST,
    Fault,
    Generated,
    choice_of,
    parse_generated,
)
from leakbound.models.request import (
    Complete,
    Embed,
    Prompt,
    Request,
    ScoreLabels,
    ScoreTokens,
    prompt_seed,
)

if TYPE_CHECKING:
    from pydantic import JsonValue

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
FEW = 64  # positions that are looked at one by one
LITERALS = 256  # whose positions are remembered
Positions = tuple[int, int]  # the first one, and a bit for each from there on


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
    places = _Places(text)
    before = _reach(pieces, places, first_known)
    found = [
        (begin, end)
        for begin, (first, bits) in enumerate(before)
        if first <= len(prompt) and bits >> len(prompt) - first & 1
        for end in _ends(pieces, begin, prompt, response, places, first_known)
    ]
    if len(found) == 1 and "" not in pieces[slice(*found[0])]:
        return found[0]
    ends = before if first_known else before[-1:]
    whole = any(first + bits.bit_length() > len(text) for first, bits in ends)
    raise TargetError(ACROSS if whole else OTHERS)


class _Places:
    """Where a text has what: a bit for each position."""

    def __init__(self, text: str) -> None:
        self.text, self.of = text, lru_cache(LITERALS)(self._of)
        self.foreign = int("".join("01"[not at.isascii()] for at in reversed(text)) or "0", 2)

    def _of(self, literal: str) -> int:
        found, at = bytearray(b"0" * (len(self.text) + 1)), self.text.find(literal)
        while at >= 0:
            found[-1 - at] = ord("1")
            at = self.text.find(literal, at + 1)
        return int(found, 2)


def _reach(pieces: Sequence[str], places: _Places, first_known: bool) -> list[Positions]:
    """Positions in the text where each token may begin, and where the last one may end."""
    unknown = (0, (2 << min(FIRST, len(places.text))) - 1)
    found = [(0, 1)] if first_known else [(0, 1), unknown]
    for piece in pieces[len(found) - 1 :]:
        found.append(_behind(piece, found[-1], places))
    return found


def _ends(
    pieces: Sequence[str],
    begin: int,
    prompt: str,
    response: str,
    places: _Places,
    first_known: bool,
) -> list[int]:
    """Where the text may end: after the first token that completes it, or with the last token."""
    # a response may begin with a token of parts of its first character
    parts = pieces[begin : begin + 1] and pieces[begin].startswith(PART)
    if parts and (response[:1].isascii() or not prompt[-1:].isascii()):
        return []
    reached, found, whole = (len(prompt), 1), list[int](), len(places.text)
    for end in range(begin + 1, len(pieces) + 1):
        reached = _behind(pieces[end - 1], reached, places)
        if not reached[1]:
            break
        after = pieces[end] if end < len(pieces) else ""
        # parts of one character may be on both sides of a token boundary
        split = pieces[end - 1].endswith(PART) and after.startswith(PART)
        if reached[0] <= whole and reached[1] >> whole - reached[0] & 1 and not split:
            found.append(end)
    return found[:1] if first_known else [end for end in found if end == len(pieces)]


def _behind(piece: str, starts: Positions, places: _Places) -> Positions:
    """Positions after a token that begins at one of several positions."""
    literal, *others = RUN.split(piece)
    (first, bits), text = starts, places.text
    fits = _at(literal, starts, places)
    if not others:
        # it may end behind the text, and a blank before it may be missing
        end = min(first + bits.bit_length(), len(text) + 1)
        begin = max(first, len(text) - len(piece) + 1)
        fits |= sum(piece.startswith(text[at:]) << at - first for at in range(begin, end)) & bits
        fits |= _at(f" {piece}", (first, bits & ~fits), places) << 1
    first, bits = _trim(first + len(literal), fits)
    for literal in others:
        near = places.foreign >> first
        for _ in range(HELD):  # parts represent at most so many characters
            bits |= (bits & near) << 1
        first, bits = _trim(first + len(literal), _at(literal, (first, bits), places))
    return first, bits


def _at(literal: str, starts: Positions, places: _Places) -> int:
    """The bits of those positions at which a literal stands."""
    first, bits = starts
    if bits.bit_length() > FEW:
        return places.of(literal) >> first & bits
    found, text = 0, places.text
    while bits:
        low = bits & -bits
        found |= low * text.startswith(literal, first + low.bit_length() - 1)
        bits ^= low
    return found


def _trim(first: int, bits: int) -> Positions:
    low = (bits & -bits).bit_length() - 1
    return (first + low, bits >> low) if bits else (0, 0)


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
    text = prompt + response
    ends = (first + bits.bit_length() for first, bits in _reach(texts, _Places(text), True))
    first = 0 if max(ends) > len(text) else 1
    begin, end = boundaries(texts[first:], prompt, response)
    return _log_probabilities(values[first + begin : first + end])


def align_prompt(entries: object, ids: object, prompt: str, response: str) -> Floats:
    """Scores from vLLM's `prompt_logprobs`, placed from the end: the first token has no text."""
    if not isinstance(entries, list) or not entries:
        raise Fault("no prompt log-probabilities")
    known = ids if isinstance(ids, list) and len(ids) == len(entries) else [None] * len(entries)
    rows = [_token(entry, token) for entry, token in zip(entries[1:], known[1:], strict=True)]
    pieces = [text for text, _ in rows]
    begin, end = boundaries(["", *pieces], prompt, response, first_known=False)
    return _log_probabilities([value for _, value in rows[begin - 1 : end - 1]])


def _token(entry: object, token: object) -> tuple[str, object]:
    if not isinstance(entry, dict) or (token is None and len(entry) != 1):
        raise Fault("prompt log-probabilities of several tokens")
    found = next(iter(entry.values())) if token is None else entry.get(str(token))
    if not isinstance(found, dict):
        raise Fault("prompt log-probabilities without tokens")
    return str(found.get("decoded_token")), found.get("logprob")


def _log_probabilities(values: Sequence[object]) -> Floats:
    if None in values:
        raise TargetError(NO_FIRST)
    return np.array([log_probability(value) for value in values], np.float32)


def align_ids(entries: object, prompt: Sequence[int], response: Sequence[int]) -> Floats:
    """Scores of the tokens of a response, from vLLM's `prompt_logprobs` of token ids."""
    ids = (*prompt, *response)
    if not isinstance(entries, list) or len(entries) != len(ids):
        raise TargetError(
            f"{len(ids)} token ids were sent, and the endpoint gives log-probabilities of another "
            "number of tokens; its server adds or removes tokens, so it cannot score token ids."
        )
    placed = [*zip(entries, ids, strict=True)][len(prompt) :]
    return _log_probabilities([one and _token(one, token)[1] for one, token in placed])


def first_token_scores(top: Mapping[str, object], labels: Sequence[str]) -> Floats:
    """Scores of labels that are reported next tokens, with or without a blank; else NaN."""
    named = [(token.lstrip(), value) for token, value in top.items() if token.strip()]
    fits = [[value for name, value in named if name == label.strip()] for label in labels]
    scores = [max(map(log_probability, one), default=math.nan) for one in fits]
    return np.array(scores, np.float32)


NO_TOKENS = "no log-probabilities of the next token"


def next_tokens(reply: dict[str, JsonValue]) -> Mapping[str, object]:
    """The most likely next tokens: an object, or a list of entries as in chat (llama.cpp: both)."""
    choice = choice_of(reply)
    found = choice.get("logprobs")
    if isinstance(found, dict):
        if isinstance(found.get("top_logprobs"), list) and not found.get("content"):
            return _first(found["top_logprobs"])
        if found.get("content"):
            entries = _first(found["content"]).get("top_logprobs")
            if not isinstance(entries, list):
                raise Fault(NO_TOKENS)
            # the likeliest comes first; tokens with the same text (a blank, a byte) cannot be
            # distinguished
            return dict(map(_name_of, reversed(entries)))
    if parse_generated(reply).outcome != "text":
        return {}
    raise Fault(NO_TOKENS)


def _first(value: object) -> dict[str, JsonValue]:
    """The first object of a list. An empty list belongs to an answer without tokens."""
    if value == []:
        return {}
    if isinstance(value, list) and isinstance(value[0], dict):
        return value[0]
    raise Fault(NO_TOKENS)


def _name_of(entry: object) -> tuple[str, object]:
    if not isinstance(entry, dict) or "logprob" not in entry:
        raise Fault(NO_TOKENS)
    token = entry.get("token")
    if not isinstance(token, str):
        raise Fault("a token without text")
    return token, entry["logprob"]


def vector_of(reply: dict[str, JsonValue]) -> Floats:
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


R = TypeVar("R", covariant=True)
TEMPLATE = 64  # the most tokens that a chat template adds to a message; known ones add under 40


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HttpRequest(Generic[R]):
    """One POST (PRIVATE)."""

    path: str
    body: Mapping[str, object]
    size: Size
    read: Callable[[dict[str, JsonValue]], R]
    filtered: Callable[[], R] | None = None
    lost: Callable[[], R] | None = None


def http_request_for(
    request: Request[object], model: str, can: Capabilities, dialect: Dialect = OWN
) -> HttpRequest[Generated | Floats]:
    if isinstance(request, Complete):
        return _completion(request, model, can, dialect)
    found = _scores(request, model, can)
    return replace(found, body=dialect.applied(found.body, text=False))


def _scores(request: Request[object], model: str, can: Capabilities) -> HttpRequest[Floats]:
    if isinstance(request, Embed):
        body = {"model": model, "input": request.text, "encoding_format": "float"}
        return HttpRequest("/embeddings", body, Size(_most(request.text), 0), vector_of)
    if isinstance(request, ScoreTokens):
        return _teacher_forced(request, model, can)
    if isinstance(request, ScoreLabels):
        return _next_token(request, model, can)
    raise TargetError(f"no endpoint answers {type(request).__name__}; use a local model.")


def with_space(response: Prompt) -> Prompt:
    """A response in the form in which it continues a prompt, as in the local engine."""
    return response if not isinstance(response, str) or response[:1].isspace() else f" {response}"


def _completion(
    request: Complete, model: str, can: Capabilities, dialect: Dialect
) -> HttpRequest[Generated]:
    body = {
        **_pose(request.prompt, model, can),
        **_sample_parameters(request.max_tokens, request.temperature),
    }
    if request.stop:
        body["stop"] = list(request.stop)
    if can.seed and request.temperature > 0:  # it differs between draws and between prompts
        body["seed"] = (prompt_seed(request.prompt) + request.draw) % (1 << 31)

    def read(reply: dict[str, JsonValue]) -> Generated:
        """The text before the first stop text, even if a server ignored it."""
        found = parse_generated(reply)
        cuts = [at for stop in request.stop if (at := found.text.find(stop)) >= 0]
        return replace(found, text=found.text[: min(cuts, default=None)])

    return HttpRequest(
        _path(request.prompt, can),
        dialect.applied(body),
        Size(_most(request.prompt), dialect.length or request.max_tokens),
        read,
        lambda: FILTERED,
        lambda: LOST,
    )


def _pose(prompt: Prompt, model: str, can: Capabilities) -> dict[str, object]:
    if isinstance(prompt, Chat):
        return {"model": model, "messages": prompt.plain()}
    content = [_part(part) for part in prompt.parts] if isinstance(prompt, Parts) else prompt
    if _chats(prompt, can):
        return {"model": model, "messages": [{"role": "user", "content": content}]}
    return {"model": model, "prompt": content if isinstance(content, str) else list(content)}


def _part(part: str | Image) -> dict[str, object]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return {"type": "image_url", "image_url": {"url": data_url(part)}}


def _chats(prompt: Prompt, can: Capabilities) -> bool:
    """Whether a prompt goes to chat. Messages and images do: /completions takes text or ids."""
    return isinstance(prompt, Parts | Chat) or not can.completions


def _path(prompt: Prompt, can: Capabilities) -> str:
    return "/chat/completions" if _chats(prompt, can) else "/completions"


def _sample_parameters(tokens: int, temperature: float) -> dict[str, object]:
    """Parameters that are always sent, because the defaults of servers differ."""
    return {"max_tokens": tokens, "temperature": temperature, "top_p": 1.0, "stream": False}


def _most(prompt: Prompt) -> int:
    """The most tokens of a prompt: at most its bytes, and for an image those of its data URL."""
    if isinstance(prompt, Chat):
        return sum(TEMPLATE + len(one.content.encode()) for one in prompt.messages)
    if isinstance(prompt, Parts):
        return TEMPLATE + sum(len(str(_part(part)).encode()) for part in prompt.parts)
    return TEMPLATE + len(prompt.encode() if isinstance(prompt, str) else prompt)


# --- scores


def _teacher_forced(request: ScoreTokens, model: str, can: Capabilities) -> HttpRequest[Floats]:
    """Generate one token and discard it, because servers interpret 0 in different ways."""
    whole = _join(request.prompt, with_space(request.response))
    sent = list(whole) if isinstance(whole, tuple) else whole
    body = {"model": model, "prompt": sent, **_sample_parameters(1, 0.0)}
    size = Size(_most(whole), 1)
    vllm = {"prompt_logprobs": 0, "return_token_ids": True}
    more = vllm if can.prompt_logprobs else {"echo": True, "logprobs": 1}
    read = _prompt if can.prompt_logprobs else _echo
    return HttpRequest("/completions", body | more, size, lambda reply: read(reply, request))


def _join(prompt: Prompt, response: Prompt) -> str | tuple[int, ...]:
    if isinstance(prompt, str) and isinstance(response, str):
        return prompt + response
    return (*_ids(prompt), *_ids(response))


def _ids(prompt: Prompt) -> tuple[int, ...]:
    if not isinstance(prompt, tuple):
        raise TargetError("an endpoint scores text after text, or token ids after token ids.")
    return prompt


def _echo(reply: dict[str, JsonValue], request: ScoreTokens) -> Floats:
    found = choice_of(reply).get("logprobs")
    tokens, values = (
        found.get(name) if isinstance(found, dict) else None
        for name in ("tokens", "token_logprobs")
    )
    if not isinstance(tokens, list) or not isinstance(values, list):
        raise Fault("no echoed log-probabilities")
    return align_echo(tokens, values, str(request.prompt), str(with_space(request.response)))


def _prompt(reply: dict[str, JsonValue], request: ScoreTokens) -> Floats:
    """vLLM writes a prompt's log-probabilities inside its choice or beside the choices."""
    choice, response = choice_of(reply), with_space(request.response)
    entries = choice.get("prompt_logprobs") or reply.get("prompt_logprobs")
    ids = choice.get("prompt_token_ids") or reply.get("prompt_token_ids")
    if isinstance(request.prompt, str) and isinstance(response, str):
        return align_prompt(entries, ids, request.prompt, response)
    return align_ids(entries, _ids(request.prompt), _ids(response))


def _next_token(request: ScoreLabels, model: str, can: Capabilities) -> HttpRequest[Floats]:
    k, labels = can.top_logprobs, request.labels
    chats = _chats(request.prompt, can)
    wanted: dict[str, object] = {"logprobs": True, "top_logprobs": k} if chats else {"logprobs": k}
    return HttpRequest(
        _path(request.prompt, can),
        {**_pose(request.prompt, model, can), **_sample_parameters(1, 0.0), **wanted},
        Size(_most(request.prompt), 1),
        lambda reply: first_token_scores(next_tokens(reply), labels),
        lambda: first_token_scores({}, labels),
        lambda: first_token_scores({}, labels),
    )
