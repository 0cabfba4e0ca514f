"""A request to a model as an HTTP request: path, body, most tokens, and how its reply is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from leakbound.errors import TargetError
from leakbound.models.content import Image, Parts, data_url
from leakbound.models.openai.account import Size
from leakbound.models.openai.endpoint import Capabilities
from leakbound.models.openai.faults import Fault
from leakbound.models.openai.scoring import align_ids, align_text, first_token_scores, prompt_tokens
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

__all__ = ["HttpRequest", "http_request_for", "spaced"]

R = TypeVar("R", covariant=True)
Floats = npt.NDArray[np.float32]
TEMPLATE = 64  # most tokens that a chat template adds: those of known models add fewer than 40


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HttpRequest(Generic[R]):
    """One POST (PRIVATE).

    Attributes:
        path: Where to, behind the base URL.
        body: JSON object that is sent.
        size: Most tokens that it can cost.
        read: Makes the answer of the decoded reply; raises Fault or TargetError.
    """

    path: str
    body: Mapping[str, object]
    size: Size
    read: Callable[[dict[str, JsonValue]], R]


def http_request_for(
    request: Request[object], model: str, can: Capabilities
) -> HttpRequest[str | Floats]:
    """The HTTP request for a request to a model.

    Args:
        request: A request that has passed the model's check.
        model: Name of the model, as the endpoint knows it.
        can: What the endpoint can do.

    Returns:
        What to send.

    Raises:
        TargetError: If no endpoint can answer this kind of request.
    """
    if isinstance(request, Embed):
        body = {"model": model, "input": request.text, "encoding_format": "float"}
        return HttpRequest("/embeddings", body, Size(_most(request.text), 0), _embedding)
    if isinstance(request, ScoreTokens):
        return _teacher_forced(request, model, can)
    if isinstance(request, ScoreLabels):
        return _next_token(request, model, can)
    if isinstance(request, Complete):
        return _completion(request, model, can)
    raise TargetError(f"no endpoint answers {type(request).__name__}; use a local model.")


def spaced(response: Prompt) -> Prompt:
    """A response as it continues a prompt, as in the local engine.

    Args:
        response: Text or token ids.

    Returns:
        Text with one leading blank, unless it begins with white space; token ids as they are.

    Examples:
        >>> spaced("yes")
        ' yes'
    """
    return response if not isinstance(response, str) or response[:1].isspace() else f" {response}"


def _completion(request: Complete, model: str, can: Capabilities) -> HttpRequest[str]:
    read = _message if _chats(request.prompt, can) else _text
    body = {
        **_posed(request.prompt, model, can),
        **_sampling(request.max_tokens, request.temperature),
    }
    if request.stop:
        body["stop"] = list(request.stop)
    if can.seed and request.temperature > 0:
        body["seed"] = _seed(request)
    size = Size(_most(request.prompt), request.max_tokens)
    return HttpRequest(
        _path(request.prompt, can), body, size, lambda reply: _cut(read(reply), request.stop)
    )


def _posed(prompt: Prompt, model: str, can: Capabilities) -> dict[str, object]:
    """The prompt as it is, or as the message of a user."""
    if isinstance(prompt, Parts):
        content: object = [_part(part) for part in prompt.parts]
        return {"model": model, "messages": [{"role": "user", "content": content}]}
    if can.completions:
        return {"model": model, "prompt": prompt if isinstance(prompt, str) else list(prompt)}
    return {"model": model, "messages": [{"role": "user", "content": prompt}]}


def _part(part: str | Image) -> dict[str, object]:
    """A part of a message: a text, or an image with its bytes in its address."""
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return {"type": "image_url", "image_url": {"url": data_url(part)}}


def _chats(prompt: Prompt, can: Capabilities) -> bool:
    """A prompt with images is always a message: a completion takes text or token ids."""
    return isinstance(prompt, Parts) or not can.completions


def _path(prompt: Prompt, can: Capabilities) -> str:
    return "/chat/completions" if _chats(prompt, can) else "/completions"


def _sampling(tokens: int, temperature: float) -> dict[str, object]:
    """Always sent, because the defaults of servers differ."""
    return {"max_tokens": tokens, "temperature": temperature, "top_p": 1.0, "stream": False}


def _seed(request: Complete) -> int:
    """Of prompt and draw: the draws of a prompt differ, and prompts do not share theirs."""
    return (prompt_seed(request.prompt) + request.draw) % (1 << 31)


def _most(prompt: Prompt) -> int:
    """No tokenizer makes more tokens of a text than its bytes; an image is the text that carries
    it.
    """
    if isinstance(prompt, Parts):
        return TEMPLATE + sum(len(str(_part(part)).encode()) for part in prompt.parts)
    return TEMPLATE + len(prompt.encode() if isinstance(prompt, str) else prompt)


# --- scores


def _teacher_forced(request: ScoreTokens, model: str, can: Capabilities) -> HttpRequest[Floats]:
    """One token is generated and thrown away, because servers differ in what they take 0 for."""
    whole = _joined(request.prompt, spaced(request.response))
    sent = list(whole) if isinstance(whole, tuple) else whole
    body = {"model": model, "prompt": sent, **_sampling(1, 0.0)}
    size = Size(_most(whole), 1)
    if can.prompt_logprobs:
        body["prompt_logprobs"] = 0
        return HttpRequest("/completions", body, size, lambda reply: _prompted(reply, request))
    body |= {"echo": True, "logprobs": 1}
    return HttpRequest("/completions", body, size, lambda reply: _echoed(reply, request))


def _joined(prompt: Prompt, response: Prompt) -> str | tuple[int, ...]:
    if isinstance(prompt, str) and isinstance(response, str):
        return prompt + response
    return (*_ids(prompt), *_ids(response))


def _ids(prompt: Prompt) -> tuple[int, ...]:
    if not isinstance(prompt, tuple):
        raise TargetError("an endpoint scores text behind text, or token ids behind token ids.")
    return prompt


def _echoed(reply: dict[str, JsonValue], request: ScoreTokens) -> Floats:
    found = _choice(reply).get("logprobs")
    tokens, values = (
        found.get(name) if isinstance(found, dict) else None
        for name in ("tokens", "token_logprobs")
    )
    if not isinstance(tokens, list) or not isinstance(values, list):
        raise Fault("no echoed log-probabilities")
    return align_text(tokens, values, str(request.prompt), str(spaced(request.response)))


def _prompted(reply: dict[str, JsonValue], request: ScoreTokens) -> Floats:
    entries, response = _choice(reply).get("prompt_logprobs"), spaced(request.response)
    if isinstance(request.prompt, str) and isinstance(response, str):
        return align_text(*prompt_tokens(entries), request.prompt, response)
    return align_ids(entries, _ids(request.prompt), _ids(response))


def _next_token(request: ScoreLabels, model: str, can: Capabilities) -> HttpRequest[Floats]:
    k, chats = can.top_logprobs, _chats(request.prompt, can)
    wanted: dict[str, object] = {"logprobs": True, "top_logprobs": k} if chats else {"logprobs": k}
    body = {**_posed(request.prompt, model, can), **_sampling(1, 0.0), **wanted}
    read = _top_of_message if chats else _top_of_text
    size = Size(_most(request.prompt), 1)
    return HttpRequest(
        _path(request.prompt, can),
        body,
        size,
        lambda reply: first_token_scores(read(reply), request.labels),
    )


# --- replies


def _choice(reply: dict[str, JsonValue]) -> dict[str, JsonValue]:
    choices = reply.get("choices")
    if isinstance(choices, list) and len(choices) == 1 and isinstance(choices[0], dict):
        return choices[0]
    raise Fault("a reply without exactly one choice")


def _text(reply: dict[str, JsonValue]) -> str:
    return _string(_choice(reply).get("text"))


def _message(reply: dict[str, JsonValue]) -> str:
    message = _choice(reply).get("message")
    return _string(message.get("content") if isinstance(message, dict) else None)


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise Fault("a reply without text")
    return value


def _cut(text: str, stop: tuple[str, ...]) -> str:
    """The text before the first stop, also where a server overlooks stops."""
    return text[: min((at for part in stop if (at := text.find(part)) >= 0), default=None)]


def _first(value: object) -> dict[str, JsonValue]:
    """The first object of a list."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return value[0]
    raise Fault("no log-probabilities of the next token")


def _logprobs(reply: dict[str, JsonValue], name: str) -> dict[str, JsonValue]:
    """What is known of the next token."""
    found = _choice(reply).get("logprobs")
    return _first(found.get(name) if isinstance(found, dict) else None)


def _top_of_text(reply: dict[str, JsonValue]) -> Mapping[str, object]:
    return _logprobs(reply, "top_logprobs")


def _top_of_message(reply: dict[str, JsonValue]) -> Mapping[str, object]:
    entries = _logprobs(reply, "content").get("top_logprobs")
    if not isinstance(entries, list):
        raise Fault("no log-probabilities of the next token")
    return dict(_named(entry) for entry in entries)


def _named(entry: object) -> tuple[str, object]:
    if not isinstance(entry, dict) or "logprob" not in entry:
        raise Fault("no log-probabilities of the next token")
    return _string(entry.get("token")), entry["logprob"]


def _embedding(reply: dict[str, JsonValue]) -> Floats:
    data = reply.get("data")
    one = data[0] if isinstance(data, list) and len(data) == 1 else None
    values = one.get("embedding") if isinstance(one, dict) else None
    try:
        found = np.asarray(values, np.float32)
    except (TypeError, ValueError):
        raise Fault("an embedding that is none") from None
    if found.ndim != 1 or not found.size or not np.isfinite(found).all():
        raise Fault("an embedding that is none")
    return found
