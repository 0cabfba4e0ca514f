"""What a server says, as numbers:

the ids of prompt and answer, and the log-distribution after each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from leakbound.models import NextLogits

__all__ = ["Generation", "GeneratedText", "generate"]

Ids = tuple[int, ...]


@dataclass(frozen=True)
class Generation:
    """How to go on from a prompt; temperature 0 is greedy. fresh: numbers that no other request of
    this server has, from which it draws noise, and tokens where there is no seed.
    """

    max_tokens: int
    temperature: float
    seed: int | None
    fresh: tuple[int, ...]
    stop: tuple[str, ...]
    noise: float
    keeps_end: bool  # whether the token that ends an answer is one of the answer's tokens


@dataclass(frozen=True)
class GeneratedText:
    """rows: (prompt + generated, vocabulary); row i is the log-distribution of the token that
    follows token i.
    """

    prompt: Ids
    generated: Ids
    rows: npt.NDArray[np.float64]
    text: str
    finish: str


def generate(model: Any, prompt: Ids, how: Generation) -> GeneratedText:
    """Go on from a prompt, token by token, and score all of it.

    The model keeps nothing for the next request.
    """
    seed = how.fresh if how.seed is None else how.seed
    rng, out, finish = np.random.default_rng(seed), (), "length"
    while len(out) < how.max_tokens and len(prompt) + len(out) < model.window:
        out += (_next(model.answer([NextLogits(prompt, out)])[0][-1], how.temperature, rng),)
        if out[-1] in model.end_ids() or any(stop in model.text(out) for stop in how.stop):
            finish = "stop"
            break
    text = model.text(out)
    cuts = [text.find(stop) for stop in how.stop if stop in text]
    if out and out[-1] in model.end_ids() and not how.keeps_end:
        out = out[:-1]
    rows = _rows(model, prompt + out, how)
    model.forget()
    return GeneratedText(prompt, out, rows, text[: min(cuts, default=None)], finish)


def _next(logits: npt.NDArray[np.float32], temperature: float, rng: np.random.Generator) -> int:
    if temperature == 0:
        return int(logits.argmax())
    return int((logits / temperature + rng.gumbel(size=logits.shape)).argmax())


def _rows(model: Any, ids: Ids, how: Generation) -> npt.NDArray[np.float64]:
    """Noise is added to the logits: the rows stay distributions."""
    logits = np.asarray(model.answer([NextLogits(ids[:1], ids[1:])])[0], float)
    if how.noise:
        rng = np.random.default_rng((*how.fresh, 1))
        logits = logits + rng.normal(scale=how.noise, size=logits.shape)
    top = logits.max(-1, keepdims=True)
    return logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True))
