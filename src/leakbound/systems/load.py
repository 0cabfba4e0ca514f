"""Systems by address: `python:file.py:object`, `http:file.yaml`, and those of other packages."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from leakbound._catalogue import opener_of
from leakbound.errors import TargetError, UsageError
from leakbound.systems.callable import as_system
from leakbound.systems.http import load_http_system
from leakbound.systems.mechanism import SystemMechanism
from leakbound.systems.sources import source_digest

__all__ = ["load_system"]


def load_system(address: str, scored: bool = False) -> SystemMechanism:
    """The system at an address, as a mechanism that can be audited.

    Args:
        address: `python:file.py:object`, `http:file.yaml`, or an address whose scheme an installed
            package registers as an entry point in `leakbound.systems`.
        scored: Whether its scores are read as well as its text.

    Returns:
        The mechanism. Its `source` is a hash of the file and of the modules of its folder that it
        imports, or the address of another package's system.

    Raises:
        UsageError: For an address of another form, of no file or of no object of it, or a YAML file
            that is wrong.
        TargetError: If the file cannot be imported, or the object is no system.
    """
    scheme, _, rest = address.partition(":")
    if (opener := opener_of("leakbound.systems", scheme)) is not None:
        opened = as_system(opener(rest), address)
        return SystemMechanism(opened, address, scored=scored, source=address)
    path, _, attribute = rest.rpartition(":") if scheme == "python" else (rest, "", "")
    if scheme not in ("python", "http") or not path or (scheme == "python" and not attribute):
        raise UsageError(
            f"the system address {address!r} is not of the form python:file.py:object or "
            "http:file.yaml."
        )
    file = Path(path)
    if not file.is_file():
        raise UsageError(
            f"the file {path!r} of the system {address!r} does not exist; give its path from this "
            "folder, or from the root."
        )
    name = f"{scheme}:{file.name}" + (f":{attribute}" if attribute else "")
    system = as_system(_attribute(file, attribute), name) if attribute else load_http_system(file)
    return SystemMechanism(system, name, scored=scored, source=source_digest(file))


def _attribute(file: Path, attribute: str) -> object:
    module = _module(file)
    if not hasattr(module, attribute):
        raise UsageError(
            f"{str(file)!r} has no callable {attribute!r}; it must define {attribute}(context, "
            "query) -> str."
        )
    found: object = getattr(module, attribute)
    return found


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
    except (Exception, SystemExit) as error:  # a script that exits would end the audit
        raise TargetError(
            f"{str(file)!r} cannot be imported ({type(error).__name__}); run it by itself to see "
            "why."
        ) from None
    return module
