"""The public functions; `leakbound` loads each one on first use."""

from leakbound.api.answers import answer, probe
from leakbound.api.audits import audit, audit_async, plan
from leakbound.api.decisions import compare, gate, sweep, verify
from leakbound.api.influences import influence
from leakbound.api.logs import audit_log, bounds
from leakbound.auditing import AuditResult, load_result
from leakbound.gating.score_files import ScoreResult

__all__ = [
    "AuditResult", "ScoreResult", "answer", "audit", "audit_async", "audit_log", "bounds",
    "compare", "gate", "influence", "load_result", "plan", "probe", "sweep", "verify",
]  # fmt: skip
