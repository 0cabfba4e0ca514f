"""What a model can be asked.

An ask is a frozen value: equal asks may be answered once. Prompts are private: no repr shows them.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from leakbound.models.content import Parts, content_key

__all__ = [
    "Request",
    "Complete",
    "Embed",
    "NextLogits",
    "Prompt",
    "ScoreLabels",
    "ScoreTokens",
    "prompt_seed",
]

R = TypeVar("R", covariant=True)
Prompt = (
    str | tuple[int, ...] | Parts
)  # text, token ids (exact ablation needs ids), or text with images
Floats = npt.NDArray[np.float32]


class Request(Generic[R]):
    """Base of all asks; R is the type of the answer."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(<private>)"


@dataclass(frozen=True, slots=True, repr=False)
class Complete(Request[str]):
    """The text that follows the prompt, up to `stop`.

    Temperature 0 is greedy; else `draw` names the random draw.
    """

    prompt: Prompt
    max_tokens: int = 48
    temperature: float = 0.0
    stop: tuple[str, ...] = ("\n",)
    draw: int = 0


@dataclass(frozen=True, slots=True, repr=False)
class ScoreLabels(Request[Floats]):
    """(labels,) log-probability of each label as continuation of the prompt."""

    prompt: Prompt
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True, repr=False)
class ScoreTokens(Request[Floats]):
    """(tokens,) log-probabilities of the response tokens, teacher-forced:

    one pass, full-vocabulary softmax in float32.
    """

    prompt: Prompt
    response: Prompt


@dataclass(frozen=True, slots=True, repr=False)
class NextLogits(Request[Floats]):
    """(tokens + 1, vocabulary) float32 logits: before each response token, and after the last."""

    prompt: Prompt
    response: Prompt = ()


@dataclass(frozen=True, slots=True, repr=False)
class Embed(Request[Floats]):
    """(dim,) embedding of a text."""

    text: str


def prompt_seed(prompt: Prompt) -> int:
    """A number for the random draws over a prompt: prompts do not share theirs."""
    told = content_key(prompt) if isinstance(prompt, Parts) else prompt
    return zlib.crc32(repr(told).encode())
