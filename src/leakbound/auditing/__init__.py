"""Auditing: design, collect, release, estimate, record."""

from leakbound.auditing.load import load_result
from leakbound.auditing.prepare import prepare
from leakbound.auditing.result import AuditResult
from leakbound.auditing.run import run_audit
from leakbound.auditing.spec import AuditSpec, load_spec, make_spec
from leakbound.auditing.verdict import Claim

__all__ = [
    "AuditResult",
    "AuditSpec",
    "Claim",
    "load_result",
    "load_spec",
    "make_spec",
    "prepare",
    "run_audit",
]
