"""No test fails because a machine is busy: what starts a process, a server or a browser gives up
after `limits.PATIENCE` at the earliest, and a shorter limit is one that the test wants reached.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from limits import PATIENCE

TESTS = Path(__file__).parents[1]
LEAST = 60.0  # seconds
WAITING = {"join", "wait", "result", "settimeout", "set_page_load_timeout", "set_script_timeout",
           "WebDriverWait", "wait_for", "implicitly_wait"}  # fmt: skip
REQUESTS = {"get", "post", "request", "stream", "Client", "AsyncClient"}  # 5 seconds by default


def limits(tree: ast.AST) -> Iterator[tuple[int, ast.expr]]:
    """Line and value of all that bounds a wait."""
    for node in ast.walk(tree):
        match node:
            case ast.keyword(arg=str(name), value=value) if _bounds(name):
                yield value.lineno, value
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[*_, value]):
                if name in WAITING:
                    yield node.lineno, value
            case ast.arguments():
                named = node.posonlyargs + node.args
                pairs = [*zip(reversed(named), reversed(node.defaults), strict=False),
                         *zip(node.kwonlyargs, node.kw_defaults, strict=True)]  # fmt: skip
                yield from ((a.lineno, value) for a, value in pairs if value and _bounds(a.arg))
            case ast.Dict():
                for key, value in zip(node.keys, node.values, strict=True):
                    if isinstance(key, ast.Constant) and _bounds(str(key.value)):
                        yield value.lineno, value
        given = node.args if isinstance(node, ast.Call) else getattr(node, "elts", [])
        for option, value in pairwise(given):
            if isinstance(option, ast.Constant) and str(option.value).endswith("-timeout"):
                yield value.lineno, value


def _bounds(name: str) -> bool:
    return name.lower().endswith(("timeout", "patience"))


def too_short(text: str) -> list[int]:
    """The lines of a test that give up before `LEAST`."""
    tree = ast.parse(text)
    found = [line for line, value in limits(tree) if 0 < _seconds(value) < LEAST]
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="httpx"), attr=name)):
                if name in REQUESTS and not {"timeout", "transport", None} & {
                    one.arg for one in node.keywords
                }:
                    found.append(node.lineno)
    return sorted(found)


def _seconds(value: ast.expr) -> float:
    """Of a number that is written out, also as an option of a command or by a product; else 0. Of
    two ways, the longer."""
    if isinstance(value, ast.IfExp):
        both = _seconds(value.body), _seconds(value.orelse)
        return max(both) if all(both) else 0.0
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):
        return _seconds(value.left) * _seconds(value.right)
    try:
        return float(ast.literal_eval(value))
    except (ValueError, TypeError):
        return 0.0


@pytest.mark.parametrize(
    "line",
    ["thread.join(5)", "event.wait(timeout=9.5)", "Options(timeout=1)", "x = {'timeout': 2}",
     "def f(patience=3.0): ...", "httpx.get(url)", "httpx.Client(base_url=url)",
     "cli('audit', '--timeout', '50')", "asyncio.wait_for(it, 2)", "wait(timeout=2 * 3)",
     "event.wait(0.05 if quick else 5)"],
)  # fmt: skip
def test_the_reader_of_limits_finds_them(line: str) -> None:
    assert too_short(line) == [1]


def test_a_test_gives_up_late_or_wants_its_limit_reached() -> None:
    assert PATIENCE >= LEAST
    found = {str(file.relative_to(TESTS)): too_short(file.read_text())
             for file in TESTS.rglob("*.py")}  # fmt: skip
    assert {name: lines for name, lines in found.items() if lines} == {}
