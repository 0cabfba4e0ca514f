"""The functions of the public face; `leakbound` itself loads each when it is first used.

What they return shows itself in notebooks: importing this registers the cards.
"""

import leakbound.report.notebook as _cards  # noqa: F401
from leakbound.api.answers import answer
from leakbound.api.audits import audit, plan
from leakbound.api.decisions import compare, gate, sweep, tune
from leakbound.api.influences import influence
from leakbound.api.probes import probe
from leakbound.auditing import AuditResult, load_result

__all__ = [
    "AuditResult",
    "answer",
    "audit",
    "compare",
    "gate",
    "influence",
    "load_result",
    "plan",
    "probe",
    "sweep",
    "tune",
]
