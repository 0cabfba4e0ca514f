"""Objects of a user's own Python files and packages, imported from where they stand."""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import sys
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from types import ModuleType

from leakbound.errors import TargetError, UsageError, findable
from leakbound.systems.failures import place_of
from leakbound.systems.sources import package_root, source_files

_known: dict[Path, str] = {}  # user files that were imported here, with hashes of their text


@dataclass(frozen=True, slots=True)
class UserObject:
    """An object of a user."""

    thing: object
    name: str
    file: Path
    roots: tuple[Path, ...]


def find_object(place: str, attribute: str) -> UserObject:
    """Import a file or module and read an object of it.

    The working directory is on the import path. A file that stands in a package is imported as a
    module of it, so that relative imports work; another file is imported by itself and finds the
    modules beside it. A file that has changed since it was imported is imported again.
    """
    _forget_changed()
    file = findable(place)
    plain = file.suffix == ".py" or len(file.parts) > 1 or file.is_file()
    if file.is_dir() and not (file / "__init__.py").is_file():
        plain = True  # no package
    module, name = _of_file(file) if plain else _of_module(place)
    found = Path(module.__file__ or place).resolve()
    roots = _roots(module, found)
    for one in source_files(found, roots):
        _known[one] = _hash(one)
    return UserObject(
        _attribute(module, attribute, name), f"python:{name}:{attribute}", found, roots
    )


def _of_file(file: Path) -> tuple[ModuleType, str]:
    if file.is_dir():
        raise UsageError(f"the system {str(file)!r} is a folder; name a file.py or a module.")
    if not file.is_file():
        raise UsageError(
            f"the file {str(file)!r} of the system does not exist; give its path from this "
            "folder, or from the root."
        )
    whole = file.resolve()
    root = package_root(whole)
    _on_path(Path.cwd())
    if root == whole.parent:
        _on_path(root)
        return _alone(file), file.name
    dotted = ".".join(whole.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
    _on_path(root, first=True)
    module = _imported(dotted)
    if module.__file__ is None or Path(module.__file__).resolve() != whole:
        raise TargetError(
            f"{str(file)!r} is the module {dotted}, and another package of that name is imported "
            "already; rename one of them."
        )
    return module, file.name


def _of_module(dotted: str) -> tuple[ModuleType, str]:
    if not all(part.isidentifier() for part in dotted.split(".")):
        raise UsageError(
            f"{dotted!r} is neither a file nor a module; give file.py or package.module."
        )
    _on_path(Path.cwd(), first=True)
    return _imported(dotted), dotted


def _on_path(folder: Path, first: bool = False) -> None:
    """At the end, installed packages keep their names; at the start, a named package wins."""
    if str(folder) not in sys.path:
        sys.path.insert(0 if first else len(sys.path), str(folder))


def _imported(dotted: str) -> ModuleType:
    try:
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
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # a script that exits would end the audit
        raise _cannot(str(file), error) from None
    return module


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


def _roots(module: ModuleType, file: Path) -> tuple[Path, ...]:
    """Where imports of a module are found: below the folder of its package, and here."""
    alone = module.__name__.startswith("leakbound_system_")
    depth = 0 if alone else module.__name__.count(".") + (file.name == "__init__.py")
    return tuple(dict.fromkeys((file.parents[depth], Path.cwd())))


def _hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _forget_changed() -> None:
    """Drop all modules of users if the text of one of them is another, or is gone."""
    if all(file.is_file() and _hash(file) == known for file, known in _known.items()):
        return
    for name, module in list(sys.modules.items()):
        file = module.__dict__.get("__file__") if isinstance(module, ModuleType) else None
        if isinstance(file, str) and Path(file).resolve() in _known:
            del sys.modules[name]
    for known in _known:  # bytecode is told from its source by size and second only
        Path(importlib.util.cache_from_source(str(known))).unlink(missing_ok=True)
    _known.clear()
    importlib.invalidate_caches()
