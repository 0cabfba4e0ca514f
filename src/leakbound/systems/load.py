"""Systems by address: `python:file.py:object`, `http:file.yaml`."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from leakbound._catalogue import opener_of
from leakbound.errors import TargetError, UsageError
from leakbound.systems.callable import UserSystem, answerer
from leakbound.systems.http import load_service

__all__ = ["load_system"]


def load_system(address: str, scored: bool = False) -> UserSystem:
    """The system at an address; scored:

    its scores are read as well as its text. Raises TargetError with what is wrong with it.
    """
    scheme, _, rest = address.partition(":")
    if (opener := opener_of("leakbound.systems", scheme)) is not None:
        return UserSystem(answerer(opener(rest), address), address, scored=scored, source=address)
    path, _, attribute = rest.rpartition(":") if scheme == "python" else (rest, "", "")
    if scheme not in ("python", "http") or not path or (scheme == "python" and not attribute):
        raise UsageError(
            f"the system address {address!r} is not of the form python:file.py:object or "
            "http:file.yaml."
        )
    file = Path(path)
    if not file.is_file():
        raise TargetError(f"the file {path!r} of the system {address!r} does not exist.")
    name = f"{scheme}:{file.name}" + (f":{attribute}" if attribute else "")
    function = answerer(_attribute(file, attribute), name) if attribute else load_service(file)
    return UserSystem(
        function, name, scored=scored, source=hashlib.sha256(file.read_bytes()).hexdigest()[:16]
    )


def _attribute(file: Path, attribute: str) -> Any:
    module = _module(file)
    if not hasattr(module, attribute):
        raise TargetError(
            f"{str(file)!r} has no callable {attribute!r}; it must define {attribute}(context, "
            "query) -> str."
        )
    return getattr(module, attribute)


def _module(file: Path) -> ModuleType:
    """The file as a module that, as when run by itself, finds the modules beside it."""
    spec = importlib.util.spec_from_file_location(f"leakbound_system_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise TargetError(f"{str(file)!r} is no Python file; give a file that ends in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    folder = str(file.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        spec.loader.exec_module(module)
    except (
        Exception,
        SystemExit,
    ) as error:  # a script that exits would end the audit with a status of its own
        raise TargetError(
            f"{str(file)!r} cannot be imported ({type(error).__name__}); run it by itself to see "
            "why."
        ) from None
    return module
