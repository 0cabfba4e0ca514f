"""From questions to a record, and from a record to what the client may do."""

from __future__ import annotations

from leakbound.errors import UsageError
from leakbound.models.model import Model
from leakbound.models.openai.endpoint import Capabilities, Endpoint
from leakbound.models.probe.client import ProbeClient
from leakbound.models.probe.local import examine
from leakbound.models.probe.questions import interview
from leakbound.models.probe.record import ProbeRecord

__all__ = ["capabilities_of", "probe_endpoint", "probe_model"]


def probe_endpoint(model: str, endpoint: Endpoint, key: str | None = None) -> ProbeRecord:
    """Ask an endpoint at most 30 questions about public texts; nothing private is an argument. What
    it is said to be capable
    of is not looked at. Raises UsageError for several addresses, TargetError if it is not there,
    refuses the key or answers
    no question, LimitReached if a limit of the endpoint is."""
    if len(endpoint.urls) > 1:
        raise UsageError(
            f"{len(endpoint.urls)} base URLs are given; probe one address at a time, with one "
            "--base-url."
        )
    with ProbeClient(model, endpoint, key) as door:
        on = interview(door, model)
    found = ProbeRecord(address=f"openai/{model}", base_url=endpoint.urls[0], requests=on.requests,
                        findings=tuple(on.findings), supports=())  # fmt: skip
    return found.model_copy(update={"supports": _supports(capabilities_of(found))})


def probe_model(model: Model, address: str) -> ProbeRecord:
    """The same of a model behind the Model protocol. Raises TargetError if it answers nothing."""
    on = examine(model)
    supports = tuple(sorted(kind.__name__ for kind in model.supports))
    return ProbeRecord(
        address=address, requests=on.asked, findings=tuple(on.findings), supports=supports
    )


def capabilities_of(record: ProbeRecord) -> Capabilities:
    """What the client may use: only what was checked and holds.

    Log-probabilities of given texts count only where they were found at their own tokens and keep
    the laws of ln p. Texts go
    to /completions only where that is needed: for scores, or where there is no chat. Raises
    UsageError for the record of a
    local model.
    """
    if record.base_url is None:
        raise UsageError(
            f"the capabilities are those of {record.address}, which is no endpoint; probe the "
            "openai/... address."
        )
    valid = record.holds("logprobs_valid")
    echo, prompt = (
        valid and record.holds(check) for check in ("echo_aligned", "prompt_logprobs_aligned")
    )
    place = record.finding("echo_aligned")
    shift = 0 if echo else 1 if place.holds is False and "shifted by one" in place.told else None
    top = max(record.finding("top_k").value or 0, 0) if valid else 0
    return Capabilities(
        chat=record.holds("chat"), completions=record.holds("completions") and (echo or prompt or not record.holds("chat")),
        token_ids=record.holds("token_ids"), seed=record.holds("seed"), prompt_logprobs=prompt, echo=record.holds("echo"),
        echo_shift=shift, top_logprobs=int(top), embeddings=record.holds("embeddings"),
    )  # fmt: skip


def _supports(can: Capabilities) -> tuple[str, ...]:
    texts = ("Complete",) if can.chat or can.completions else ()
    scores = ("ScoreLabels", "ScoreTokens") if can.scores else ()
    return texts + (("Embed",) if can.embeddings else ()) + scores
