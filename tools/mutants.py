"""Do tests fail when the code is wrong? A mutation score, from mutants drawn with a fixed seed.

    python tools/mutants.py [--number 320] [--seed 1] [--jobs 2] [--state FILE] [--write FILE]
    python tools/mutants.py --state FILE --again survived [--at FILE[:LINE]] [--tests PATH ...]

A mutant is the code with one operator, constant or condition changed, in what decides a verdict:
statistics, privacy, estimators, the decision and the ledger. Tests that run its line (measured
once, by `coverage`) are started on a copy of the sources; a mutant that they pass survives. No
mutant is left out as equivalent, so that 100 % is out of reach. Needs the package `coverage`.

Which mutants are drawn depends on the seed and on their own lines alone, so an edit elsewhere
leaves the sample as it is. --state keeps the outcome of each, for a run that was stopped.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import multiprocessing
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from queue import Queue
from typing import Any, NamedTuple

import pytest

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
COPIED = (
    "src", "tests", "packages", "docs", "examples", "bench", "pyproject.toml", "README.md",
    "Makefile",
)  # fmt: skip
# what tests import of others, once, before a process is forked for each mutant
WARM = [
    "numpy", "scipy.stats", "scipy.optimize", "pytest", "_pytest.pastebin", "_pytest.unittest",
    "_pytest.junitxml", "hypothesis.extra.numpy", "xdist.plugin", "anyio.pytest_plugin", "pydantic",
    "pydantic.main", "pydantic.type_adapter", "sqlite3", "yaml", "click", "rich.console", "jinja2",
    "aiohttp", "matplotlib.figure", "starlette.applications", "uvicorn", "torch", "transformers",
]  # fmt: skip
LONG_TEST = 12.0  # processor seconds that a test may take beside those that were measured
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
        found = SIGN.search(text)
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


class Contexts:
    """Tells `coverage` which test runs, and keeps the seconds of each."""

    def __init__(self, cover: Any) -> None:
        self.cover = cover
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        # what an earlier test has cached, this one runs too
        for name, module in list(sys.modules.items()):
            for one in vars(module).values() if name.startswith("leakbound") else ():
                if hasattr(one, "cache_clear") and not isinstance(one, type):
                    one.cache_clear()
        self.cover.switch_context(item.nodeid)
        yield
        self.cover.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        spent = self.seconds.get(report.nodeid, 0.0) + report.duration
        # what fails by itself kills no mutant
        self.seconds[report.nodeid] = float("inf") if report.failed else spent


def measure(to: Path, paths: Sequence[str]) -> None:
    """Run tests once in this process, and add which run each line, and their seconds."""
    import coverage

    cover = coverage.Coverage(
        include=[str(ROOT / "src/leakbound" / part / "*") for part in CODE if "." not in part]
        + [str(ROOT / "src/leakbound" / part) for part in CODE if "." in part],
        data_file=None,
    )
    contexts = Contexts(cover)
    cover.start()
    pytest.main(["-q", "-p", "no:cacheprovider", *paths], plugins=[contexts])
    cover.stop()
    data = cover.get_data()
    known = json.loads(to.read_text()) if to.exists() else {"lines": {}, "seconds": {}}
    for lines in known["lines"].values():
        for tests in lines.values():
            tests[:] = [one for one in tests if not one.startswith(tuple(paths))]
    for file in data.measured_files():
        lines = known["lines"].setdefault(str(Path(file).relative_to(ROOT)), {})
        for line, tests in data.contexts_by_lineno(file).items():
            lines.setdefault(str(line), []).extend(filter(None, tests))
    known["seconds"].update(contexts.seconds)
    to.write_text(json.dumps(known))


def tests_of(mutant: Mutant, known: dict[str, Any]) -> list[str]:
    """Tests that run the line of a mutant, by file, the quickest first; those that run any line of
    its file, if an import runs it, or a function that caches what it gives.
    """
    lines, seconds = known["lines"].get(mutant.file, {}), known["seconds"]
    raw, inside, imported, cached = (ROOT / mutant.file).read_bytes(), mutant.line, True, False
    for node in ast.walk(ast.parse(raw)):
        if isinstance(node, ast.stmt) and node.lineno <= mutant.line <= (node.end_lineno or 0):
            inside = node.lineno  # of the innermost: it is walked last
            if isinstance(node, ast.FunctionDef):
                imported = node.body[0].lineno > mutant.line
                cached |= any("cache" in ast.dump(one) for one in node.decorator_list)
    found = set(lines.get(str(mutant.line), ()))
    for line in range(inside, mutant.line) if not found else ():
        found.update(lines.get(str(line), ()))
    if imported or cached or not found:
        found = {one for tests in lines.values() for one in tests}
    found = {one for one in found if seconds[one] < float("inf")}
    # test files of the same folder first, and then those that take least
    near, files = f"tests/{Path(mutant.file).parts[2]}/", defaultdict[str, float](float)
    for one in found:
        files[one.partition("::")[0]] += seconds[one]

    def rank(test: str) -> tuple[bool, float, str, float]:
        file = test.partition("::")[0]
        return not file.startswith(near), files[file], file, seconds[test]

    return sorted(found, key=rank)


class Chosen:
    """Runs some tests in a process that was forked for them, each within some processor time, in
    the order that was asked for, and writes the one that runs, or is the first that fails.
    """

    def __init__(self, seconds: dict[str, float], told: Path) -> None:
        self.seconds, self.order = seconds, list(seconds)
        self.told, self.failed = told, ""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if "::" in self.order[0]:
            items[:] = [one for one in items if self.named(one) in self.seconds]
            items.sort(key=lambda one: self.order.index(self.named(one)))

    def named(self, item: pytest.Item) -> str:
        """As it was asked for: with its parameters, or for all of them."""
        return item.nodeid if item.nodeid in self.seconds else item.nodeid.partition("[")[0]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        # processor time: other work does not make a loop of a test
        limit = int(
            time.process_time() + LONG_TEST + 3 * self.seconds.get(self.named(item), LONG_TEST)
        )
        resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
        self.told.write_text(json.dumps([1, item.nodeid]))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed = self.failed or report.nodeid


def run_tests(copy: Path, seconds: dict[str, float], told: Path) -> None:
    """Run tests of a copy in this process, and write how they end."""
    os.setsid()
    os.chdir(copy)
    for fd in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), fd)
    sys.path[:0] = [str(one) for one in (copy / "src", *copy.glob("packages/*/src"))]
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:3])
    chosen, code = Chosen(seconds, told), pytest.ExitCode.OK
    for file in dict.fromkeys(one.partition("::")[0] for one in seconds):
        found = pytest.main(["-x", "-q", "-p", "no:cacheprovider", file], plugins=[chosen])
        if found != pytest.ExitCode.NO_TESTS_COLLECTED:
            code = found or code
        if code:
            break
    told.write_text(json.dumps([int(code), chosen.failed]))
    os._exit(0)


def forked(copy: Path, seconds: dict[str, float]) -> tuple[int, str]:
    """Exit status of pytest, and the first test that failed or did not end."""
    told = copy / "told.json"
    told.write_text(json.dumps([1, ""]))
    context = multiprocessing.get_context("forkserver")
    process = context.Process(target=run_tests, args=(copy, seconds, told))
    process.start()
    process.join(60 + 10 * sum(seconds.values()))
    for end in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid or 0, end)  # and what a test has started
        except ProcessLookupError:
            break
        process.join(1)
    process.join()
    code, test = json.loads(told.read_text())
    return code, test


class Copy:
    """A copy of the sources in which one mutant at a time is run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sound: dict[tuple[str, ...], tuple[int, str]] = {}  # without any mutant
        self.broken: set[str] = set()
        for part in COPIED:
            (shutil.copytree if (ROOT / part).is_dir() else shutil.copy2)(
                ROOT / part, folder / part
            )

    def outcome(self, mutant: Mutant, seconds: dict[str, float]) -> tuple[str, str]:
        """`killed`, `survived` or `no test`, and the test that kills, of some in their order."""
        seconds = {test: took for test, took in seconds.items() if test not in self.broken}
        if not seconds:
            return "no test", ""
        path, raw = self.folder / mutant.file, (self.folder / mutant.file).read_bytes()
        path.write_bytes(raw[: mutant.start] + mutant.new.encode() + raw[mutant.end :])
        os.utime(path, (0, 0))  # no compiled file is of this time
        code, by = forked(self.folder, seconds)
        path.write_bytes(raw)
        shutil.copystat(ROOT / mutant.file, path)
        if code == 0:
            return "survived", ""
        again = {by: seconds.get(by, LONG_TEST)} if by else seconds
        if tuple(again) not in self.sound:
            self.sound[tuple(again)] = forked(self.folder, again)
        fails, first = self.sound[tuple(again)]
        if not fails:
            return "killed", by or "(import)"
        # a test that fails here without a mutant kills none
        self.broken.update([first] if first else seconds)
        return self.outcome(mutant, seconds)


def drawn(number: int, seed: int) -> tuple[int, list[tuple[str, Mutant]]]:
    """How many mutants there are, and those that are drawn, each with what it is known by."""
    places = [ROOT / "src/leakbound" / part for part in CODE]
    files = [p for one in places for p in ([one] if one.suffix else sorted(one.rglob("*.py")))]
    known, seen = dict[str, Mutant](), Counter[str]()
    for file in files:
        raw = file.read_bytes()
        lines = raw.decode().splitlines()
        for one in mutants_of(file):
            change = f"{raw[one.start : one.end].decode()} -> {one.new.strip()}"
            key = "\t".join((one.file, lines[one.line - 1].strip(), " ".join(change.split())))
            seen[key] += 1
            known[f"{key}\t{seen[key]}"] = one

    def rank(key: str) -> str:
        return hashlib.sha256(f"{seed}\t{key}".encode()).hexdigest()

    return len(known), [(key, known[key]) for key in sorted(known, key=rank)[:number]]


def main() -> None:
    """Draw, run and count."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--number", type=int, default=320)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--write", type=Path, help="the score, and what survives, after each")
    options.add_argument("--map", type=Path, help="of an earlier run, or where to write it")
    options.add_argument("--state", type=Path, help="outcomes of an earlier run, or where to write")
    options.add_argument("--again", choices=("survived", "all"), help="of those in the state")
    options.add_argument("--at", default="", help="only mutants at FILE[:LINE], the end of a path")
    options.add_argument("--tests", nargs="+", help="in place of those that run the line")
    options.add_argument("--longest", type=float, default=60.0,
                         help="seconds of tests for each, the quickest first")  # fmt: skip
    options.add_argument("--measure", action="store_true",
                         help="add to --map which lines --tests run")  # fmt: skip
    asked = options.parse_args()
    if asked.measure:
        measure(asked.map, asked.tests or TESTS)
        return
    os.environ |= {"PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        known = asked.map or Path(folder, "map.json")
        if not (asked.tests or known.exists()):
            environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
            subprocess.run(
                [sys.executable, __file__, "--measure", "--map", known], cwd=ROOT, check=True,
                env=environment,
            )  # fmt: skip
        counts = score(asked, {} if asked.tests else json.loads(known.read_text()), Path(folder))
    print(json.dumps(counts, indent=2))


def score(asked: argparse.Namespace, known: dict[str, Any], folder: Path) -> dict[str, object]:
    """Run what has no outcome yet, and count."""
    state = asked.state or folder / "state.jsonl"
    texts = state.read_text().splitlines() if state.exists() else []
    past = {one["key"]: one for one in map(json.loads, texts)}
    possible, sample = drawn(asked.number, asked.seed)

    def wanted(key: str, mutant: Mutant) -> bool:
        if asked.at and not re.search(rf"(^|/){asked.at}(:|$)", f"{mutant.file}:{mutant.line}"):
            return False
        old = past.get(key)
        return not old or asked.again == "all" or (bool(asked.again) and old["outcome"] != "killed")

    copies: Queue[Copy] = Queue()
    for job in range(asked.jobs):
        copies.put(Copy(folder / str(job)))
    multiprocessing.get_context("forkserver").set_forkserver_preload(WARM)

    def run(key: str, mutant: Mutant) -> None:
        by = past.get(key, {}).get("by", "")
        chosen = dict.fromkeys(asked.tests or (), LONG_TEST)
        every = [] if asked.tests else tests_of(mutant, known)
        for test in sorted(every, key=lambda one: one != by):
            took = known["seconds"][test]
            if not chosen or sum(chosen.values()) + took <= asked.longest:
                chosen[test] = took
        copy = copies.get()
        try:
            outcome, by = copy.outcome(mutant, chosen)
        finally:
            copies.put(copy)
        past[key] = {"key": key, "outcome": outcome, "by": by, "tests": len(chosen)}
        with state.open("a") as file:
            file.write(json.dumps(past[key]) + "\n")
        print(
            outcome, f"{mutant.file}:{mutant.line}", *key.split("\t")[1:3], by, sep="  ", flush=True
        )
        if asked.write:
            write(asked.write, counted())

    def counted() -> tuple[dict[str, object], list[dict[str, object]]]:
        each = Counter(past.get(key, {}).get("outcome", "not run") for key, _ in sample)
        counts = {"possible": possible, "drawn": len(sample), "seed": asked.seed}
        named = {word: each[word] for word in ("killed", "survived", "no test", "not run")}
        alive = [
            {
                "at": f"{mutant.file}:{mutant.line}", "code": key.split("\t")[1],
                "change": key.split("\t")[2],
                "outcome": past[key]["outcome"], "tests": past[key]["tests"],
            }
            for key, mutant in sorted(sample, key=lambda one: one[1])
            if past.get(key, {}).get("outcome", "killed") != "killed"
        ]  # fmt: skip
        share = round(100 * each["killed"] / max(1, len(sample) - each["not run"]), 1)
        return {**counts, **named, "score": share}, alive

    def write(to: Path, found: tuple[dict[str, object], list[dict[str, object]]]) -> None:
        to.write_text(json.dumps({"counts": found[0], "alive": found[1]}, indent=1) + "\n")

    with ThreadPoolExecutor(asked.jobs) as pool:
        for done in [pool.submit(run, *one) for one in sample if wanted(*one)]:
            done.result()
    if asked.write:
        write(asked.write, counted())
    return counted()[0]


if __name__ == "__main__":
    main()
