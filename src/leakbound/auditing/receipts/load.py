"""Results from disk, which the stored trials beside them must fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from leakbound.auditing.result.audit_result import VERSION, AuditResult
from leakbound.auditing.store.folder import is_run, read_manifest
from leakbound.auditing.store.integrity import (
    EditedEvidence,
    UnfinishedRun,
    is_unfinished,
    require_intact,
)
from leakbound.errors import StoreError, UsageError, findable, reason_of, why_no_file


def load_result(path: str | Path) -> AuditResult:
    """The result in a run folder, or in a record.json file.

    Args:
        path: A run folder, or a file.

    Returns:
        The result.

    Raises:
        UsageError: If `path` is not a path, or longer than the file system allows.
        UnfinishedRun: If the audit was interrupted, or is still running.
        StoreError: If there is none, if it cannot be read, if it was edited, or if the trials that
            are stored beside it are not those that it was computed from. A result without trials
            beside it loads as it is.
    """
    if not isinstance(path, str | Path):
        raise UsageError(f"path is {path!r}; it must be a run folder or a record.json, as text.")
    file = Path(path) / "record.json" if findable(path).is_dir() else Path(path)
    if not file.is_file() and file.name == "record.json" and is_run(file.parent):
        raise _no_record(file.parent)
    if not file.is_file():
        what = "holds no record.json" if Path(path).is_dir() else why_no_file(file)
        raise StoreError(
            f"{str(path)!r} {what}; give the folder of a finished run, or run the audit to its end."
        )
    found = _parse(file)
    result = _validate(file, found)
    if file.name == "record.json":
        _require_beside(file.parent, found, result)
    return result


def _no_record(folder: Path) -> StoreError:
    if is_unfinished(folder):
        return UnfinishedRun(
            f"{str(folder)!r} is unfinished: the audit was interrupted, or is still running. Run "
            "the same command again to finish it; shards are finished by `leakbound merge`."
        )
    return EditedEvidence(
        f"the audit in {str(folder)!r} was finished, and its record.json was removed. Restore it "
        "from a copy, or run the audit again, which writes it anew from the stored trials."
    )


def _parse(file: Path) -> dict[str, Any]:
    """What a record.json holds, if its version is known."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise StoreError(
            f"{str(file)!r} is damaged, or not a record ({reason_of(error)}); it must be the "
            "record.json that an audit wrote. Run the audit again: its trials are stored, so the "
            "model is not asked again."
        ) from None
    version = found.get("schema_version") if isinstance(found, dict) else None
    if isinstance(version, int) and version > VERSION:
        raise StoreError(
            f"{str(file)!r} was written by a newer version of leakbound (schema version {version}; "
            f"this one reads {VERSION}); load it with that version."
        )
    if version != VERSION:
        what = (
            "it has no schema_version" if version is None else f"its schema_version is {version!r}"
        )
        raise _no_result(file, what)
    return dict(found)


def _validate(file: Path, found: dict[str, Any]) -> AuditResult:
    try:
        return AuditResult.model_validate_json(json.dumps(found))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _no_result(file, reason_of(error)) from None


def _no_result(file: Path, why: str) -> StoreError:
    return StoreError(
        f"{str(file)!r} is not a result of schema version {VERSION}: {why}. Restore it from a "
        "copy, or run the audit again."
    )


def _require_beside(folder: Path, found: dict[str, Any], result: AuditResult) -> None:
    """Refuse a result whose manifest or stored trials are of another version, or were edited."""
    version, manifest = found["schema_version"], read_manifest(folder)
    if manifest and manifest["schema_version"] != version:
        raise StoreError(
            f"{str(folder)!r} holds a manifest.json of schema version {manifest['schema_version']} "
            f"and a record.json of version {version}; both must be of one run. Restore them from a "
            "copy, or run the audit again."
        )
    if manifest.get("data"):
        result.know_data(manifest["data"])
    head = found["provenance"].get("evidence", "")
    written = (folder / "record.json").read_bytes()
    require_intact(folder, found["counts"]["pairs"], head, written)
