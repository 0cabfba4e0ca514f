"""House rules: layers, public names, lightness of the import, sizes, docs of what is exported."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import pkgutil
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import leakbound_hosts
import leakbound_lab
import pytest
from sources import SOURCES

import leakbound
from leakbound.errors import LeakboundError

ROOT = Path(__file__).parents[2]
HEAVY = {"torch", "transformers", "matplotlib", "scipy", "pydantic"}
# Modules with a class or a decorator of a host, which is imported with them.
HOSTS = {
    "leakbound_hosts.inspect.": "inspect_ai",
    "leakbound_hosts.litellm": "litellm",
    "leakbound_hosts.deepeval": "deepeval",
}
PUBLIC = {
    "ApproxDP", "Attack", "AuditResult", "AuditSpec", "Claim", "Example", "FewShot", "Gaussian",
    "Guarantee", "LeakboundError", "Ledger", "NonPrivate", "PrivateICL", "PromptDefense", "PureDP",
    "Query", "ReportNoisyMax", "Scripted", "Task", "ZCDP", "ZeroShot", "__version__", "answer",
    "audit", "audit_async", "audit_log", "bounds", "calibrate_gaussian", "canaries", "compare",
    "estimators", "gate", "influence", "load_result", "mechanisms", "open_model", "plan", "probe",
    "queries", "scores", "sweep", "systems", "verify",
}  # fmt: skip


def test_exported_names_are_these() -> None:
    assert set(leakbound.__all__) == PUBLIC
    for name in leakbound.__all__:
        assert getattr(leakbound, name) is not None


@pytest.mark.process
def test_layers_hold() -> None:
    tool = shutil.which("lint-imports", path=str(Path(sys.executable).parent))
    if tool is None:
        pytest.skip("import-linter is not installed")
    done = subprocess.run([tool], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.process
def test_import_is_light() -> None:
    code = f"import sys, leakbound; print(sorted({HEAVY!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.process
def test_the_list_of_commands_imports_no_part_of_an_audit() -> None:
    """Who asks for help waits for click alone: numpy, scipy and pydantic take a second."""
    code = (
        "import sys; from leakbound.cli.main import group; group(['--help'], 'leakbound', "
        "standalone_mode=False); own = {m for m in sys.modules if m.startswith('leakbound.')}; "
        "print(sorted(own), sorted({'numpy', 'pydantic_core'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == (
        "['leakbound._files', 'leakbound._sources', 'leakbound._version', 'leakbound.cli', "
        "'leakbound.cli.main', 'leakbound.cli.screen', 'leakbound.cli.screen.output', "
        "'leakbound.errors'] []"
    )


@pytest.mark.process
def test_the_help_of_an_audit_imports_its_keys_and_no_class_that_they_name() -> None:
    """It lists options alone; the classes of all components took half a second."""
    code = (
        "import sys; from leakbound.cli.main import group; group(['audit', '--help'], 'leakbound', "
        "standalone_mode=False); own = {m for m in sys.modules if m.startswith('leakbound.')}; "
        "heavy = {'numpy', 'scipy', 'asyncio', 'aiohttp', 'sqlite3', 'jinja2'} & set(sys.modules); "
        "print(sorted({'.'.join(one.split('.')[1:3]) for one in own}), heavy)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == str([
        "_catalogue", "_files", "_install", "_members", "_sources", "_version", "auditing",
        "auditing.spec", "cli", "cli.init", "cli.main", "cli.options", "cli.screen", "cli.verbs",
        "errors", "models", "models.address", "models.content", "tasks", "tasks.example",
        "tasks.rows", "tasks.task",
    ]) + " set()"  # fmt: skip


@pytest.mark.process
def test_the_help_of_no_command_imports_a_model() -> None:
    """`reproduce` took seven seconds to import torch for a table of arithmetic."""
    code = (
        "import sys, click; from leakbound.cli.main import group; at = click.Context(group); "
        "print(len([group.get_command(at, one) for one in group.list_commands(at)]) > 20, "
        "{'torch', 'transformers', 'matplotlib', 'scipy.special'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "set()"]


@pytest.mark.process
def test_an_audit_loads_no_library_that_it_does_not_use(tmp_path: Path) -> None:
    """scipy.stats alone takes a second and 40 MB; so did matplotlib, to draw the page's figure."""
    Path(tmp_path, "app.py").write_text("def answer(context, query):\n    return 'no'\n")
    code = (
        "import sys; from leakbound.cli.main import group; group(['audit', 'app.py:answer', "
        "'--pairs', '4', '--quiet'], 'leakbound', standalone_mode=False); "
        "print({'torch', 'scipy.stats', 'scipy.optimize', 'matplotlib', 'pandas', "
        "'leakbound.attribution', 'leakbound.sweeping'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.splitlines()[-1] == "set()"
    assert "<svg" in next(tmp_path.glob("runs/*/report.html")).read_text()


def walked() -> Iterator[pkgutil.ModuleInfo]:
    for package in (leakbound, leakbound_lab, leakbound_hosts):
        yield from pkgutil.walk_packages(package.__path__, f"{package.__name__}.")


@cache
def modules() -> dict[str, object]:
    """Every module by its name; those of the local engine need torch, others their host."""
    found = {}
    for info in walked():
        local = info.name.startswith("leakbound.models.local")
        host = next((one for one in HOSTS if info.name.startswith(one)), None)
        absent = (local and missing("torch")) or (host is not None and missing(HOSTS[host]))
        if not info.name.endswith("__main__") and not absent:
            found[info.name] = importlib.import_module(info.name)
    return found


def missing(package: str) -> bool:
    return importlib.util.find_spec(package) is None


def test_every_module_lists_what_it_exports() -> None:
    for name, module in modules().items():
        absent = [one for one in getattr(module, "__all__", ()) if not hasattr(module, one)]
        assert not absent, (name, absent)


def is_text(node: ast.AST) -> bool:
    """Whether a statement is a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def lines(node: ast.stmt) -> int:
    return (node.end_lineno or 0) - node.lineno + 1


def functions() -> list[tuple[int, str]]:
    """Every function, and the lines of its body without its docstring."""
    sizes = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = [one for one in node.body if not is_text(one)]
                count = (node.end_lineno or 0) - body[0].lineno + 1 if body else 0
                sizes.append((count, f"{path.relative_to(ROOT)}:{node.name}"))
    return sorted(sizes)


def test_functions_are_small() -> None:
    sizes = functions()
    assert sizes[len(sizes) // 2][0] <= 10
    assert sizes[int(0.9 * len(sizes))][0] <= 30
    assert sizes[-1][0] <= 80, sizes[-1]


def test_files_are_small() -> None:
    found = {str(one.relative_to(ROOT)): len(one.read_text().splitlines()) for one in SOURCES}
    assert {name: count for name, count in found.items() if count > 700} == {}


def test_errors_form_one_tree() -> None:
    errors = importlib.import_module("leakbound.errors")
    for name in errors.__all__:
        value = getattr(errors, name)
        if inspect.isclass(value) and not issubclass(value, Warning):
            assert issubclass(value, LeakboundError)
