"""leakbound: what an LLM application leaks about the private examples in its prompt, and how to
limit it.

Importing this loads nothing heavy; each public name is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from leakbound._version import __version__

if TYPE_CHECKING:
    from leakbound.api import audit
    from leakbound.auditing import AuditResult, AuditSpec, load_result
    from leakbound.errors import LeakboundError
    from leakbound.mechanisms import FewShot, PromptDefense, ReportNoisyMax, ZeroShot
    from leakbound.models import Scripted, open_model
    from leakbound.privacy import Gaussian, NonPrivate, calibrate_gaussian
    from leakbound.tasks import Example, Query, Task

_HOMES = {
    "audit": "leakbound.api",
    "AuditRecord": "leakbound.auditing", "AuditSpec": "leakbound.auditing", "load_record": "leakbound.auditing",
    "LeakboundError": "leakbound.errors",
    "Example": "leakbound.tasks", "Query": "leakbound.tasks", "Task": "leakbound.tasks",
    "FewShot": "leakbound.mechanisms", "PromptDefense": "leakbound.mechanisms",
    "ReportNoisyMax": "leakbound.mechanisms", "ZeroShot": "leakbound.mechanisms",
    "Scripted": "leakbound.models", "open_model": "leakbound.models",
    "Gaussian": "leakbound.privacy", "NonPrivate": "leakbound.privacy", "calibrate_gaussian": "leakbound.privacy",
}  # fmt: skip
__all__ = [
    "AuditResult", "AuditSpec", "LeakboundError", "Example", "FewShot", "Gaussian", "NonPrivate", "PromptDefense",
    "Query", "ReportNoisyMax", "Scripted", "Task", "ZeroShot", "audit", "calibrate_gaussian", "load_result", "open_model", "__version__",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'leakbound' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
