"""House style, read from the syntax of the sources: types, docstrings, look-ups, names."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "leakbound"
TOP = "modules of no package"
PACKAGES = [*sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py")), TOP]

Function = ast.FunctionDef | ast.AsyncFunctionDef


def sources(package: str) -> list[Path]:
    return sorted(PACKAGE.glob("*.py") if package == TOP else (PACKAGE / package).rglob("*.py"))


def short(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text())))


# --- Any


def anys(path: Path) -> int:
    """How often `Any` stands in a file, its import left out."""
    return sum(isinstance(node, ast.Name) and node.id == "Any" for node in nodes(path))


@pytest.mark.parametrize("package", PACKAGES)
def test_types_say_something(package: str) -> None:
    """At most ten `Any` per 1,000 lines of a package."""
    found = {short(path): count for path in sources(package) if (count := anys(path))}
    lines = sum(len(path.read_text().splitlines()) for path in sources(package))
    assert sum(found.values()) <= 10 * lines / 1000, found


# --- docstrings

DOCUMENTED = ["auditing", "estimators", "mechanisms", "privacy", "serving", "stats"]
SHARE = 0.9
HEAD = re.compile(r"^ {4}([*\w]+(?:, [*\w]+)*)(?: \([^)]*\))?:", re.M)  # of one or more parameters


def public(scope: ast.Module | ast.ClassDef, of: str = "") -> Iterator[tuple[str, Function]]:
    """Functions and methods whose names, and those of their classes, do not begin with `_`; each
    with its classes in its name, so that methods of one name are several functions.
    """
    for node in scope.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from public(node, f"{of}{node.name}.")
        if isinstance(node, Function) and not node.name.startswith("_"):
            yield f"{of}{node.name}", node


def parameters(function: Function) -> set[str]:
    """Names of all parameters but `self` and `cls`."""
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return {one.arg for one in every if one is not None} - {"self", "cls"}


def named(function: Function) -> set[str]:
    """Parameters that the section `Args:` of the docstring names."""
    _, _, rest = (ast.get_docstring(function) or "").partition("Args:\n")
    section = re.split(r"^\S", rest, maxsplit=1, flags=re.M)[0]
    return {name.strip("*") for head in HEAD.findall(section) for name in head.split(", ")}


GOOGLE = '''
def f(a, b, /, c, *rest, d=1, **more):
    """A line.

    Args:
        a: One.
        b, c (int): Two, of a kind:
            with more text: here.
        *rest: Others.
        **more: Settings.

    Returns:
        d: no parameter.
    """
'''


def test_the_reader_of_docstrings_reads_google_style() -> None:
    ((name, function),) = public(ast.parse(GOOGLE))
    assert name == "f"
    assert parameters(function) == {"a", "b", "c", "rest", "d", "more"}
    assert named(function) == {"a", "b", "c", "rest", "more"}


def test_methods_of_one_name_are_told_apart() -> None:
    pair = "class A:\n def f(self, a): ...\nclass B:\n class C:\n  def f(self, a): ...\n"
    assert [name for name, _ in public(ast.parse(pair))] == ["A.f", "B.C.f"]


@pytest.mark.parametrize("package", DOCUMENTED)
def test_docstrings_name_parameters(package: str) -> None:
    """All parameters, in at least nine of ten public functions that have any."""
    found = {
        f"{short(path)}:{name}": parameters(function) - named(function)
        for path in sources(package)
        for name, function in public(ast.parse(path.read_text()))
        if parameters(function)
    }
    mute = [name for name, unnamed in found.items() if unnamed]
    assert len(mute) <= (1 - SHARE) * len(found), mute


# --- what must not be


def test_no_assertion_decides_anything() -> None:
    """`python -O` leaves assertions out; the batteries of `testing` raise them on purpose."""
    found = [
        f"{short(path)}:{node.lineno}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in nodes(path)
        if isinstance(node, ast.Assert) and not short(path).startswith("testing/")
    ]
    assert not found


# The face loads its names when they are used, and the command line its verbs; users name modules.
BY_NAME = {"__init__.py", "cli/main.py", "systems/modules.py"}


def test_no_module_imports_another_of_the_package_by_a_string() -> None:
    """Such an arrow is seen by no check of the layers; other packages may be optional."""
    found = {
        short(path)
        for path in sorted(PACKAGE.rglob("*.py"))
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
    "cli/options.py": ({"kind"}, "a default is a component, which has a kind, or a plain value"),
    "mechanisms/base.py": ({"__file__"}, "a class that was typed into a notebook has no file"),
    "models/local/budget.py": (
        {"head_dim", "max_position_embeddings", "num_attention_heads", "num_key_value_heads"},
        CONFIG,
    ),
    "models/local/classifier.py": ({"max_position_embeddings"}, CONFIG),
    "models/local/loading.py": ({"*", "_commit_hash", "tokenizer"}, CONFIG),
    "models/local/hugging_face.py": ({"max_position_embeddings"}, CONFIG),
    "models/local/prefixes.py": ({"rope_parameters", "rope_scaling", "sliding_window"}, CONFIG),
    "models/local/text_ids.py": ({"chat_template"}, CONFIG),
    "models/local/vision.py": ({"image_token_id", "pooler_output", "prompt"}, CONFIG),
    "models/local/vision_texts.py": ({"chat_template"}, CONFIG),
    "pytest_plugin.py": (
        {"*", "__closure__", "__dict__", "__name__", "__self__", "__slots__"},
        "what a tested callable holds: functions, methods and objects have different parts",
    ),
    "systems/duck.py": (
        {"*", "__self__", "stateful"}, "objects of users: callables, or with such members"
    ),
    "systems/failures.py": ({"*", "headers", "response"}, "errors of clients, of any kind"),
    "systems/replies.py": ({"*"}, "objects of users: rich replies have the parts that they have"),
    "systems/sessions.py": ({"*", "ask", "close"}, "what users open: sessions, or engines"),
    "testing/conformance.py": ({"name"}, "names what lacks members in the report on what it lacks"),
    "testing/conformance_behavior.py": ({"*"}, "finds what a mechanism lacks"),
    "tuning/search.py": ({"name"}, "a reflection model is a model or any callable"),
    "systems/adapters/haystack.py": ({"content", "data", "text"}, HOST),
    "systems/adapters/langchain.py": ({"page_content"}, HOST),
    "systems/adapters/llama_index.py": ({"*", "text"}, HOST),
    "systems/adapters/memory.py": ({"*"}, HOST),
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
    found = {short(path): names for path in PACKAGE.rglob("*.py") if (names := lookups(path))}
    assert found == {file: names for file, (names, _) in LOOKUPS.items()}


# The product once had the name of a paper. `ContextLeak` is the paper; these may say it otherwise.
OLD_NAME = re.compile("context" + "leak", re.I)
# the paper, recipes of its figures, and the presets of attacks
PAPER = re.compile("ContextLeak|contextleak/[a-z.]+|`contextleak`, `tight`")
EXEMPT = (
    "src/leakbound/reproduce/",  # the recipes of the paper
    "src/leakbound/auditing/presets.py",  # an attack that is named after the paper
    "tests/",  # of those recipes, and of names that are no longer there
    "CHANGELOG.md",  # says once what the old name was
    "bench/first_release.py",  # these compare with the first release, which had that name
    "bench/audit_speed.py",
    "bench/memory_budget.py",
)


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
