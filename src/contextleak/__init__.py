"""contextleak: what an LLM application leaks about the private examples in its prompt, and how to limit it.

Importing this loads nothing heavy; each public name is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from contextleak._version import __version__

if TYPE_CHECKING:
    from contextleak.api import audit
    from contextleak.auditing import AuditRecord, AuditSpec, load_record
    from contextleak.errors import ContextleakError
    from contextleak.icl import Exemplar, Query, Task
    from contextleak.mechanisms import FewShot, PromptDefense, ReportNoisyMax, ZeroShot
    from contextleak.models import Scripted, open_model
    from contextleak.privacy import Gaussian, NonPrivate, calibrate_gaussian

_HOMES = {
    "audit": "contextleak.api",
    "AuditRecord": "contextleak.auditing", "AuditSpec": "contextleak.auditing", "load_record": "contextleak.auditing",
    "ContextleakError": "contextleak.errors",
    "Exemplar": "contextleak.icl", "Query": "contextleak.icl", "Task": "contextleak.icl",
    "FewShot": "contextleak.mechanisms", "PromptDefense": "contextleak.mechanisms",
    "ReportNoisyMax": "contextleak.mechanisms", "ZeroShot": "contextleak.mechanisms",
    "Scripted": "contextleak.models", "open_model": "contextleak.models",
    "Gaussian": "contextleak.privacy", "NonPrivate": "contextleak.privacy", "calibrate_gaussian": "contextleak.privacy",
}  # fmt: skip
__all__ = [
    "AuditRecord", "AuditSpec", "ContextleakError", "Exemplar", "FewShot", "Gaussian", "NonPrivate", "PromptDefense",
    "Query", "ReportNoisyMax", "Scripted", "Task", "ZeroShot", "audit", "calibrate_gaussian", "load_record", "open_model", "__version__",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'contextleak' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
