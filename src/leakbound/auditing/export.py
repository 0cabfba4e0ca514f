"""A run again: the configuration that makes it, from its record."""

from __future__ import annotations

import yaml

from leakbound.auditing.result import AuditResult
from leakbound.auditing.rows import load_data
from leakbound.auditing.spec import AuditSpec, make_spec
from leakbound.errors import UsageError
from leakbound.tasks.datasets import fingerprint
from leakbound.tasks.named_tasks import NAMED_TASKS

__all__ = ["config_text"]


def config_text(record: AuditResult) -> str:
    """YAML of every key of the spec that is set; it makes the same run where data, model and
    version are the same.

    Raises UsageError for a run of Python objects or of rows that were handed over: a run keeps
    neither.
    """
    spec = make_spec(record.spec)
    _require_named(record, spec)
    if spec.data is None and spec.data_dir is None and spec.task not in NAMED_TASKS:
        _require_bundled(record, spec)
    values = {key: value for key, value in spec.model_dump().items() if value is not None}
    head = f"# leakbound audit --config FILE makes {record.name} again\n"
    text: str = yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
    return head + text


def _require_named(record: AuditResult, spec: AuditSpec) -> None:
    """System and model must have been made from the spec."""
    ran = {"mechanism": record.attack["mechanism"], "model": record.provenance["model"]}
    named = {"mechanism": spec.mechanism, "model": spec.model}
    strange = [what for what in ran if spec.system is None and ran[what] != named[what]]
    if strange:
        raise UsageError(
            f"{record.name} audited the Python object {ran[strange[0]]!r}, which no configuration "
            "can name; put a system into a file, "
            "and audit it as --system python:file.py:object."
        )


def _require_bundled(record: AuditResult, spec: AuditSpec) -> None:
    """Without a source of data, the rows must be the bundled ones."""
    rows, _ = load_data(spec.model_copy(update={"task": None}))
    if fingerprint(rows) != record.provenance["data_fingerprint"]:
        raise UsageError(
            f"{record.name} audited rows that were handed over, and a run keeps no rows; put them "
            "into a file, and audit with --data."
        )
