"""House style, read from the syntax of the sources: types, docstrings, look-ups, names."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest
from sources import CORE, PACKAGES, ROOT, SOURCES, module_of

from leakbound import attacks
from leakbound.attacks.canaries import CANARIES
from leakbound.attacks.queries import QUERIES
from leakbound.attacks.scores import SCORES
from leakbound.estimators import ESTIMATORS
from leakbound.mechanisms import MECHANISMS

ROOMS = [
    *sorted(path.parent for package in PACKAGES for path in package.glob("*/__init__.py")),
    *PACKAGES,
]

Function = ast.FunctionDef | ast.AsyncFunctionDef


def sources(room: Path) -> list[Path]:
    """The files of a room; of a package those that are in none."""
    return sorted(room.glob("*.py") if room in PACKAGES else room.rglob("*.py"))


def short(path: Path) -> str:
    """The path in the core; in another package, with its name."""
    package = next(one for one in PACKAGES if path.is_relative_to(one))
    return path.relative_to(package if package == CORE else package.parent).as_posix()


@cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text())))


# --- Any


def anys(path: Path) -> int:
    """How often `Any` stands in a file, its import left out."""
    return sum(isinstance(node, ast.Name) and node.id == "Any" for node in nodes(path))


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_types_say_something(room: Path) -> None:
    """At most ten `Any` per 1,000 lines of a package."""
    found = {short(path): count for path in sources(room) if (count := anys(path))}
    lines = sum(len(path.read_text().splitlines()) for path in sources(room))
    assert sum(found.values()) <= 10 * lines / 1000, found


# --- docstrings

PAGE = ROOT / "docs" / "api.md"  # names the modules whose faces are public
CATALOGUES = [attacks.CANARIES, attacks.QUERIES, attacks.SCORES, ESTIMATORS, MECHANISMS]


@cache
def public() -> frozenset[str]:
    """Qualified names of what the reference shows, of what users name by a kind, and of the public
    methods of both; a method of a class that inherits it counts where it is written.
    """
    found: set[str] = set()
    for name in re.findall(r"^::: ([\w.]+)", PAGE.read_text(), re.M):
        shown = resolve_name(name)
        names = getattr(shown, "__all__", ()) if inspect.ismodule(shown) else ()
        for value in [getattr(shown, one) for one in names] or [shown]:
            found |= set(qualified(value))
    found |= {name for one in CATALOGUES for kind in one.values() for name in qualified(kind)}
    return frozenset(found)


def qualified(value: Any) -> Iterator[str]:
    """The name of a class or function with its module, and those of public methods."""
    value = inspect.unwrap(value) if callable(value) else value
    if inspect.isfunction(value) or inspect.isclass(value):
        yield f"{value.__module__}.{value.__qualname__}"
    for base in value.__mro__ if inspect.isclass(value) else ():
        if base.__module__.startswith("leakbound"):
            yield f"{base.__module__}.{base.__qualname__}"
            methods = [one for one in vars(base) if not one.startswith("_")]
            yield from (f"{base.__module__}.{base.__qualname__}.{one}" for one in methods)


Documented = Function | ast.ClassDef


def documented(scope: ast.AST, of: str) -> Iterator[tuple[str, Documented]]:
    """Every class and function, with its classes and its module in its name."""
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, Documented):
            yield f"{of}.{node.name}", node
            yield from documented(node, f"{of}.{node.name}")
        elif not isinstance(node, ast.expr):
            yield from documented(node, of)


@cache
def every() -> dict[str, Documented]:
    return {
        name: node
        for path in SOURCES
        for name, node in documented(
            ast.parse(path.read_text()), module_of(path).removesuffix(".__init__")
        )
    }


def test_methods_of_one_name_are_told_apart() -> None:
    pair = "class A:\n def f(self, a): ...\nclass B:\n class C:\n  def f(self, a): ...\n"
    assert [name for name, _ in documented(ast.parse(pair), "m")] == [
        "m.A", "m.A.f", "m.B", "m.B.C", "m.B.C.f",
    ]  # fmt: skip


def test_what_the_reference_shows_is_documented() -> None:
    shown = {name: node for name, node in every().items() if name in public()}
    top = [name for name in shown if name.rpartition(".")[0] not in shown and "._" not in name]
    assert len(top) > 200
    assert [name for name in top if not ast.get_docstring(shown[name])] == []


SECTIONS = re.compile(r"^(Args|Attributes|Returns|Raises|Yields):$", re.M)
# Users read these elsewhere: help, lists of kinds, and the recipes that a measurement is for.
SHOWN = ("leakbound.cli.", "leakbound_lab.reproduce.")


def test_other_docstrings_repeat_no_signature() -> None:
    found = [
        name
        for name, node in every().items()
        if name not in public() and not name.startswith(SHOWN)
        if SECTIONS.search(ast.get_docstring(node) or "")
    ]
    assert not found


# --- what must not be


def test_no_assertion_decides_anything() -> None:
    """`python -O` leaves assertions out; the batteries of `leakbound_lab` raise them on purpose."""
    found = [
        f"{short(path)}:{node.lineno}"
        for path in SOURCES
        for node in nodes(path)
        if isinstance(node, ast.Assert) and not short(path).startswith("leakbound_lab/")
    ]
    assert not found


# Faces load their names when they are used, and the command line its verbs; users name modules.
BY_NAME = {"_sources.py", "cli/main.py", "systems/load.py"}


def test_no_module_imports_another_of_the_package_by_a_string() -> None:
    """Such an arrow is seen by no check of the layers; other packages may be optional."""
    found = {
        short(path)
        for path in SOURCES
        for node in nodes(path)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module")
        if not isinstance(one := node.args[0], ast.Constant)
        or str(one.value).startswith("leakbound")
    }
    assert found == BY_NAME


# Files that may look up attributes with a default, which ones ("*": by a variable), and why they
# may be missing.
CONFIG = "configurations of transformers have the fields of their architecture only"
HOST = "an object of another framework, which may have it or not"
LOOKUPS: dict[str, tuple[set[str], str]] = {
    "api/audits.py": ({"__name__"}, "names a system of a user, which may be an object"),
    "cli/options/spec.py": ({"kind"}, "a default is a component, or a plain value"),
    "models/local/engine/budget.py": (
        {"head_dim", "max_position_embeddings", "num_attention_heads", "num_key_value_heads"},
        CONFIG,
    ),
    "leakbound_lab/studies/judges.py": ({"max_position_embeddings"}, CONFIG),
    "models/local/loading.py": ({"*", "_commit_hash", "chat_template", "tokenizer"}, CONFIG),
    "models/local/hugging_face.py": ({"max_position_embeddings"}, CONFIG),
    "models/local/engine/prefixes.py": (
        {"rope_parameters", "rope_scaling", "sliding_window"}, CONFIG
    ),
    "models/local/text_ids.py": ({"chat_template"}, CONFIG),
    "models/local/vision.py": (
        {"chat_template", "image_token_id", "pooler_output", "prompt"}, CONFIG
    ),
    "leakbound_hosts/pytest_plugin.py": (
        {"*", "__closure__", "__dict__", "__name__", "__self__", "__slots__"},
        "what a tested callable holds: functions, methods and objects have different parts",
    ),
    "_members.py": ({"__dict__"}, "methods that were put on an object itself"),
    "systems/callable.py": (
        {
            "*", "__annotations__", "__globals__", "__mro__", "__name__", "__self__", "ask",
            "close", "open_tenant", "stateful",
        },
        "objects of users: callables, or what they open, with such members",
    ),
    "systems/stores.py": ({"*", "open"}, "objects of users: whether they have the methods"),
    "systems/staged.py": ({"open_tenant"}, "applications of users, with sessions or a store"),
    "systems/calls.py": ({"*", "headers", "response"}, "errors of clients, of any kind"),
    "systems/replies.py": (
        {"*", "__dict__", "__slots__"},
        "objects of users: rich replies have the parts that they have",
    ),
    "leakbound_lab/conformance/mechanisms.py": (
        {"*", "alone", "name"},
        "finds, and names, what a mechanism lacks",
    ),
    "leakbound_lab/tuning/search.py": ({"name"}, "a reflection model is a model or any callable"),
    "leakbound_hosts/adapters/haystack.py": ({"content", "data", "text"}, HOST),
    "leakbound_hosts/adapters/langchain.py": ({"page_content"}, HOST),
    "leakbound_hosts/adapters/llama_index.py": ({"*", "text"}, HOST),
    "leakbound_hosts/adapters/memory.py": ({"*"}, HOST),
}  # fmt: skip


def lookups(path: Path) -> set[str]:
    """What `getattr` with a default looks up in a file."""
    return {
        str(node.args[1].value) if isinstance(node.args[1], ast.Constant) else "*"
        for node in nodes(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if node.func.id == "getattr" and len(node.args) == 3
    }  # fmt: skip


def test_what_may_be_missing_is_listed() -> None:
    """A member that a protocol asks for is never looked up with a default."""
    found = {short(path): names for path in SOURCES if (names := lookups(path))}
    assert found == {file: names for file, (names, _) in LOOKUPS.items()}


# Nothing here asks of what class an object is, or where its code lives: it reads what is declared.
DECIDING = tuple(
    f"{folder}/" for folder in (
        "auditing/collect", "auditing/decide", "auditing/design", "auditing/observe",
        "auditing/one_run", "auditing/result", "auditing/store", "report", "gating", "estimators",
        "stats", "privacy", "witness", "sweeping",
    )
)  # fmt: skip
DETECTORS = {"hasattr", "getattr_static", "__import__", "__module__", "__qualname__"}
SHIPPED = {
    kind.__name__
    for catalogue in (CANARIES, QUERIES, SCORES, MECHANISMS) for kind in catalogue.usable.values()
}  # fmt: skip
DETECTED: dict[str, tuple[set[str], str]] = {
    "auditing/observe/controls.py": ({"ContainsCanary"}, "scores a control reply itself"),
    "auditing/result/sentences.py": (
        {"PromptDefense", "ReportNoisyMax"}, "each shipped mechanism has a sentence of its own"
    ),
    "sweeping/utility_meter.py": ({"FewShot", "ZeroShot"}, "measures utility beside baselines"),
}  # fmt: skip


def detected(path: Path) -> set[str]:
    names = {node.id for node in nodes(path) if isinstance(node, ast.Name)}
    names |= {node.attr for node in nodes(path) if isinstance(node, ast.Attribute)}
    return names & (DETECTORS | SHIPPED)


def test_what_decides_detects_nothing() -> None:
    deciding = [path for path in SOURCES if short(path).startswith(DECIDING)]
    assert len(deciding) > 80
    found = {short(path): names for path in deciding if (names := detected(path))}
    assert found == {file: names for file, (names, _) in DETECTED.items()}


# The product once had the name of a paper. `ContextLeak` is the paper; these may say it otherwise.
OLD_NAME = re.compile("context" + "leak", re.I)
# the paper, recipes of its figures, and the presets of attacks
PAPER = re.compile("ContextLeak|contextleak/[a-z.]+|`contextleak`, `tight`")
EXEMPT = (
    "packages/lab/src/leakbound_lab/reproduce/",  # the recipes of the paper
    "docs/map.md",  # names their file
    "src/leakbound/cli/options/spec.py",  # an attack that is named after the paper
    "tests/",  # of those recipes, and of names that are no longer there
    "CHANGELOG.md",  # says once what the old name was
    "bench/first_release.py",  # these compare with the first release, which had that name
    "bench/audit_speed.py",
    "bench/memory_budget.py",
)


@pytest.mark.process
def test_the_old_name_names_the_paper() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    found = [
        f"{name}:{number}"
        for name in listed.stdout.splitlines()
        if not name.startswith(EXEMPT) and Path(ROOT, name).is_file()
        for number, line in enumerate(
            Path(ROOT, name).read_bytes().decode("latin-1").splitlines(), 1
        )
        if OLD_NAME.search(PAPER.sub("", line))
    ]
    assert not found
