"""Systems by address: of a Python file or module, of a YAML file, and those of other packages."""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import inspect
import json
import os
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from types import ModuleType

from leakbound._catalogue import opener_of
from leakbound._sources import (
    DIGITS,
    STARTED,
    digest_of,
    package_root,
    source_digest,
    source_files,
    time_of,
)
from leakbound.errors import TargetError, UsageError, findable
from leakbound.systems.callable import as_system
from leakbound.systems.calls import CallOptions, place_of
from leakbound.systems.http.store import load_http_system
from leakbound.systems.mechanism import SystemMechanism

_known: dict[Path, str] = {}  # user files that were imported here, with hashes of their text


@dataclass(frozen=True, slots=True)
class _UserObject:
    thing: object
    name: str
    file: Path
    roots: tuple[Path, ...]


def find_object(place: str, attribute: str) -> _UserObject:
    """Read an object of a file or module, with the working directory on the path. A file in a
    package is a module of it; a changed file is imported again."""
    _forget_changed()
    before, file = [*sys.modules.values()], findable(place)
    plain = file.suffix == ".py" or len(file.parts) > 1 or file.is_file()
    if file.is_dir() and not (file / "__init__.py").is_file():
        plain = True  # no package
    module, name = _of_file(file) if plain else _of_module(place)
    found = Path(module.__file__ or place).resolve()
    # its imports are found below the folder of its package, and here
    alone = module.__name__.startswith("leakbound_system_")
    depth = 0 if alone else module.__name__.count(".") + (found.name == "__init__.py")
    roots = tuple(dict.fromkeys((found.parents[depth], Path.cwd())))
    files = source_files(found, roots)
    new = {_identity(one) for one in files if one not in _known and time_of(one) >= STARTED}
    files_before = (vars(m).get("__file__") for m in before if isinstance(m, ModuleType))
    if new and any(_identity(one or "") in new for one in files_before):
        _known.update(dict.fromkeys(files, ""))  # imported by others, and perhaps before a change
        return find_object(place, attribute)
    _known.update((one, _hash(one)) for one in files)
    return _UserObject(
        _attribute(module, attribute, name), f"python:{name}:{attribute}", found, roots
    )


def _of_file(file: Path) -> tuple[ModuleType, str]:
    if file.is_dir():
        raise UsageError(f"the system {str(file)!r} is a folder; name a file.py or a module.")
    _require_there(file)
    whole = file.resolve()
    root = package_root(whole)
    _on_path(Path.cwd())
    if root == whole.parent:
        _on_path(root)
        return _alone(file), file.name
    dotted = ".".join(whole.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
    _on_path(root, first=True)
    module = _import_of(dotted)
    if module.__file__ is None or Path(module.__file__).resolve() != whole:
        raise TargetError(
            f"{str(file)!r} is the module {dotted}, and another package of that name is imported "
            "already; rename one of them."
        )
    return module, file.name


def _require_there(file: Path) -> None:
    if not file.is_file():
        raise UsageError(
            f"the file {str(file)!r} of the system does not exist; give its path from this "
            "folder, or from the root."
        )


def _of_module(dotted: str) -> tuple[ModuleType, str]:
    if not all(part.isidentifier() for part in dotted.split(".")):
        raise UsageError(
            f"{dotted!r} is neither a file nor a module; give file.py or package.module."
        )
    _on_path(Path.cwd(), first=True)
    return _import_of(dotted), dotted


def _on_path(folder: Path, first: bool = False) -> None:
    """At the end, installed packages keep their names; at the start, a named package wins."""
    if str(folder) not in sys.path:
        sys.path.insert(0 if first else len(sys.path), str(folder))


def _import_of(dotted: str) -> ModuleType:
    try:
        with _own_process():
            return importlib.import_module(dotted)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{dotted}.".startswith(f"{error.name}."):
            raise UsageError(
                f"there is no module {error.name!r} in this folder, and none is installed; give "
                "the name as an import would, such as package.module."
            ) from None
        raise _cannot(dotted, error) from None
    except (Exception, SystemExit) as error:
        raise _cannot(dotted, error) from None


def _alone(file: Path) -> ModuleType:
    """The file as a module that, as when run by itself, finds the modules beside it."""
    spec = importlib.util.spec_from_file_location(f"leakbound_system_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise TargetError(f"{str(file)!r} is no Python file; give a file that ends in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    try:
        with _own_process():
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # a script that exits would end the audit
        raise _cannot(str(file), error) from None
    return module


@contextmanager
def _own_process() -> Iterator[None]:
    """Put back what an import changes of the process: its folder, its output and error streams."""
    folder, streams = Path.cwd(), (("stdout", 1, sys.stdout), ("stderr", 2, sys.stderr))
    spares = {name: os.dup(number) for name, number, _ in streams}
    try:
        yield
    finally:
        os.chdir(folder)
        for name, number, stream in streams:
            if stream is not None and stream.closed:  # and what it wrote to is
                os.dup2(spares[name], number)
                stream = os.fdopen(number, "w", encoding="utf-8")
            setattr(sys, name, stream)
            os.close(spares[name])


def _cannot(what: str, error: BaseException) -> TargetError:
    told = type(error).__name__
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        told += f": no module {error.name!r}"
    return TargetError(
        f"{what!r} cannot be imported ({told}){place_of(error)}; run it by itself to see why."
    )


def _attribute(module: ModuleType, attribute: str, name: str) -> object:
    try:
        found: object = reduce(getattr, attribute.split("."), module)
    except AttributeError:
        near = difflib.get_close_matches(attribute, vars(module), n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise UsageError(
            f"{name!r} has no callable {attribute!r}; it must define {attribute}(context, query) "
            f"-> str.{hint}"
        ) from None
    return found


def _hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _forget_changed() -> None:
    """Drop all modules of users if the text of one of them is another, or is gone."""
    if all(file.is_file() and _hash(file) == known for file, known in _known.items()):
        return
    files = set(map(_identity, _known))
    for name, module in list(sys.modules.items()):
        file = module.__dict__.get("__file__") if isinstance(module, ModuleType) else None
        if isinstance(file, str) and _identity(file) in files:
            del sys.modules[name]
    for known in _known:  # bytecode is told from its source by size and second only
        Path(importlib.util.cache_from_source(str(known))).unlink(missing_ok=True)
    _known.clear()
    importlib.invalidate_caches()


def _identity(file: str | Path) -> object:
    """Equal for two names of one file; thousands of modules are asked, and a path takes longer."""
    try:
        return os.stat(file)[1:3]  # inode and device
    except OSError:
        return Path(file).resolve()


def load_system(
    address: str,
    scored: bool = False,
    options: Mapping[str, object] | None = None,
    calls: CallOptions = CallOptions(),  # noqa: B008  # frozen
) -> SystemMechanism:
    """The system at an address, as a mechanism that can be audited.

    Its `source` is a hash of the options, the file and the modules of its folders that it imports;
    of another package's system, of the address and of what opens it.

    Args:
        address: `python:file.py:object`, `python:package.module:object`, `http:file.yaml`, or an
            address whose scheme an installed package registers as an entry point in
            `leakbound.systems`.
        scored: Whether its scores are read as well as its text.
        options: Arguments, by name, of a class, a factory or a function, or of what another
            package opens addresses with.
        calls: Pace, time and retries of its calls.

    Raises:
        UsageError: For an address of another form, of no file or of no object of it, a YAML file
            that is wrong, or options that nothing takes.
        TargetError: If the file cannot be imported, or the object is not a system.
    """
    scheme, _, rest = address.partition(":")
    given = dict(options or {})
    made = partial(SystemMechanism, scored=scored, calls=calls)
    if (opener := opener_of("leakbound.systems", scheme)) is not None:
        opened = as_system(partial(opener, **given)(rest), address)
        return made(opened, address, source=_source(f"{address} {_code_of(opener)}", given))
    if address == "TODO":
        raise UsageError(
            "no system is named yet: replace TODO in the configuration file, with "
            "python:app.py:answer for a function or http:FILE.yaml for a service."
        )
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
        return _behind_http(Path(place), made, given, calls)
    found = find_object(place, attribute)
    system = as_system(found.thing, found.name, given)
    source = source_digest(found.file, found.roots)
    return made(system, found.name, source=_source(source, given))


def _code_of(opener: object) -> str:
    """A hash of the package that opens addresses; no other run is of one whose code none sees."""
    try:
        return digest_of(Path(inspect.getsourcefile(inspect.unwrap(opener)) or ""), True)  # type: ignore[arg-type]
    except (TypeError, OSError):
        return uuid.uuid4().hex


def _meant(address: str) -> str:
    scheme, _, rest = address.partition(":")
    if scheme.endswith(".py"):
        return f" Did you mean 'python:{scheme}:{rest or 'OBJECT'}'?"
    near = difflib.get_close_matches(scheme, ("python", "http"), n=1)
    return f" Did you mean '{near[0]}:{rest}'?" if near and near[0] != scheme else ""


def _behind_http(
    file: Path,
    made: Callable[..., SystemMechanism],
    given: Mapping[str, object],
    calls: CallOptions,
) -> SystemMechanism:
    if given:
        raise UsageError(
            f"the system http:{file} takes no options, and {', '.join(given)} is given; write it "
            "into the file."
        )
    if findable(file).is_dir():
        raise UsageError(f"the file {str(file)!r} of the system is a folder; name a file.")
    _require_there(file)
    system = load_http_system(file, calls=calls)
    name, reads_rows = f"http:{file.name}", system.reads_rows
    return made(system, name, source=source_digest(file), reads_rows=reads_rows)


def _source(source: str, options: Mapping[str, object]) -> str:
    """A system with other arguments is another system."""
    if not options:
        return source
    told = json.dumps(options, sort_keys=True, default=str)
    return f"{source}-{hashlib.sha256(told.encode()).hexdigest()[:DIGITS]}"
