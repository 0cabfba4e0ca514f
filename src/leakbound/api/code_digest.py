"""A digest that changes with the code of a system of the user."""

from __future__ import annotations

import hashlib
import inspect
import marshal
import uuid
from pathlib import Path
from types import FunctionType


def code_of(system: object) -> str:
    """A hash of the file that defines a plain function or class and of its place there."""
    plain = _plain(system)
    if plain is None:
        return uuid.uuid4().hex
    try:
        code = Path(inspect.getsourcefile(plain) or "").read_bytes()
    except (TypeError, OSError):
        code = uuid.uuid4().bytes
        if isinstance(plain, FunctionType):
            code = marshal.dumps(plain.__code__)
    return hashlib.sha256(code + _place(plain).encode()).hexdigest()[:16]


def _plain(system: object) -> FunctionType | type | None:
    """A function or class whose definition tells all that it can answer; None for others."""
    if isinstance(system, type):
        return None if "<locals>" in system.__qualname__ else system
    if not isinstance(system, FunctionType):
        return None
    held = system.__closure__ or system.__defaults__ or system.__kwdefaults__
    return None if held else system


def _place(plain: FunctionType | type) -> str:
    """Tells functions of one file and name apart, such as two lambdas."""
    places = plain.__code__.co_positions() if isinstance(plain, FunctionType) else ()
    return repr([plain.__qualname__, *places])
