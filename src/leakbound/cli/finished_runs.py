"""The runs that a command is given:

run folders, record.json files, or a folder (an --out) that holds runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from leakbound.auditing import AuditResult, load_result
from leakbound.auditing.folder import is_run

__all__ = ["finished", "run_folders"]

SET_ASIDE = re.compile(r".*\.old\d+")  # by audit --fresh


def finished(paths: Iterable[Path]) -> list[AuditResult]:
    """Their records. Raises StoreError for a run that has none, so that one which was cut short is
    not passed over.
    """
    return [load_result(run) for path in paths for run in run_folders(path)]


def run_folders(path: Path) -> list[Path]:
    """The path itself, or the runs in it; those that --fresh has set aside are none."""
    if not path.is_dir() or is_run(path):
        return [path]
    found = [one for one in sorted(path.iterdir()) if is_run(one)]
    return [one for one in found if not SET_ASIDE.fullmatch(one.name)] or [path]
