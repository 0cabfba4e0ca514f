"""From questions to a record, and from a record to what the client may do."""

from __future__ import annotations

from leakbound.errors import UsageError
from leakbound.models.model import Model
from leakbound.models.openai.endpoint import Capabilities, Endpoint
from leakbound.models.probe.client import ProbeClient
from leakbound.models.probe.local import examine
from leakbound.models.probe.questions import run_questions
from leakbound.models.probe.record import CheckName, ProbeRecord

__all__ = ["capabilities_of", "probe_endpoint", "probe_model"]


def probe_endpoint(model: str, endpoint: Endpoint, key: str | None = None) -> ProbeRecord:
    """Ask an endpoint at most 40 questions about public texts.

    Nothing private is an argument, and what the endpoint is said to be capable of is not looked at.
    What is asked and read as an audit does it is written in the endpoint's dialect, and what that
    leaves out is found by asking.

    Args:
        model: Name of the model, as the endpoint knows it.
        endpoint: One address, its limits and transport.
        key: API key (PRIVATE); None sends none.

    Returns:
        What was found.

    Raises:
        UsageError: For several addresses.
        TargetError: If it is not there, refuses the key or answers no question.
        LimitReached: If a limit of the endpoint is reached.
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
    """Ask a model behind the Model protocol the same questions.

    Args:
        model: The model.
        address: Its address, for the record.

    Returns:
        What was found.

    Raises:
        TargetError: If it answers no kind of request.
    """
    probe = examine(model)
    return ProbeRecord(
        address=address,
        requests=probe.requests,
        findings=tuple(probe.findings),
        supports=tuple(sorted(kind.__name__ for kind in model.supports)),
    )


def capabilities_of(record: ProbeRecord) -> Capabilities:
    """What the client may use: only what was checked and holds.

    Log-probabilities of given texts count only where they were found at their own tokens and keep
    the laws of ln p. Texts go to /completions only where that is needed: for scores, or where there
    is no chat.

    Args:
        record: Of an endpoint.

    Returns:
        Its capabilities.

    Raises:
        UsageError: For the record of a local model.
    """
    if record.base_url is None:
        raise UsageError(
            f"the capabilities are those of {record.address}, which is no endpoint; probe the "
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
    """Whether an audit could read scores; records of earlier versions do not say."""
    return record.finding(check).holds is not False


def _shift(record: ProbeRecord) -> int | None:
    place = record.finding("echo_aligned")
    return 1 if place.holds is False and "shifted by one" in place.detail else None


def _supports(can: Capabilities) -> tuple[str, ...]:
    texts = ("Complete",) if can.chat or can.completions else ()
    scores = ("ScoreLabels", "ScoreTokens") if can.scores else ()
    return texts + (("Embed",) if can.embeddings else ()) + scores
