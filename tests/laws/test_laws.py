"""Laws of the house: floors, public names, lightness of the import, sizes, docs of public
functions.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import leakbound
from leakbound.errors import LeakboundError

ROOT = Path(__file__).parents[2]
HEAVY = {"torch", "transformers", "matplotlib", "scipy", "pydantic"}
SOURCES = sorted((ROOT / "src").rglob("*.py"))
PUBLIC = {
    "AuditRecord", "AuditSpec", "LeakboundError", "Example", "FewShot", "Gaussian", "NonPrivate",
    "PromptDefense", "Query", "ReportNoisyMax", "Scripted", "Task", "ZeroShot", "__version__",
    "audit", "calibrate_gaussian", "load_record", "open_model",
}  # fmt: skip


def test_exported_names_are_these() -> None:
    assert set(leakbound.__all__) == PUBLIC
    for name in leakbound.__all__:
        assert getattr(leakbound, name) is not None


def test_floors_hold() -> None:
    tool = shutil.which("lint-imports", path=str(Path(sys.executable).parent))
    if tool is None:
        pytest.skip("import-linter is not installed")
    done = subprocess.run([tool], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_import_is_light() -> None:
    code = f"import sys, leakbound; print(sorted({HEAVY!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_module_imports_and_lists_what_it_exports() -> None:
    for info in pkgutil.walk_packages(leakbound.__path__, "leakbound."):
        if info.name.endswith("__main__"):
            continue
        module = importlib.import_module(info.name)
        missing = [name for name in getattr(module, "__all__", ()) if not hasattr(module, name)]
        assert not missing, (info.name, missing)


@pytest.mark.parametrize(
    "room",
    [
        "privacy",
        "stats",
        "mechanisms",
        "attacks",
        "icl",
        "models",
        "auditing",
        "sweeping",
        "influence",
        "serving",
        "utility",
    ],
)
def test_public_names_are_documented(room: str) -> None:
    module = importlib.import_module(f"leakbound.{room}")
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isfunction(value) or inspect.isclass(value):
            assert inspect.getdoc(value), f"{room}.{name} has no docstring"


def functions() -> list[tuple[str, int]]:
    sizes = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = [
                    n
                    for n in node.body
                    if not (isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant))
                ]
                lines = (node.end_lineno or 0) - body[0].lineno + 1 if body else 0
                sizes.append((f"{path.relative_to(ROOT)}:{node.name}", lines))
    return sizes


def test_functions_and_files_are_small(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = sorted(functions(), key=lambda item: item[1])
    counts = [lines for _, lines in sizes]
    with capsys.disabled():
        print(
            f"\n{len(counts)} functions, median {counts[len(counts) // 2]} lines, longest "
            f"{sizes[-1]}"
        )
    assert counts[len(counts) // 2] <= 10
    assert counts[int(0.9 * len(counts))] <= 30
    assert counts[-1] <= 60
    long = {
        str(p.relative_to(ROOT)): n for p in SOURCES if (n := len(p.read_text().splitlines())) > 300
    }
    assert not long, long


def test_errors_form_one_tree() -> None:
    errors = importlib.import_module("leakbound.errors")
    for name in errors.__all__:
        value = getattr(errors, name)
        if inspect.isclass(value):
            assert issubclass(value, LeakboundError)
