"""A test that needs torch or starts a process says so by a mark: `make quick` goes by the marks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
TORCH = {"torch", "transformers"}


def needs(node: ast.AST) -> set[str]:
    """The marks for what a statement imports and calls by name."""
    found = set()
    for one in ast.walk(node):
        match one:
            case ast.Import(names=[ast.alias(name=name)]) | ast.ImportFrom(module=str(name)):
                found |= {"torch"} if name.split(".")[0] in TORCH else set()
                found |= {"process"} if name == "commands" else set()
            case ast.Call(func=ast.Attribute(attr="importorskip"), args=[ast.Constant("torch")]):
                found.add("torch")
            case ast.Call(func=ast.Attribute(value=ast.Name("subprocess"))):
                found.add("process")
    return found


def unmarked(text: str) -> Iterator[tuple[int, str]]:
    """The line of each test, or of the file, that needs a mark; `hosts` is left out of all runs."""
    body = ast.parse(text).body
    marks = "\n".join(ast.unparse(one) for one in body if isinstance(one, ast.Assign))
    for node in body:
        own = "\n".join([marks, *map(ast.unparse, getattr(node, "decorator_list", ()))])
        if getattr(node, "name", "test_").startswith("test_"):
            missing = [m for m in needs(node) if not re.search(rf"mark\.({m}|hosts)\b", own)]
            yield from ((node.lineno, one) for one in missing)


@pytest.mark.parametrize(
    ("text", "found"),
    [("import torch", [(1, "torch")]), ("from commands import cli", [(1, "process")]),
     ("pytest.importorskip('torch')\npytestmark = pytest.mark.torch", []),
     ("def test_it():\n    subprocess.run(['ls'])", [(1, "process")]),
     ("@pytest.mark.process\ndef test_it():\n    subprocess.run(['ls'])", [])],
)  # fmt: skip
def test_the_reader_of_marks_finds_what_is_missing(text: str, found: list[object]) -> None:
    assert list(unmarked(text)) == found


def test_every_test_says_what_it_needs() -> None:
    found = {str(path.relative_to(TESTS)): list(unmarked(path.read_text()))
             for path in TESTS.rglob("test_*.py")}  # fmt: skip
    assert {name: places for name, places in found.items() if places} == {}
