"""A request to a model as an HTTP request: path, body, size, and how to read its reply."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from leakbound.errors import TargetError
from leakbound.models.chat import Chat
from leakbound.models.content import Image, Parts, data_url
from leakbound.models.http.post_json import Fault
from leakbound.models.openai.account import Size
from leakbound.models.openai.endpoint import Capabilities
from leakbound.models.openai.wire.dialect import OWN, Dialect
from leakbound.models.openai.wire.generated import (
    FILTERED,
    LOST,
    Generated,
    choice_of,
    read_generated,
)
from leakbound.models.openai.wire.scoring import (
    align_echo,
    align_ids,
    align_prompt,
    first_token_scores,
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
    if read_generated(reply).outcome != "text":
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


def embedding_of(reply: dict[str, JsonValue]) -> Floats:
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
Floats = npt.NDArray[np.float32]
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
        return HttpRequest("/embeddings", body, Size(_most(request.text), 0), embedding_of)
    if isinstance(request, ScoreTokens):
        return _teacher_forced(request, model, can)
    if isinstance(request, ScoreLabels):
        return _next_token(request, model, can)
    raise TargetError(f"no endpoint answers {type(request).__name__}; use a local model.")


def spaced(response: Prompt) -> Prompt:
    """A response in the form in which it continues a prompt, as in the local engine.

    Examples:
        >>> spaced("yes")
        ' yes'
    """
    return response if not isinstance(response, str) or response[:1].isspace() else f" {response}"


def _completion(
    request: Complete, model: str, can: Capabilities, dialect: Dialect
) -> HttpRequest[Generated]:
    body = {
        **_pose(request.prompt, model, can),
        **_sampling(request.max_tokens, request.temperature),
    }
    if request.stop:
        body["stop"] = list(request.stop)
    if can.seed and request.temperature > 0:  # it differs between draws and between prompts
        body["seed"] = (prompt_seed(request.prompt) + request.draw) % (1 << 31)

    def read(reply: dict[str, JsonValue]) -> Generated:
        """The text before the first stop text, even if a server ignored it."""
        found = read_generated(reply)
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
    """The prompt itself, or as messages: a text becomes a user message."""
    if isinstance(prompt, Chat):
        return {"model": model, "messages": prompt.plain()}
    if isinstance(prompt, Parts):
        content: object = [_part(part) for part in prompt.parts]
        return {"model": model, "messages": [{"role": "user", "content": content}]}
    if can.completions:
        return {"model": model, "prompt": prompt if isinstance(prompt, str) else list(prompt)}
    return {"model": model, "messages": [{"role": "user", "content": prompt}]}


def _part(part: str | Image) -> dict[str, object]:
    """A part of a message: a text, or an image as a data URL."""
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return {"type": "image_url", "image_url": {"url": data_url(part)}}


def _chats(prompt: Prompt, can: Capabilities) -> bool:
    """Whether a prompt goes to chat. Messages and images do: /completions takes text or ids."""
    return isinstance(prompt, Parts | Chat) or not can.completions


def _path(prompt: Prompt, can: Capabilities) -> str:
    return "/chat/completions" if _chats(prompt, can) else "/completions"


def _sampling(tokens: int, temperature: float) -> dict[str, object]:
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
    whole = _join(request.prompt, spaced(request.response))
    sent = list(whole) if isinstance(whole, tuple) else whole
    body = {"model": model, "prompt": sent, **_sampling(1, 0.0)}
    size = Size(_most(whole), 1)
    if can.prompt_logprobs:
        body |= {"prompt_logprobs": 0, "return_token_ids": True}
        return HttpRequest("/completions", body, size, lambda reply: _prompt(reply, request))
    body |= {"echo": True, "logprobs": 1}
    return HttpRequest("/completions", body, size, lambda reply: _echo(reply, request))


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
    return align_echo(tokens, values, str(request.prompt), str(spaced(request.response)))


def _prompt(reply: dict[str, JsonValue], request: ScoreTokens) -> Floats:
    """vLLM writes a prompt's log-probabilities inside its choice or beside the choices."""
    choice, response = choice_of(reply), spaced(request.response)
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
        {**_pose(request.prompt, model, can), **_sampling(1, 0.0), **wanted},
        Size(_most(request.prompt), 1),
        lambda reply: first_token_scores(next_tokens(reply), labels),
        lambda: first_token_scores({}, labels),
        lambda: first_token_scores({}, labels),
    )
