"""Systems by address: of a Python file or module, of a YAML file, and those of other packages."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from leakbound._catalogue import opener_of
from leakbound.errors import UsageError, findable
from leakbound.systems.callable import as_system
from leakbound.systems.calls import CallOptions
from leakbound.systems.http_store import load_http_system
from leakbound.systems.mechanism import SystemMechanism
from leakbound.systems.modules import find_object
from leakbound.systems.sources import DIGITS, source_digest


def load_system(
    address: str,
    scored: bool = False,
    options: Mapping[str, object] | None = None,
    calls: CallOptions = CallOptions(),  # noqa: B008  # frozen
) -> SystemMechanism:
    """The system at an address, as a mechanism that can be audited.

    Args:
        address: `python:file.py:object`, `python:package.module:object`, `http:file.yaml`, or an
            address whose scheme an installed package registers as an entry point in
            `leakbound.systems`.
        scored: Whether its scores are read as well as its text.
        options: Arguments, by name, of a class, a factory or a function, or of what another
            package opens addresses with.
        calls: Pace, time and retries of its calls.

    Returns:
        The mechanism. Its `source` is a hash of the options, the file and the modules of its
        folders that it imports, or the address of another package's system.

    Raises:
        UsageError: For an address of another form, of no file or of no object of it, a YAML file
            that is wrong, or options that nothing takes.
        TargetError: If the file cannot be imported, or the object is not a system.
    """
    scheme, _, rest = address.partition(":")
    given = dict(options or {})
    if (opener := opener_of("leakbound.systems", scheme)) is not None:
        opened = as_system(partial(opener, **given)(rest), address)
        return SystemMechanism(opened, address, scored=scored, source=_source(address, given),
                               calls=calls)  # fmt: skip
    place, _, attribute = rest.rpartition(":") if scheme == "python" else (rest, "", "")
    if scheme in ("http", "https") and rest.startswith("//"):
        raise UsageError(
            f"the system {address!r} is the address of a service; describe its requests in a YAML "
            "file, and name that as http:file.yaml (see docs/systems.md)."
        )
    if scheme not in ("python", "http") or not place or (scheme == "python" and not attribute):
        raise UsageError(
            f"the system address {address!r} is not of the form python:file.py:object, "
            f"python:package.module:object or http:file.yaml.{_meant(address)}"
        )
    if scheme == "http":
        return _behind_http(Path(place), scored, given, calls)
    found = find_object(place, attribute)
    system, source = (
        as_system(found.thing, found.name, given),
        source_digest(found.file, found.roots),
    )
    return SystemMechanism(
        system, found.name, scored=scored, source=_source(source, given), calls=calls
    )


def _meant(address: str) -> str:
    """A hint at a forgotten or misspelt scheme."""
    scheme, _, rest = address.partition(":")
    if scheme.endswith(".py"):
        return f" Did you mean 'python:{scheme}:{rest or 'OBJECT'}'?"
    near = difflib.get_close_matches(scheme, ("python", "http"), n=1)
    return f" Did you mean '{near[0]}:{rest}'?" if near and near[0] != scheme else ""


def _behind_http(
    file: Path, scored: bool, given: Mapping[str, object], calls: CallOptions
) -> SystemMechanism:
    if given:
        raise UsageError(
            f"the system http:{file} takes no options, and {', '.join(given)} is given; write it "
            "into the file."
        )
    if findable(file).is_dir():
        raise UsageError(f"the file {str(file)!r} of the system is a folder; name a file.")
    if not file.is_file():
        raise UsageError(
            f"the file {str(file)!r} of the system does not exist; give its path from this "
            "folder, or from the root."
        )
    system = load_http_system(file, calls=calls)
    return SystemMechanism(
        system, f"http:{file.name}", scored=scored, source=source_digest(file), calls=calls
    )


def _source(source: str, options: Mapping[str, object]) -> str:
    """A system with other arguments is another system."""
    if not options:
        return source
    told = json.dumps(options, sort_keys=True, default=str)
    return f"{source}-{hashlib.sha256(told.encode()).hexdigest()[:DIGITS]}"
