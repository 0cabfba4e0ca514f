"""The configuration that reproduces a run, from its result alone."""

from __future__ import annotations

from typing import Any

import yaml

from leakbound.auditing.result.audit_result import AuditResult
from leakbound.auditing.spec.audit_spec import GROUPS
from leakbound.errors import UsageError


def config_text(result: AuditResult) -> str:
    """A YAML file that makes the run again where data, model and version are the same."""
    if result.handed:
        what = " and ".join(result.handed)
        raise UsageError(
            f"{result.name} audited Python objects ({what}), or rows that its configuration held, "
            "and a result keeps neither; put rows into a file and audit with --data, put a system "
            "into a file and audit it as --system python:file.py:object, register a class of your "
            "own by an entry point."
        )
    head = f"# leakbound audit --config FILE makes {result.name} again\n"
    text: str = yaml.safe_dump(_group(result.spec), sort_keys=False, allow_unicode=True)
    return head + text


def _group(spec: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        group: {k: spec[k] for k in kind.model_fields if spec.get(k) is not None}
        for group, kind in GROUPS.items()
    }
