"""An ask as a request: path, body, an upper bound of its tokens, and how its reply is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from leakbound.models.content import Image, Parts, data_url
from leakbound.models.openai.account import Size
from leakbound.models.openai.endpoint import Capabilities
from leakbound.models.openai.faults import Fault
from leakbound.models.openai.scoring import first_token_scores, of_ids, of_text, prompt_tokens
from leakbound.models.request import (
    Complete,
    Embed,
    Prompt,
    Request,
    ScoreLabels,
    ScoreTokens,
    prompt_seed,
)

__all__ = ["HttpRequest", "http_request_for", "spaced"]

TEMPLATE = 64  # most tokens that a chat template adds


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HttpRequest:
    """One POST (PRIVATE). `read` takes the decoded reply and returns the answer, or raises Fault or
    TargetError.
    """

    path: str
    body: dict[str, Any]
    size: Size
    read: Callable[[Any], Any]


def http_request_for(ask: Request[Any], model: str, can: Capabilities) -> HttpRequest:
    """The request of an ask that has passed the model's check."""
    if isinstance(ask, Embed):
        body = {"model": model, "input": ask.text, "encoding_format": "float"}
        return HttpRequest("/embeddings", body, Size(_most(ask.text), 0), _embedding)
    if isinstance(ask, ScoreTokens):
        return _teacher_forced(ask, model, can)
    if isinstance(ask, ScoreLabels):
        return _next_token(ask, model, can)
    assert isinstance(ask, Complete)
    return _completion(ask, model, can)


def spaced(response: Prompt) -> Prompt:
    """A response as it continues a prompt: text gets one leading blank, as in the local engine."""
    return response if not isinstance(response, str) or response[:1].isspace() else f" {response}"


def _completion(ask: Complete, model: str, can: Capabilities) -> HttpRequest:
    spoken, read = _posed(ask.prompt, model, can), _message if _chats(ask.prompt, can) else _text
    body = {**spoken, **_sampling(ask.max_tokens, ask.temperature)}
    if ask.stop:
        body["stop"] = list(ask.stop)
    if can.seed and ask.temperature > 0:
        body["seed"] = _seed(ask)
    return HttpRequest(
        _path(ask.prompt, can),
        body,
        Size(_most(ask.prompt), ask.max_tokens),
        lambda reply: _cut(read(reply), ask.stop),
    )


def _posed(prompt: Prompt, model: str, can: Capabilities) -> dict[str, Any]:
    """The prompt as it is, or as the message of a user."""
    if isinstance(prompt, Parts):
        return {
            "model": model,
            "messages": [{"role": "user", "content": [_part(part) for part in prompt.parts]}],
        }
    if can.completions:
        return {"model": model, "prompt": prompt if isinstance(prompt, str) else list(prompt)}
    return {"model": model, "messages": [{"role": "user", "content": prompt}]}


def _part(part: str | Image) -> dict[str, Any]:
    """A part of a message: a text, or an image with its bytes in its address."""
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return {"type": "image_url", "image_url": {"url": data_url(part)}}


def _chats(prompt: Prompt, can: Capabilities) -> bool:
    """A prompt with images is always a message: a completion takes text or token ids."""
    return isinstance(prompt, Parts) or not can.completions


def _path(prompt: Prompt, can: Capabilities) -> str:
    return "/chat/completions" if _chats(prompt, can) else "/completions"


def _sampling(tokens: int, temperature: float) -> dict[str, Any]:
    """Said aloud, because the defaults of servers differ."""
    return {"max_tokens": tokens, "temperature": temperature, "top_p": 1.0, "stream": False}


def _seed(ask: Complete) -> int:
    """Of prompt and draw: the draws of a prompt differ, and prompts do not share their luck."""
    return (prompt_seed(ask.prompt) + ask.draw) % (1 << 31)


def _most(prompt: Prompt) -> int:
    """No tokenizer makes more tokens of a text than it has bytes; an image counts as the text that
    carries it.
    """
    if isinstance(prompt, Parts):
        return TEMPLATE + sum(len(str(_part(part)).encode()) for part in prompt.parts)
    return TEMPLATE + len(prompt.encode() if isinstance(prompt, str) else prompt)


# --- scores
# -------------------------------------------------------------------------------------------------------------


def _teacher_forced(ask: ScoreTokens, model: str, can: Capabilities) -> HttpRequest:
    """One token is generated and thrown away, because servers differ in what they take 0 for."""
    prompt, response = ask.prompt, spaced(ask.response)
    whole: Any = prompt + response if isinstance(prompt, str) else [*prompt, *response]  # type: ignore[operator, misc]
    body = {"model": model, "prompt": whole, **_sampling(1, 0.0)}
    size = Size(_most(whole), 1)
    if not can.prompt_logprobs:
        return HttpRequest(
            "/completions", {**body, "echo": True, "logprobs": 1}, size, lambda r: _echoed(r, ask)
        )
    return HttpRequest(
        "/completions", {**body, "prompt_logprobs": 0}, size, lambda r: _prompted(r, ask)
    )


def _echoed(reply: Any, ask: ScoreTokens) -> npt.NDArray[np.float32]:
    found = _choice(reply).get("logprobs")
    if not isinstance(found, dict) or not all(
        isinstance(found.get(n), list) for n in ("tokens", "token_logprobs")
    ):
        raise Fault("no echoed log-probabilities")
    return of_text(
        found["tokens"], found["token_logprobs"], str(ask.prompt), str(spaced(ask.response))
    )


def _prompted(reply: Any, ask: ScoreTokens) -> npt.NDArray[np.float32]:
    entries, response = _choice(reply).get("prompt_logprobs"), spaced(ask.response)
    if isinstance(ask.prompt, str) and isinstance(response, str):
        return of_text(*prompt_tokens(entries), ask.prompt, response)
    return of_ids(entries, ask.prompt, response)  # type: ignore[arg-type]


def _next_token(ask: ScoreLabels, model: str, can: Capabilities) -> HttpRequest:
    k, chats = can.top_logprobs, _chats(ask.prompt, can)
    wanted = {"logprobs": True, "top_logprobs": k} if chats else {"logprobs": k}
    body = {**_posed(ask.prompt, model, can), **_sampling(1, 0.0), **wanted}
    read = _top_of_message if chats else _top_of_text
    return HttpRequest(
        _path(ask.prompt, can),
        body,
        Size(_most(ask.prompt), 1),
        lambda r: first_token_scores(read(r), ask.labels),
    )


# --- replies
# ------------------------------------------------------------------------------------------------------------


def _choice(reply: Any) -> dict[str, Any]:
    choices = reply.get("choices")
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        raise Fault("a reply without exactly one choice")
    return choices[0]


def _text(reply: Any) -> str:
    return _string(_choice(reply).get("text"))


def _message(reply: Any) -> str:
    message = _choice(reply).get("message")
    return _string(message.get("content") if isinstance(message, dict) else None)


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise Fault("a reply without text")
    return value


def _cut(text: str, stop: tuple[str, ...]) -> str:
    """The text before the first stop, also where a server overlooks stops."""
    return text[: min((at for part in stop if (at := text.find(part)) >= 0), default=None)]


def _top_of_text(reply: Any) -> dict[str, Any]:
    try:
        return dict(_choice(reply)["logprobs"]["top_logprobs"][0])
    except (LookupError, TypeError, ValueError):
        raise Fault("no log-probabilities of the next token") from None


def _top_of_message(reply: Any) -> dict[str, Any]:
    try:
        entries = _choice(reply)["logprobs"]["content"][0]["top_logprobs"]
        return {_string(entry["token"]): entry["logprob"] for entry in entries}
    except (LookupError, TypeError, ValueError):
        raise Fault("no log-probabilities of the next token") from None


def _embedding(reply: Any) -> npt.NDArray[np.float32]:
    data = reply.get("data")
    values = (
        data[0].get("embedding")
        if isinstance(data, list) and len(data) == 1 and isinstance(data[0], dict)
        else 0
    )
    try:
        found = np.asarray(values, np.float32)
    except (TypeError, ValueError):
        raise Fault("an embedding that is none") from None
    if found.ndim != 1 or not found.size or not np.isfinite(found).all():
        raise Fault("an embedding that is none")
    return found
