"""Questions to a record, and a record to the capabilities that the client may use."""

from __future__ import annotations

from leakbound.errors import UsageError
from leakbound.models.model import Model
from leakbound.models.openai.endpoint import Capabilities, Endpoint
from leakbound.models.probe.client import ProbeClient
from leakbound.models.probe.local import examine
from leakbound.models.probe.questions import run_questions
from leakbound.models.probe.record import CheckName, ProbeRecord


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
