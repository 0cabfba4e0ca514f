"""What the package must never do, read from its own syntax: run what it reads, or start a shell."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from sources import PACKAGES, SOURCES

ROOT = Path(__file__).parents[2]
FORBIDDEN = {
    "eval", "exec", "os.system", "os.popen", "subprocess.getoutput", "marshal.load",
    "marshal.loads", "shelve.open", "pickle.load", "pickle.loads", "pickle.Unpickler", "dill.load",
    "dill.loads", "cloudpickle.load", "cloudpickle.loads", "joblib.load", "torch.load",
    "torch.hub.load", "pandas.read_pickle", "pd.read_pickle", "yaml.load", "yaml.load_all",
    "yaml.full_load", "yaml.unsafe_load", "tempfile.mktemp",
}  # fmt: skip


def dotted(node: ast.expr) -> str:
    """The name of what is called, such as yaml.safe_load."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def faults(code: str) -> list[str]:
    """Forbidden calls, names imported out of their modules, shells, and arrays that may hold
    objects.
    """
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom):
            found += [
                name for alias in node.names if (name := f"{node.module}.{alias.name}") in FORBIDDEN
            ]
        if isinstance(node, ast.Call):
            name, keywords = dotted(node.func), {k.arg: k.value for k in node.keywords}
            found += [name] if name in FORBIDDEN else []
            if "shell" in keywords and not (
                isinstance(keywords["shell"], ast.Constant) and keywords["shell"].value is False
            ):
                found.append("shell=True")
            safe = (
                isinstance(keywords.get("allow_pickle"), ast.Constant)
                and keywords["allow_pickle"].value is False
            )  # type: ignore[attr-defined]
            found += [name] if name in ("np.load", "numpy.load") and not safe else []
    return found


@pytest.mark.parametrize(
    "code",
    ["eval('1')", "import yaml; yaml.load(f)", "from pickle import loads",
     "subprocess.run(c, shell=True)", "np.load(f)", "np.load(f, allow_pickle=True)",
     "torch.load(f)", "subprocess.run(c, shell=s)"],
)  # fmt: skip
def test_the_reader_finds_faults(code: str) -> None:
    assert faults(code)


@pytest.mark.parametrize(
    "code",
    [
        "yaml.safe_load(f)",
        "np.load(f, allow_pickle=False)",
        "model.eval()",
        "pickle.dumps(x)",
        "subprocess.run(c)",
    ],
)
def test_the_reader_lets_safe_calls_pass(code: str) -> None:
    assert not faults(code)


def test_no_source_runs_what_it_reads() -> None:
    found = {
        str(path.relative_to(ROOT)): wrong
        for path in SOURCES
        if (wrong := faults(path.read_text()))
    }
    assert len(SOURCES) > 100
    assert found == {}


# A script, its digest, and figures, each made by the package itself.
OWN = {"digest", "script", "figure", "svg"}
FIGURES = {"svg", "relative_positions", "c.figures[0]", "c.figures[1]"}  # arguments of `figure`


def test_templates_escape_everything_but_what_the_package_made() -> None:
    pages = {str(page): page.read_text() for package in PACKAGES for page in package.rglob("*.j2")}
    assert pages
    for name, text in pages.items():
        assert "autoescape" not in text, name
        assert set(re.findall(r"\{\{\s*([^}|]+?)\s*\|\s*safe", text)) <= OWN, name
        assert set(re.findall(r"\bfigure\(([^,)]+),", text)) <= FIGURES, name
