"""The requests that a model can answer.

A request is a frozen value, and equal requests may be answered once. Prompts are private: no repr
shows them.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from leakbound.models.content import Chat, Parts, Private, content_key

R = TypeVar("R", covariant=True)
# text, token ids (exact ablation needs ids), text with images, or messages
Prompt = str | tuple[int, ...] | Parts | Chat
Floats = npt.NDArray[np.float32]


class Request(Private, Generic[R]):
    """Base of all requests to a model (PRIVATE); R is the type of the answer.

    In low precision, the last bits of an answer depend on the other requests in the batch. Near a
    tie, one row can therefore flip the answers for other rows. Mechanisms with a guarantee set
    `alone`: a local model answers such a request in separate passes, from its own tokens. For an
    endpoint this is an assumption, which some servers satisfy in a batch-invariant mode.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True, repr=False)
class Complete(Request[str]):
    """The text that follows a prompt.

    Attributes:
        prompt: The prompt.
        max_tokens: The most tokens to generate.
        temperature: 0 is greedy; above 0, answers are sampled.
        stop: Texts that end the answer; the answer does not include them.
        draw: Identifies the random draw of a sampled answer.
        alone: Whether the answer must depend on this request only; see `Request`.
        judge: Whether this is a request to a judge, which may be another model; see `WithJudge`.
    """

    prompt: Prompt
    max_tokens: int = 48
    temperature: float = 0.0
    stop: tuple[str, ...] = ("\n",)
    draw: int = 0
    alone: bool = False
    judge: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class ScoreLabels(Request[Floats]):
    """(labels,) natural log-probability of each label as continuation of a prompt.

    NaN for a label that the model does not report: an endpoint reports only a few next tokens.

    Attributes:
        prompt: The prompt.
        labels: Public texts to score.
        alone: Whether the answer must depend on this request only; see `Request`.
    """

    prompt: Prompt
    labels: tuple[str, ...]
    alone: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class ScoreTokens(Request[Floats]):
    """(tokens,) natural log-probabilities of the tokens of a response, teacher-forced.

    One pass, with a softmax over the whole vocabulary in float32.
    """

    prompt: Prompt
    response: Prompt


@dataclass(frozen=True, slots=True, repr=False)
class NextLogits(Request[Floats]):
    """(tokens + 1, vocabulary) logits before each token of a response, and after the last one.

    Attributes:
        prompt: The prompt.
        response: The tokens after the prompt.
        reserve: Number of tokens that later requests will append. `Model.check` refuses a request
            that leaves no room for them. Answers do not depend on it.
        alone: Whether the answer must depend on this request only; see `Request`.
    """

    prompt: Prompt
    response: Prompt = ()
    reserve: int = field(default=0, compare=False)
    alone: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class Embed(Request[Floats]):
    """(dim,) embedding of a text.

    Attributes:
        text: The text.
        alone: Whether the answer must depend on this request only; see `Request`.
    """

    text: str
    alone: bool = False


def prompt_key(prompt: Prompt) -> object:
    """A JSON-compatible form of a prompt, different for any two prompts."""
    if isinstance(prompt, Chat):
        return prompt.plain()
    return content_key(prompt) if isinstance(prompt, Parts) else prompt


def prompt_seed(prompt: Prompt) -> int:
    """A seed for random draws over a prompt; different prompts have different seeds."""
    return zlib.crc32(repr(prompt_key(prompt)).encode())
