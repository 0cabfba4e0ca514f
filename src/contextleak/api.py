"""The one-call audit of a Python program."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from contextleak.auditing import AuditRecord, make_spec, prepare, run_audit
from contextleak.icl import Exemplar, as_context
from contextleak.mechanisms import UserSystem
from contextleak.models import Model
from contextleak.privacy import Guarantee, NonPrivate

__all__ = ["audit"]


def audit(
    rows: Iterable[Exemplar | tuple[str, str]] | None = None,
    system: Callable[..., Any] | None = None,
    model: Model | None = None,
    guarantee: Guarantee | None = None,
    out: str | Path = "runs",
    **options: Any,
) -> AuditRecord:
    """Audit a system over private rows and return the record; the run is kept under `out` and resumed from there.

    rows: exemplars or (input, label) pairs; None uses `data=` (a file) or the bundled task. system: a callable
    (context, query) -> str, sync or async; None uses `mechanism=` over `model`. options: any key of `AuditSpec`.
    Raises ContextleakError with a sentence for whatever cannot be used.
    """
    spec = make_spec(options)
    user = UserSystem(system, getattr(system, "__name__", "system"), guarantee or NonPrivate()) if system else None
    prepared = prepare(spec, model, user, as_context(rows) if rows is not None else None)
    record, _ = run_audit(prepared, Path(out))
    return record
