"""Questions to a record, and a record to the capabilities that the client may use."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from leakbound.errors import Refused, TargetError, UsageError
from leakbound.models.http.blocking import LoopThread
from leakbound.models.http.post_json import Fault, JsonAddress, Unsupported
from leakbound.models.http.transport import default_transport
from leakbound.models.http.window import backoff
from leakbound.models.model import Model
from leakbound.models.openai.account import Size, cost_of, usage_of
from leakbound.models.openai.endpoint import Capabilities, Endpoint
from leakbound.models.openai.wire.dialect import LENGTHS
from leakbound.models.probe.contract import NUMERICS, SLACK
from leakbound.models.probe.endpoint_probe import HOT, ONE, OTHER, TOKENS, ProbeReply
from leakbound.models.probe.questions import run_questions
from leakbound.models.probe.record import CheckName, ProbeFinding, ProbeRecord
from leakbound.models.request import Complete, Embed, NextLogits, Request, ScoreTokens

if TYPE_CHECKING:
    from pydantic import JsonValue

R = TypeVar("R")
RESPONSE = " Rome, and the capital of Spain is Madrid"


class ModelProbe:
    def __init__(self, model: Model) -> None:
        self.model = model
        self.requests = 0
        self.findings: list[ProbeFinding] = []

    def answer(self, request: Request[R]) -> R:
        self.requests += 1
        return self.model.answer([request])[0]

    def note(
        self, check: CheckName, holds: bool | None, detail: str, value: float | None = None
    ) -> None:
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


TRIES = 4  # for a temporary failure: a fault in 1 of 10 requests then passes 9,999 in 10,000
PATIENCE = 30.0  # seconds: the longest wait that an endpoint may ask for
# failures that say nothing about the capabilities of the endpoint
AWAY = ("no connection", "HTTP 429", "HTTP 502", "HTTP 503", "HTTP 504")


class ProbeClient:
    """An open connection, inside a `with` block. Also works if an event loop already runs.

    Requests are counted by the endpoint's meter and respect its limits.
    """

    def __init__(self, model: str, endpoint: Endpoint, key: str | None) -> None:
        self._endpoint, self._price = endpoint, endpoint.price(model)
        endpoint.meter.priced = endpoint.price_date(model)
        transport = endpoint.transport or default_transport(1)
        self._address = JsonAddress(transport, endpoint.urls[0], key, endpoint.timeout)

    def __enter__(self) -> ProbeClient:
        self._thread = LoopThread("leakbound-probe", self._address.transport.close)
        return self

    def __exit__(self, *error: object) -> None:
        self._thread.close()

    def send(self, path: str, body: Mapping[str, object]) -> ProbeReply:
        return self._thread.run(self._send(path, body))

    async def _send(self, path: str, body: Mapping[str, object]) -> ProbeReply:
        for tries in range(1, TRIES + 1):
            try:
                return ProbeReply(await self._once(path, body))
            except Unsupported as refused:
                return ProbeReply(None, f"HTTP {refused.status}", refused.parameter)
            except Refused as refused:
                if refused.status == 401:
                    raise
                return ProbeReply(None, f"HTTP {refused.status}")
            except Fault as fault:
                last = fault
            if tries < TRIES:
                self._endpoint.meter.retries += 1
                await asyncio.sleep(min(PATIENCE, last.wait or backoff(tries)))
        if last.kind in AWAY:
            raise TargetError(
                f"{self._address.url} does not answer ({last.kind}, {TRIES} times); start "
                "the server, give the right --base-url, or probe it when it works again."
            )
        return ProbeReply(None, last.kind)

    async def _once(self, path: str, body: Mapping[str, object]) -> dict[str, JsonValue]:
        meter, end = self._endpoint.meter, self._endpoint
        size = _size(body)
        meter.admits(cost_of(size, self._price), end.max_cost, end.max_minutes)
        meter.sent(self._price)
        try:
            reply = await self._address.post(path, body)
        except Fault as fault:
            if fault.billed:
                meter.count(None, size, self._price)
            raise
        meter.count(usage_of(reply), size, self._price)
        return reply


def _size(body: Mapping[str, object]) -> Size:
    """The most tokens of a request: no tokenizer makes more tokens of a text than its bytes."""
    generated = next((body[name] for name in LENGTHS if name in body), 0)
    return Size(len(json.dumps(body)), generated if isinstance(generated, int) else 0)


def probe_endpoint(model: str, endpoint: Endpoint, key: str | None = None) -> ProbeRecord:
    """Ask an endpoint at most 40 questions about public texts.

    No argument is private, and stated capabilities of the endpoint are ignored. Requests that are
    sent and read as in an audit use the endpoint's dialect. What the dialect leaves open is found
    by asking.
    """
    if len(endpoint.urls) > 1:
        raise UsageError(
            f"{len(endpoint.urls)} base URLs are given; probe one address at a time, with one "
            "--base-url."
        )
    with ProbeClient(model, endpoint, key) as client:
        probe = run_questions(client, model, endpoint.dialect)
    found = ProbeRecord(
        address=f"openai/{model}",
        base_url=endpoint.urls[0],
        requests=probe.requests,
        findings=tuple(probe.findings),
        supports=(),
        dialect=probe.dialect,
    )
    return found.model_copy(update={"supports": _supports(capabilities_of(found))})


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
    """The capabilities that the client may use: only those that were checked and hold.

    Log-probabilities of given texts count only if they were found at their own tokens and satisfy
    the laws of ln p. Texts go to /completions only if necessary: for scores, or if there is no
    chat.
    """
    if record.base_url is None:
        raise UsageError(
            f"the capabilities are those of {record.address}, which is not an endpoint; probe the "
            "openai/... address."
        )
    valid, chat = record.holds("logprobs_valid"), record.holds("chat")
    echo = valid and record.holds("echo_aligned") and _scored(record, "echo_scored")
    prompt = valid and record.holds("prompt_logprobs_aligned")
    prompt = prompt and _scored(record, "prompt_logprobs_scored")
    top = max(record.finding("top_k").value or 0, 0) if valid else 0
    return Capabilities(
        chat=chat,
        completions=record.holds("completions") and (echo or prompt or not chat),
        token_ids=record.holds("token_ids"),
        seed=record.holds("seed"),
        prompt_logprobs=prompt,
        echo=record.holds("echo"),
        echo_shift=0 if echo else _shift(record),
        top_logprobs=int(top),
        embeddings=record.holds("embeddings"),
    )


def _scored(record: ProbeRecord, check: CheckName) -> bool:
    """Whether an audit could read scores. Records of earlier versions do not say."""
    return record.finding(check).holds is not False


def _shift(record: ProbeRecord) -> int | None:
    place = record.finding("echo_aligned")
    return 1 if place.holds is False and "shifted by one" in place.detail else None


def _supports(can: Capabilities) -> tuple[str, ...]:
    texts = ("Complete",) if can.chat or can.completions else ()
    scores = ("ScoreLabels", "ScoreTokens") if can.scores else ()
    return texts + (("Embed",) if can.embeddings else ()) + scores
