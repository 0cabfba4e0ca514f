"""Questions to a model, and from their record the capabilities that the client may use."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import TypeVar

import numpy as np

from leakbound.errors import TargetError, UsageError
from leakbound.models.model import Model
from leakbound.models.openai.client import Client
from leakbound.models.openai.endpoint import Capabilities, Endpoint
from leakbound.models.probe.endpoint_probe import (
    HOT,
    ONE,
    OTHER,
    TOKENS,
    TRIES,
    CheckName,
    EndpointProbe,
    Findings,
    ProbeRecord,
    run_questions,
)
from leakbound.models.probe.replies import NUMERICS, SLACK
from leakbound.models.request import Complete, Embed, NextLogits, Request, ScoreTokens

R = TypeVar("R")
RESPONSE = " Rome, and the capital of Spain is Madrid"


class _ModelProbe(Findings):
    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def answer(self, request: Request[R]) -> R:
        self.requests += 1
        return self.model.answer([request])[0]


def examine(model: Model) -> _ModelProbe:
    """Check everything that the model says it answers."""
    if not model.supports:
        raise TargetError(f"{model.name} answers no kind of request; choose another model.")
    probe = _ModelProbe(model)
    for kind, name, check in CHECKS:
        if kind in model.supports:
            check(probe)
        else:
            probe.note(name, False, f"{model.name} does not answer {kind.__name__}")
    return probe


def _texts(probe: _ModelProbe) -> None:
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


def _scores(probe: _ModelProbe) -> None:
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


def _logits(probe: _ModelProbe) -> None:
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


def _embeddings(probe: _ModelProbe) -> None:
    vector = np.asarray(probe.answer(Embed(ONE)), float)
    good = vector.ndim == 1 and bool(np.isfinite(vector).all())
    probe.note("embeddings", good, f"{vector.size} numbers for a text")


CHECKS: tuple[tuple[type[Request[object]], CheckName, Callable[[_ModelProbe], None]], ...] = (
    (Complete, "completions", _texts),
    (ScoreTokens, "logprobs", _scores),
    (NextLogits, "vocabulary", _logits),
    (Embed, "embeddings", _embeddings),
)


PATIENCE = 30.0  # seconds: who probes waits at the screen
SCORED: tuple[CheckName, CheckName] = ("echo_scored", "prompt_logprobs_scored")


def probe_endpoint(model: str, endpoint: Endpoint, key: str | None = None) -> ProbeRecord:
    """Ask an endpoint at most 40 questions about public texts, whatever capabilities it states."""
    if len(endpoint.urls) > 1:
        raise UsageError(
            f"{len(endpoint.urls)} base URLs are given; probe one address at a time, with one "
            "--base-url."
        )
    asked = replace(endpoint, connections=1, retries=TRIES - 1)
    with closing(Client(model, asked, key, endpoint.price(model), PATIENCE)) as client:
        probe = EndpointProbe(client, endpoint.urls[0], model, endpoint.dialect)
        run_questions(probe)
    found = ProbeRecord(
        address=f"openai/{model}",
        base_url=endpoint.urls[0],
        requests=probe.requests,
        findings=tuple(probe.findings),
        supports=(),
        dialect=probe.dialect,
    )
    can = capabilities_of(found)
    texts = ("Complete",) if can.chat or can.completions else ()
    scores = ("ScoreLabels", "ScoreTokens") if can.scores else ()
    supports = texts + (("Embed",) if can.embeddings else ()) + scores
    return found.model_copy(update={"supports": supports})


def probe_model(model: Model, address: str) -> ProbeRecord:
    """Ask a model with the Model protocol the same questions."""
    probe = examine(model)
    return ProbeRecord(
        address=address,
        requests=probe.requests,
        findings=tuple(probe.findings),
        supports=tuple(sorted(kind.__name__ for kind in model.supports)),
    )


def capabilities_of(record: ProbeRecord) -> Capabilities:
    """The capabilities that hold, of scores at their own tokens; completions only where needed."""
    if record.base_url is None:
        raise UsageError(
            f"the capabilities are those of {record.address}, which is not an endpoint; probe the "
            "openai/... address."
        )
    # where it cannot be determined, the echo that is aligned speaks for itself
    scored = [record.finding(check).holds is not False for check in SCORED]
    place = record.finding("echo_aligned")
    late = 1 if place.holds is False and "shifted by one" in place.detail else None
    valid, chat = record.holds("logprobs_valid"), record.holds("chat")
    echo = valid and record.holds("echo_aligned") and scored[0]
    prompt = valid and record.holds("prompt_logprobs_aligned") and scored[1]
    top = max(record.finding("top_k").value or 0, 0) if valid else 0
    return Capabilities(
        chat=chat,
        completions=record.holds("completions") and (echo or prompt or not chat),
        token_ids=record.holds("token_ids"),
        seed=record.holds("seed"),
        prompt_logprobs=prompt,
        echo=record.holds("echo"),
        echo_shift=0 if echo else late,
        top_logprobs=int(top),
        embeddings=record.holds("embeddings"),
    )
