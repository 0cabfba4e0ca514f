"""The tutorial and the page on epsilon show what their commands and code really print.

A fence with a title is a file that the reader makes, or one that a command has made. A `sh` fence
is typed, a `python` fence is run, and a `text` fence is what the last of them printed; `…` in it
stands for anything.
"""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import cli

pytestmark = pytest.mark.process

DOCS = Path(__file__).parents[2] / "docs"
FENCE = re.compile(r"^```(\w+)(?: title=\"([\w.-]+)\")?\n(.*?)^```", re.M | re.S)


def typed(code: str) -> Iterator[tuple[str, int]]:
    """Each command of a fence with the exit code that its comment states, 0 without one."""
    for line in code.replace("\\\n", " ").splitlines():
        command, _, note = line.partition("#")
        found = re.search(r"exit (\d+)", note)
        yield command.strip(), int(found[1]) if found else 0


def run(command: str, expected: int, folder: Path) -> str:
    """What a command prints on standard output."""
    program, *args = shlex.split(command)
    if program == "python":
        runpy.run_path(str(folder / args[0]), run_name="__main__")
        return ""
    assert program == "leakbound", command
    done = cli(*args, cwd=folder)
    assert done.returncode == expected, (command, done.stdout, done.stderr)
    return done.stdout


def printed(code: str) -> str:
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        exec(compile(code, "page", "exec", dont_inherit=True), {"__name__": "page"})
    return shown.getvalue()


def pattern(text: str) -> re.Pattern[str]:
    return re.compile(".*?".join(map(re.escape, text.rstrip().split("…"))), re.S)


@pytest.mark.parametrize(
    "page", [pytest.param("tutorial.md", marks=pytest.mark.slow), "epsilon.md"]
)
def test_a_page_shows_what_is_printed(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = ""
    made: set[str] = set()
    for language, title, code in FENCE.findall((DOCS / page).read_text()):
        if title and (title in made or not (tmp_path / title).exists()):
            (tmp_path / title).write_text(code)
            made.add(title)
        elif title:
            assert pattern(code).search((tmp_path / title).read_text()), title
        elif language == "sh":
            shown = "".join(run(command, exit, tmp_path) for command, exit in typed(code))
        elif language == "python":
            shown = printed(code)
        elif language == "text":
            assert pattern(code).search(shown), f"{page} shows\n{code}\nwas printed\n{shown}"
