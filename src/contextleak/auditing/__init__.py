"""Auditing: design, collect, release, estimate, record."""

from contextleak.auditing.estimate import Claim, Decision
from contextleak.auditing.record import AuditRecord, load_record
from contextleak.auditing.run import prepare, run_audit
from contextleak.auditing.spec import AuditSpec, load_spec, make_spec

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
