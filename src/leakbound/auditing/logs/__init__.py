"""Audits of outputs that exist already: no canary, no query, no model."""

from leakbound.auditing.logs.log_audit import (
    DisclosedRecord,
    LogAudit,
    LogVerdict,
    audit_logs,
    load_outputs,
    load_texts,
)

__all__ = [
    "DisclosedRecord", "LogAudit", "LogVerdict", "audit_logs", "load_outputs", "load_texts",
]  # fmt: skip
