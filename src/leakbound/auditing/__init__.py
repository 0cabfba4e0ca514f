"""An audit, a package for each of its stages; `run_audit` calls them in their order.

`make_spec` and `prepare` come before it; `receipts` reads and checks what it wrote, `shards` joins
parts of a run, `plan` says what it costs, and `one_run` is the design with one store.
"""

from typing import TYPE_CHECKING

from leakbound._sources import import_when_used

if TYPE_CHECKING:
    from leakbound.auditing.audit import run_audit
    from leakbound.auditing.prepare.prepare import prepare
    from leakbound.auditing.receipts import load_result
    from leakbound.auditing.result.audit_result import AuditResult
    from leakbound.auditing.spec.audit_spec import AuditSpec, make_spec
    from leakbound.estimators import Claim

__all__ = [
    "AuditResult", "AuditSpec", "Claim", "load_result", "make_spec", "prepare", "run_audit",
]  # fmt: skip

import_when_used(__name__)
