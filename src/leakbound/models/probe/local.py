"""The same report of a model behind the Model protocol, such as a local one:

asks in the place of requests.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from leakbound.errors import TargetError
from leakbound.models.model import Model
from leakbound.models.probe.contract import NUMERICS, SLACK
from leakbound.models.probe.endpoint_probe import HOT, ONE, OTHER, TOKENS
from leakbound.models.probe.record import Check, Finding
from leakbound.models.request import Complete, Embed, NextLogits, Request, ScoreTokens

__all__ = ["Examined", "examine"]

RESPONSE = " Rome, and the capital of Spain is Madrid"


class Examined:
    """The asks that a model was given, and what came of them."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.asked = 0
        self.findings: list[Finding] = []

    def reply(self, ask: Request[Any]) -> Any:
        """The answer to one ask."""
        self.asked += 1
        return self.model.answer([ask])[0]

    def note(self, check: Check, holds: bool | None, told: str, value: float | None = None) -> None:
        """Keep a finding."""
        self.findings.append(Finding(check=check, holds=holds, told=told, value=value))


def examine(model: Model) -> Examined:
    """Ask everything that the model says it answers. Raises TargetError if that is nothing."""
    if not model.supports:
        raise TargetError(f"{model.name} answers no kind of ask; choose another model.")
    on = Examined(model)
    checks = ((Complete, "completions", _texts), (ScoreTokens, "logprobs", _scores), (NextLogits, "vocabulary", _logits),
              (Embed, "embeddings", _embeddings))  # fmt: skip
    for kind, name, check in checks:
        if kind in model.supports:
            check(on)
        else:
            on.note(name, False, f"{model.name} does not answer {kind.__name__}")  # type: ignore[arg-type]
    return on


def _texts(on: Examined) -> None:
    first, _, again = (on.reply(Complete(prompt, TOKENS, stop=())) for prompt in (ONE, OTHER, ONE))
    on.note("completions", True, "answers with text")
    on.note(
        "repeats",
        first == again,
        f"the answer {'is the same' if first == again else 'differs'} when asked again",
    )
    one, same, *others = (on.reply(Complete(ONE, TOKENS, HOT, (), draw)) for draw in (1, 1, 2, 3))
    texts = {one, same, *others}
    hot = len(texts) > 1
    on.note("temperature", hot, f"4 draws at {HOT:g} gave {len(texts)} answers")
    on.note(
        "seed",
        one == same and hot,
        "one draw gave one answer" if one == same else "one draw gave two answers",
    )


def _scores(on: Examined) -> None:
    """ln p of a given text; the change between equal questions joins what was found about texts."""
    first, _, again = (
        np.asarray(on.reply(ScoreTokens(prompt, RESPONSE)), float) for prompt in (ONE, OTHER, ONE)
    )
    on.note("logprobs", True, "scores the tokens of given texts")
    valid = bool(np.isfinite(first).all() and (first <= SLACK).all())
    on.note("logprobs_valid", valid, f"{first.size} tokens have a finite ln p of at most 0" if valid else
            "a log-probability is not finite, or above 0")  # fmt: skip
    change = float(np.abs(first - again).max())
    texts = next((finding for finding in on.findings if finding.check == "repeats"), None)
    on.findings = [finding for finding in on.findings if finding is not texts]
    told = f"{texts.told}; " if texts else ""
    on.note(
        "repeats",
        texts.holds if texts else change < SLACK,
        f"{told}ln p changes by up to {change:.2g}",
        change,
    )


def _logits(on: Examined) -> None:
    """All next-token logits; the scores of a text must be their log-softmax, each at its own token."""
    logits = np.asarray(on.reply(NextLogits(ONE, RESPONSE)), float)
    on.note(
        "vocabulary", True, f"gives all {logits.shape[1]} next-token logits", float(logits.shape[1])
    )
    if ScoreTokens not in on.model.supports:
        return
    scores = np.asarray(on.reply(ScoreTokens(ONE, RESPONSE)), float)
    top = logits.max(-1, keepdims=True)
    table = logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True))
    gap = float(np.abs(table[: len(scores)] - scores[:, None]).min(-1).max())
    on.note(
        "echo_aligned",
        gap < NUMERICS,
        f"each score is one of its own position's log-probabilities within {gap:.2g}",
        gap,
    )


def _embeddings(on: Examined) -> None:
    vector = np.asarray(on.reply(Embed(ONE)), float)
    good = vector.ndim == 1 and bool(np.isfinite(vector).all())
    on.note("embeddings", good, f"{vector.size} numbers for a text")
