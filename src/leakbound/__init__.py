"""leakbound: what an LLM application leaks about the private examples in its prompt, and how to
limit it.

Importing this loads nothing heavy; each public name is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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

_API = (
    "AuditResult", "answer", "audit", "audit_async", "audit_log", "bounds", "compare", "gate",
    "influence", "load_result", "plan", "probe", "sweep", "verify",
)  # fmt: skip
_HOMES = {
    **dict.fromkeys(_API, "leakbound.api"),
    **dict.fromkeys(("AuditSpec", "Claim"), "leakbound.auditing"),
    **dict.fromkeys(("Example", "Query", "Task"), "leakbound.tasks"),
    **dict.fromkeys(
        ("FewShot", "PromptDefense", "ReportNoisyMax", "ZeroShot"), "leakbound.mechanisms"
    ),
    **dict.fromkeys(("Scripted", "open_model"), "leakbound.models"),
    **dict.fromkeys(
        ("ApproxDP", "Gaussian", "Guarantee", "NonPrivate", "PureDP", "ZCDP", "calibrate_gaussian"),
        "leakbound.privacy",
    ),
    "Attack": "leakbound.attacks",
    "Ledger": "leakbound.serving.ledger",
    "LeakboundError": "leakbound.errors",
    "PrivateICL": "leakbound.serving",
}
_MODULES = ("canaries", "estimators", "mechanisms", "queries", "scores", "systems")
__all__ = [
    "ApproxDP", "Attack", "AuditResult", "AuditSpec", "Claim", "Example", "FewShot", "Gaussian",
    "Guarantee", "LeakboundError", "Ledger", "NonPrivate", "PrivateICL", "PromptDefense", "PureDP",
    "Query", "ReportNoisyMax", "Scripted", "Task", "ZCDP", "ZeroShot", "__version__", "answer",
    "audit", "audit_async", "audit_log", "bounds", "calibrate_gaussian", "canaries", "compare",
    "estimators", "gate", "influence", "load_result", "mechanisms", "open_model", "plan", "probe",
    "queries", "scores", "sweep", "systems", "verify",
]  # fmt: skip


if not TYPE_CHECKING:  # a type checker that saw this would believe that every name exists

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return importlib.import_module(f"leakbound.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module 'leakbound' has no attribute {name!r}")
        return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
