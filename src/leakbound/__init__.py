"""leakbound: what an LLM application leaks about the private examples in its prompt, and how to
limit it.

Importing this loads nothing heavy; each public name is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leakbound._sources import import_when_used
from leakbound._version import __version__

if TYPE_CHECKING:
    from leakbound import canaries, estimators, mechanisms, queries, scores, systems
    from leakbound.api import (
        AuditResult,
        answer,
        audit,
        audit_async,
        audit_log,
        bounds,
        compare,
        gate,
        influence,
        load_result,
        plan,
        probe,
        sweep,
        verify,
    )
    from leakbound.attacks import Attack
    from leakbound.auditing import AuditSpec, Claim
    from leakbound.errors import LeakboundError
    from leakbound.mechanisms import FewShot, PromptDefense, ReportNoisyMax, ZeroShot
    from leakbound.models import Scripted, open_model
    from leakbound.privacy import (
        ZCDP,
        ApproxDP,
        Gaussian,
        Guarantee,
        NonPrivate,
        PureDP,
        calibrate_gaussian,
    )
    from leakbound.serving import PrivateICL
    from leakbound.serving.ledger import Ledger
    from leakbound.tasks import Example, Query, Task

__all__ = [
    "ApproxDP", "Attack", "AuditResult", "AuditSpec", "Claim", "Example", "FewShot", "Gaussian",
    "Guarantee", "LeakboundError", "Ledger", "NonPrivate", "PrivateICL", "PromptDefense", "PureDP",
    "Query", "ReportNoisyMax", "Scripted", "Task", "ZCDP", "ZeroShot", "__version__", "answer",
    "audit", "audit_async", "audit_log", "bounds", "calibrate_gaussian", "canaries", "compare",
    "estimators", "gate", "influence", "load_result", "mechanisms", "open_model", "plan", "probe",
    "queries", "scores", "sweep", "systems", "verify",
]  # fmt: skip


import_when_used(__name__)
