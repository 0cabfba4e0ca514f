"""Do tests fail when the code is wrong? A mutation score, from mutants drawn with a fixed seed.

    python tools/mutants.py [--number 320] [--seed 1] [--jobs 2] [--write FILE]

A mutant is the code with one operator, constant or condition changed, in what decides a verdict:
statistics, privacy, estimators, the decision and the ledger. Tests that run its line (measured
once, by `coverage`) are started on a copy of the sources; a mutant that they pass survives. No
mutant is left out as equivalent, so that 100 % is out of reach. Needs the package `coverage`.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from queue import Queue
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
CODE = (
    "stats", "privacy", "estimators", "auditing/decide", "auditing/observe/rejections.py",
    "auditing/observe/controls.py", "serving/ledger",
)  # fmt: skip
TESTS = (
    "tests/stats", "tests/privacy", "tests/estimators", "tests/serving/test_ledger.py",
    "tests/serving/test_ledger_records.py", "tests/serving/test_spending_limits.py",
    "tests/serving/test_serve_stores.py", "tests/auditing",
)  # fmt: skip
COPIED = ("src", "tests", "packages", "pyproject.toml", "docs", "README.md", "Makefile", "examples")
LONGEST = 60.0  # seconds of tests, as measured, that a mutant is given; the quickest first
OPERATORS = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "is not": "is",
    "is": "is not", "not in": "in", "in": "not in", "+": "-", "-": "+", "*": "/", "/": "*",
    "//": "*", "**": "*", "and": "or", "or": "and", "min": "max", "max": "min", "any": "all",
    "all": "any", "floor": "ceil", "ceil": "floor",
}  # fmt: skip

SIGN = re.compile(r"<<|>>|is\s+not|not\s+in|\b(?:is|in|and|or)\b|[<>=!]=|//|\*\*|[<>+*/-]")


class Mutant(NamedTuple):
    """A change of some bytes of a file."""

    file: str
    line: int
    start: int
    end: int
    new: str


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Every mutant of a file. Annotations, decorators, texts and messages of errors stay."""
    raw = path.read_bytes()
    starts = [0]
    for line in raw.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    name = str(path.relative_to(ROOT))

    def begin(node: ast.expr) -> int:
        return starts[node.lineno - 1] + node.col_offset

    def end(node: ast.expr) -> int:
        return starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)

    def between(left: ast.expr, right: ast.expr) -> Iterator[Mutant]:
        text = raw[end(left) : begin(right)].decode()
        found = re.search(
            r"<<|>>|is\s+not|not\s+in|\b(?:is|in|and|or)\b|[<>=!]=|//|\*\*|[<>+*/-]", text
        )
        if found and (new := OPERATORS.get(re.sub(r"\s+", " ", found[0]))):
            at = end(left) + len(text[: found.start()].encode())
            yield Mutant(name, left.end_lineno or 0, at, at + len(found[0]), f" {new} ")

    def of(node: ast.AST) -> Iterator[Mutant]:
        if isinstance(node, ast.Compare):
            for left, right in pairwise([node.left, *node.comparators]):
                yield from between(left, right)
        elif isinstance(node, ast.BinOp):
            texts = (ast.JoinedStr, ast.List, ast.Tuple)
            sides = node.left, node.right
            if not any(isinstance(one, texts) or is_text(one) for one in sides):
                yield from between(*sides)
        elif isinstance(node, ast.BoolOp):
            yield from between(node.values[0], node.values[1])
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
            word = "not" if isinstance(node.op, ast.Not) else "-"
            yield Mutant(name, node.lineno, begin(node), begin(node) + len(word), "")
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
            new = changed(node.value)
            yield Mutant(name, node.lineno, begin(node), end(node), new)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            word = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            if word in ("min", "max", "any", "all", "floor", "ceil"):
                at = end(node.func)
                yield Mutant(name, node.lineno, at - len(word), at, OPERATORS[word])
        elif isinstance(node, ast.If | ast.IfExp | ast.While):
            test = node.test
            old = raw[begin(test) : end(test)].decode()
            yield Mutant(name, test.lineno, begin(test), end(test), f"(not ({old}))")

    def walk(node: ast.AST) -> Iterator[Mutant]:
        yield from of(node)
        for key, value in ast.iter_fields(node):
            if key in ("annotation", "returns", "decorator_list", "bases", "exc"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr | ast.Import):
                    yield from walk(child)

    yield from walk(ast.parse(raw))


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def changed(value: float) -> str:
    if isinstance(value, bool):
        return str(not value)
    return repr(value + 1) if isinstance(value, int) or value == 0 else repr(value * 2)


def measure(to: Path) -> None:
    """Run the tests once in this process, and write which run each line, and their seconds."""
    import coverage
    import pytest

    cover = coverage.Coverage(
        include=[str(ROOT / "src/leakbound" / part / "*") for part in CODE if "." not in part]
        + [str(ROOT / "src/leakbound" / part) for part in CODE if "." in part],
        data_file=None,
    )
    seconds: dict[str, float] = {}

    class Contexts:
        @pytest.hookimpl(hookwrapper=True)
        def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
            cover.switch_context(item.nodeid)
            yield
            cover.switch_context("")

        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            seconds[report.nodeid] = seconds.get(report.nodeid, 0.0) + report.duration
            if report.failed:
                seconds[report.nodeid] = float("inf")  # what fails by itself kills no mutant

    cover.start()
    pytest.main(["-q", "-p", "no:cacheprovider", *TESTS], plugins=[Contexts()])
    cover.stop()
    data = cover.get_data()
    lines = {
        str(Path(file).relative_to(ROOT)): {
            line: [one for one in tests if one]
            for line, tests in data.contexts_by_lineno(file).items()
        }
        for file in data.measured_files()
    }
    to.write_text(json.dumps({"lines": lines, "seconds": seconds}))


def killed(mutant: Mutant, tests: list[str], seconds: float, copy: Path) -> str:
    """`killed`, `survived` or `no test`."""
    if not tests:
        return "no test"
    path, raw = copy / mutant.file, (ROOT / mutant.file).read_bytes()
    path.write_bytes(raw[: mutant.start] + mutant.new.encode() + raw[mutant.end :])
    found = "killed"
    try:
        command = [sys.executable, "-B", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [*command, *tests], cwd=copy, timeout=60 + 10 * seconds, capture_output=True,
            env={**os.environ, "PYTHONPATH": str(copy / "src"), "OMP_NUM_THREADS": "1"},
            check=False,
        )  # fmt: skip
        found = "survived" if done.returncode == 0 else "killed"
    except subprocess.TimeoutExpired:
        pass  # a loop that does not end
    path.write_bytes(raw)
    return found


def main() -> None:
    """Draw, run and count."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--number", type=int, default=320)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--write", type=Path)
    options.add_argument("--map", type=Path, help="of an earlier run, or where to write it")
    options.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    asked = options.parse_args()
    if asked.measure:
        measure(asked.measure)
        return
    with tempfile.TemporaryDirectory() as folder:
        known = asked.map or Path(folder, "map.json")
        if not known.exists():
            subprocess.run([sys.executable, __file__, "--measure", known], cwd=ROOT, check=True)
        report = score(asked.number, asked.seed, asked.jobs, json.loads(known.read_text()), folder)
    print(json.dumps(report["counts"], indent=2))
    if asked.write:
        asked.write.write_text(json.dumps(report, indent=1) + "\n")


def score(number: int, seed: int, jobs: int, known: dict[str, Any], folder: str) -> dict[str, Any]:
    """Outcomes of so many mutants."""
    places = [ROOT / "src/leakbound" / part for part in CODE]
    files = [p for one in places for p in ([one] if one.suffix else sorted(one.rglob("*.py")))]
    every = [mutant for file in files for mutant in mutants_of(file)]
    drawn = random.Random(seed).sample(every, min(number, len(every)))
    copies: Queue[Path] = Queue()
    for job in range(jobs):
        copy = Path(folder, str(job))
        for part in COPIED:
            (shutil.copytree if (ROOT / part).is_dir() else shutil.copy)(ROOT / part, copy / part)
        copies.put(copy)

    def run(mutant: Mutant) -> dict[str, object]:
        seconds, spent, tests = known["seconds"], 0.0, list[str]()
        lines = known["lines"].get(mutant.file, {})
        # of a statement of several lines, some are measured at the lines above
        near = (
            lines[str(at)] for at in range(mutant.line, mutant.line - 8, -1) if str(at) in lines
        )
        for test in sorted(next(filter(None, near), ()), key=seconds.__getitem__):
            if seconds[test] == float("inf") or (tests and spent + seconds[test] > LONGEST):
                break
            tests.append(test)
            spent += seconds[test]
        copy = copies.get()
        try:
            outcome = killed(mutant, tests, spent, copy)
        finally:
            copies.put(copy)
        raw = (ROOT / mutant.file).read_bytes()
        old = raw[mutant.start : mutant.end].decode()
        found = {"file": mutant.file, "line": mutant.line, "old": old, "new": mutant.new}
        print(outcome, *found.values(), flush=True)
        return {**found, "tests": len(tests), "outcome": outcome}

    with ThreadPoolExecutor(jobs) as pool:
        outcomes = list(pool.map(run, drawn))
    counts: dict[str, object] = {"possible": len(every), "drawn": len(drawn), "seed": seed}
    for outcome in ("killed", "survived", "no test"):
        counts[outcome] = sum(one["outcome"] == outcome for one in outcomes)
    counts["score"] = round(100 * int(str(counts["killed"])) / len(drawn), 1)
    return {"counts": counts, "alive": [one for one in outcomes if one["outcome"] != "killed"]}


if __name__ == "__main__":
    main()
