"""The one-call audit of a Python program."""

from __future__ import annotations

import hashlib
import inspect
import marshal
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from leakbound.auditing import AuditResult, AuditSpec, make_spec, prepare, run_audit
from leakbound.auditing.prepare import Prepared, open_models
from leakbound.models import Model
from leakbound.privacy import Guarantee, NonPrivate
from leakbound.systems import UserSystem, answerer
from leakbound.tasks import Example, as_context

__all__ = ["audit", "prepare_call"]


def audit(
    rows: Iterable[Example | tuple[str, str]] | None = None,
    system: Any = None,
    model: Model | None = None,
    guarantee: Guarantee | None = None,
    out: str | Path = "runs",
    **options: Any,
) -> AuditResult:
    """Audit a system over private rows and return the record; the run is kept under `out` and
    resumed from there.

    rows: examples or (input, label) pairs; None uses `data=` (a file) or the bundled task. system:
    a callable
    (context, query) -> answer, sync or async, an object with a method `answer`, or a class of
    either; None uses `mechanism=` over
    `model`. A plain function or class is told from others by the file that defines it, so its run
    is resumed until that file
    changes; an object, a closure, or a function with default values may hold anything, so its run
    is never resumed. options: any key of `AuditSpec`.
    Raises LeakboundError with a sentence for whatever cannot be used.
    """
    record, _ = run_audit(prepare_call(rows, system, model, guarantee, **options), Path(out))
    return record


def prepare_call(
    rows: Iterable[Example | tuple[str, str]] | None = None,
    system: Any = None,
    model: Model | None = None,
    guarantee: Guarantee | None = None,
    source: str = "",
    opener: Callable[[AuditSpec], Model] = open_models,
    **options: Any,
) -> Prepared:
    """The same audit, ready and not begun.

    source: what tells the system from an earlier one of its name; part of the run's identity.
    opener: makes the model where none is
    given and the system needs one.
    """
    spec = make_spec(options)
    user = (
        _user_system(system, guarantee, spec.access == "white_box", source)
        if system is not None
        else None
    )
    return prepare(spec, model, user, as_context(rows) if rows is not None else None, opener)


def _user_system(system: Any, guarantee: Guarantee | None, scored: bool, source: str) -> UserSystem:
    name = getattr(system, "__name__", "system")
    return UserSystem(
        answerer(system, name), name, guarantee or NonPrivate(), scored, source or _code_of(system)
    )


def _code_of(system: Any) -> str:
    """A hash of the file that defines a plain function or class and of its place there, or of the
    code of a function without a file.
    """
    if not _is_plain(system):
        return uuid.uuid4().hex
    try:
        code = Path(inspect.getsourcefile(system) or "").read_bytes()
    except (TypeError, OSError):
        code = marshal.dumps(system.__code__) if inspect.isfunction(system) else uuid.uuid4().bytes
    return hashlib.sha256(code + _place(system).encode()).hexdigest()[:16]


def _is_plain(system: Any) -> bool:
    """Does what defines it tell all there is?"""
    if inspect.isclass(system):
        return "<locals>" not in system.__qualname__
    return inspect.isfunction(system) and not (
        system.__closure__ or system.__defaults__ or system.__kwdefaults__
    )


def _place(system: Any) -> str:
    """Tells functions of one file and name apart, such as two lambdas."""
    places = system.__code__.co_positions() if inspect.isfunction(system) else ()
    return repr([system.__qualname__, *places])
