"""A result as an event of OpenTelemetry, under its conventions for generative AI."""

from __future__ import annotations

from leakbound._version import __version__
from leakbound.auditing import AuditResult
from leakbound_hosts.summary import host_error

EVENT = "gen_ai.evaluation.result"
EVALUATION = "leakbound.epsilon"


def emit_result(result: AuditResult, response_id: str | None = None) -> None:
    """Emit `gen_ai.evaluation.result` for a finished audit.

    The event goes to the logger provider of the process, and belongs to the span that is current
    when it is called. Where no provider is set, it goes nowhere. Nothing else of this package emits
    telemetry.
    """
    try:
        from opentelemetry._logs import SeverityNumber, get_logger
    except ModuleNotFoundError:
        raise host_error("opentelemetry-api", "opentelemetry") from None
    violated = result.verdict == "violation"
    get_logger("leakbound", __version__).emit(
        event_name=EVENT,
        severity_number=SeverityNumber.WARN if violated else SeverityNumber.INFO,
        attributes=attributes_of(result, response_id),
    )


def attributes_of(result: AuditResult, response_id: str | None = None) -> dict[str, str | float]:
    """The attributes of the event."""
    bound = result.bound
    found: dict[str, str | float | None] = {
        "gen_ai.evaluation.name": EVALUATION,
        "gen_ai.evaluation.score.value": bound.epsilon,
        "gen_ai.evaluation.score.label": result.verdict,
        "gen_ai.evaluation.explanation": result.sentences[0],
        "gen_ai.response.id": response_id,
        "leakbound.claim.epsilon": result.claim.epsilon,
        "leakbound.claim.delta": result.claim.delta,
        "leakbound.confidence": bound.confidence,
        "leakbound.method": bound.method,
        "leakbound.run": result.name,
    }
    return {name: one for name, one in found.items() if one is not None}
