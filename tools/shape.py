"""The shape of the sources in one table, and a ratchet: no figure may grow past tools/shape.json.

    python tools/shape.py [--walk] [--write]

--walk also measures the walks of tools/walk.py, which takes a minute. --write sets the limits to
what was measured, where it is smaller.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import keyword
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import combinations
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[1]
SOURCES = [ROOT / "src", *sorted((ROOT / "packages").glob("*/src"))]
LIMITS = Path(__file__).with_name("shape.json")
Function = ast.FunctionDef | ast.AsyncFunctionDef
RUN_LINES, RUN_TOKENS = 6, 60  # a repeat has as many lines, or as many tokens
COMMON = 8  # a run that stands in more places than this is a common phrase
# first words of names that end like participles, and are none
NOUNS = {"seed", "need", "feed", "embed", "speed", "red", "string", "setting", "sibling", "ring"}
IRREGULAR = {
    "told", "drawn", "learnt", "kept", "given", "made", "taken", "found", "held", "left", "said",
    "shown", "seen", "known", "written", "chosen", "spent", "sent", "built", "cut", "lost", "met",
    "begun", "done", "gone", "worn", "split", "put", "read",
}  # fmt: skip


def files() -> dict[str, ast.Module]:
    """Syntax trees by the name of the module."""
    return {name: ast.parse(path.read_text()) for name, path in paths().items()}


@cache
def paths() -> dict[str, Path]:
    return {
        ".".join(path.relative_to(source).with_suffix("").parts): path
        for source in SOURCES
        for path in sorted(source.rglob("*.py"))
    }


def path_of(module: str) -> Path:
    return paths()[module]


def functions(tree: ast.Module) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def length(node: ast.stmt) -> int:
    return (node.end_lineno or 0) - node.lineno + 1


def body_length(node: Function) -> int:
    """Lines of a function without its docstring."""
    rest = [one for one in node.body if not is_text(one)]
    return (node.end_lineno or 0) - rest[0].lineno + 1 if rest else 0


def docstrings(tree: ast.Module) -> list[ast.stmt]:
    kinds = Function | ast.ClassDef | ast.Module
    scopes = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    return [one.body[0] for one in scopes if one.body and is_text(one.body[0])]


def imports(module: str, tree: ast.Module, known: set[str]) -> set[str]:
    """Modules of this package that a module names in its imports."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{one.name}" for one in node.names} | {node.module}
    found = {one if one in known else f"{one}.__init__" for one in found}
    return (found & known) - {module}


def circles(arrows: dict[str, set[str]]) -> int:
    """Strongly connected components of two and more modules (Tarjan), faces left out."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = 0

    def visit(at: str) -> None:
        nonlocal found
        order[at] = low[at] = len(order)
        stack.append(at)
        for other in sorted(arrows[at]):
            if other not in order:
                visit(other)
                low[at] = min(low[at], low[other])
            elif other in stack:
                low[at] = min(low[at], order[other])
        if low[at] == order[at]:
            size = len(stack) - stack.index(at)
            del stack[-size:]
            found += size > 1

    for one in arrows:
        if one not in order:
            visit(one)
    return found


def code_lines(text: str) -> list[tuple[int, list[str]]]:
    """Tokens of each logical line that is no import, docstring or comment."""
    skip = {tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING}
    lines: list[tuple[int, list[str]]] = []
    now: list[str] = []
    first = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NEWLINE:
            plain = len(now) == 1 and now[0] == "''"
            if now and now[0] not in {"import", "from"} and not plain:
                lines.append((first, now))
            now = []
        elif token.type not in skip:
            first = first if now else token.start[0]
            kinds = {tokenize.STRING: "''", tokenize.NUMBER: "0"}
            now.append(kinds.get(token.type, token.string))
    return lines


def alike(tokens: list[str]) -> str:
    """Tokens with each name replaced by the place where it first stands."""
    names: dict[str, str] = {}
    return " ".join(
        names.setdefault(one, f"n{len(names)}")
        if one.isidentifier() and not keyword.iskeyword(one)
        else one
        for one in tokens
    )


def repeats(trees: dict[str, ast.Module]) -> int:
    """Pairs of places that are equal after renaming, each pair of long runs counted once."""
    places = defaultdict(list)
    for module in trees:
        lines = code_lines(path_of(module).read_text())
        for i in range(len(lines)):
            run: list[str] = []
            for j in range(i, min(len(lines), i + RUN_LINES)):
                run += lines[j][1]
                if j - i + 1 == RUN_LINES or len(run) >= RUN_TOKENS:
                    places[alike(run)].append((module, i))
                    break
    shared = set()
    for where in places.values():
        if 1 < len(where) <= COMMON:
            shared |= {
                (*a, *b) for a, b in combinations(where, 2) if a[0] != b[0] or b[1] - a[1] > 5
            }
    return sum((a, i - 1, b, j - 1) not in shared for a, i, b, j in shared)


def is_participle(name: str) -> bool:
    first = name.strip("_").split("_")[0]
    return first in IRREGULAR or (first.endswith(("ed", "ing")) and first not in NOUNS)


def measure() -> dict[str, int]:
    """The figures by name."""
    trees = files()
    texts = {module: path_of(module).read_text() for module in trees}
    lines = Counter({module: len(text.splitlines()) for module, text in texts.items()})
    sizes = [body_length(one) for tree in trees.values() for one in functions(tree)]
    names = [one.name for tree in trees.values() for one in tree.body if isinstance(one, Function)]
    arrows = {module: imports(module, tree, set(trees)) for module, tree in trees.items()}
    plain = {
        module: {one for one in found if not one.endswith("__init__")}
        for module, found in arrows.items()
        if not module.endswith("__init__")
    }
    importers = Counter(one for found in arrows.values() for one in found)
    classes = [
        node.name
        for tree in trees.values()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    private = [
        one
        for tree in trees.values()
        for one in functions(tree)
        if one.name.startswith("_") and not one.name.startswith("__")
    ]
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    used = Counter(node.id for node in nodes if isinstance(node, ast.Name))
    used.update(node.attr for node in nodes if isinstance(node, ast.Attribute))
    once = [one for one in private if used[one.name] == 1]
    faces = [module for module, text in texts.items() if "\n__all__ = " in text]
    folders = Counter(path_of(module).parent for module in trees)
    return {
        "lines": lines.total(),
        "lines of the core": sum(lines[one] for one in trees if one.startswith("leakbound.")),
        "lines of docstrings": sum(
            length(one) for tree in trees.values() for one in docstrings(tree)
        ),
        "files": len(trees),
        "functions": len(sizes),
        "lines of the longest file": max(lines.values()),
        "lines of the longest function": max(sizes),
        "files in one folder": max(folders.values()),
        "modules with one importer": sum(
            importers[one] == 1 for one in trees if not one.endswith("__init__")
        ),
        "private functions called once": len(once),
        "of these with 3 lines or fewer": sum(body_length(one) <= 3 for one in once),
        "pairs of repeated places": repeats(trees),
        "circles of modules": circles(plain),
        "public classes": len(classes),
        "modules with __all__": len(faces),
        "names of functions that are participles": sum(map(is_participle, names)),
        "options of audit": options_of_audit(),
        "statements kept from the formatter": sum(
            one.count("# fmt: skip") for one in texts.values()
        ),
    }


def options_of_audit() -> int:
    """Options of `leakbound audit`, without --help."""
    sys.path.insert(0, str(SOURCES[0]))
    from leakbound.cli.verbs.audit.audit import command

    return sum(not isinstance(one, click.Argument) for one in command.params)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--walk", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    found = measure()
    if options.walk:
        from walk import CASES, walk

        for name, case in CASES.items():
            way = walk(*case)
            found |= {f"walk of {name}: {key}": getattr(way, key) for key in way._fields[:4]}
    limits = json.loads(LIMITS.read_text()) if LIMITS.exists() else {}
    for name, value in found.items():
        limit = limits.get(name)
        print(
            f"{value:>7,}  {name}"
            + (f"  (at most {limit:,})" if limit not in (None, value) else "")
        )
    if options.write:
        least = {name: min(value, limits.get(name, value)) for name, value in found.items()}
        LIMITS.write_text(json.dumps({**limits, **least}, indent=2) + "\n")
    elif grown := [name for name, value in found.items() if value > limits.get(name, value)]:
        sys.exit(f"Grown: {', '.join(grown)}. Delete as much elsewhere; the limits only go down.")


if __name__ == "__main__":
    main()
