"""The same findings for a model with the Model protocol, such as a local one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from leakbound.errors import TargetError
from leakbound.models.model import Model
from leakbound.models.probe.contract import NUMERICS, SLACK
from leakbound.models.probe.endpoint_probe import HOT, ONE, OTHER, TOKENS
from leakbound.models.probe.record import CheckName, ProbeFinding
from leakbound.models.request import Complete, Embed, NextLogits, Request, ScoreTokens

R = TypeVar("R")
RESPONSE = " Rome, and the capital of Spain is Madrid"


class ModelProbe:
    """The requests to a model, and the findings."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.requests = 0
        self.findings: list[ProbeFinding] = []

    def answer(self, request: Request[R]) -> R:
        """Send one request."""
        self.requests += 1
        return self.model.answer([request])[0]

    def note(
        self, check: CheckName, holds: bool | None, detail: str, value: float | None = None
    ) -> None:
        """Store a finding."""
        self.findings.append(ProbeFinding(check=check, holds=holds, detail=detail, value=value))


def examine(model: Model) -> ModelProbe:
    """Check everything that the model says it answers."""
    if not model.supports:
        raise TargetError(f"{model.name} answers no kind of request; choose another model.")
    probe = ModelProbe(model)
    for kind, name, check in CHECKS:
        if kind in model.supports:
            check(probe)
        else:
            probe.note(name, False, f"{model.name} does not answer {kind.__name__}")
    return probe


def _texts(probe: ModelProbe) -> None:
    first, _, again = (
        probe.answer(Complete(prompt, TOKENS, stop=())) for prompt in (ONE, OTHER, ONE)
    )
    probe.note("completions", True, "answers with text")
    same = "is the same" if first == again else "differs"
    probe.note("repeats", first == again, f"the answer {same} when asked again")
    one, twin, *others = (
        probe.answer(Complete(ONE, TOKENS, HOT, (), draw)) for draw in (1, 1, 2, 3)
    )
    texts = {one, twin, *others}
    hot = len(texts) > 1
    probe.note("temperature", hot, f"4 draws at {HOT:g} gave {len(texts)} answers")
    count = "one answer" if one == twin else "two answers"
    probe.note("seed", one == twin and hot, f"one draw gave {count}")


def _scores(probe: ModelProbe) -> None:
    """ln p of a given text. The change between equal questions is added to the finding on texts."""
    first, _, again = (
        np.asarray(probe.answer(ScoreTokens(prompt, RESPONSE)), float)
        for prompt in (ONE, OTHER, ONE)
    )
    probe.note("logprobs", True, "scores the tokens of given texts")
    valid = bool(np.isfinite(first).all() and (first <= SLACK).all())
    good = f"{first.size} tokens have a finite ln p of at most 0"
    bad = "a log-probability is not finite, or above 0"
    probe.note("logprobs_valid", valid, good if valid else bad)
    change = float(np.abs(first - again).max())
    texts = next((finding for finding in probe.findings if finding.check == "repeats"), None)
    probe.findings = [finding for finding in probe.findings if finding is not texts]
    holds, before = (texts.holds, f"{texts.detail}; ") if texts else (change < SLACK, "")
    probe.note("repeats", holds, f"{before}ln p changes by up to {change:.2g}", change)


def _logits(probe: ModelProbe) -> None:
    """All next-token logits. Scores of a text must be their log-softmax at the same position."""
    logits = np.asarray(probe.answer(NextLogits(ONE, RESPONSE)), float)
    size = logits.shape[1]
    probe.note("vocabulary", True, f"gives all {size} next-token logits", float(size))
    if ScoreTokens not in probe.model.supports:
        return
    scores = np.asarray(probe.answer(ScoreTokens(ONE, RESPONSE)), float)
    top = logits.max(-1, keepdims=True)
    table = logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True))
    gap = float(np.abs(table[: len(scores)] - scores[:, None]).min(-1).max())
    detail = f"each score is one of its own position's log-probabilities within {gap:.2g}"
    probe.note("echo_aligned", gap < NUMERICS, detail, gap)


def _embeddings(probe: ModelProbe) -> None:
    vector = np.asarray(probe.answer(Embed(ONE)), float)
    good = vector.ndim == 1 and bool(np.isfinite(vector).all())
    probe.note("embeddings", good, f"{vector.size} numbers for a text")


CHECKS: tuple[tuple[type[Request[object]], CheckName, Callable[[ModelProbe], None]], ...] = (
    (Complete, "completions", _texts),
    (ScoreTokens, "logprobs", _scores),
    (NextLogits, "vocabulary", _logits),
    (Embed, "embeddings", _embeddings),
)
