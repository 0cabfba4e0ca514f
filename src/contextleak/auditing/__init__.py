"""Auditing: design, collect, release, estimate, record."""

from contextleak.auditing.prepare import prepare
from contextleak.auditing.record import AuditRecord, load_record
from contextleak.auditing.run import run_audit
from contextleak.auditing.spec import AuditSpec, load_spec, make_spec
from contextleak.auditing.verdict import Claim, Decision

__all__ = [
    "AuditRecord",
    "AuditSpec",
    "Claim",
    "Decision",
    "load_record",
    "load_spec",
    "make_spec",
    "prepare",
    "run_audit",
]
