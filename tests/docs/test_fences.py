"""What README and docs tell a reader to type is typed here, page by page, in a folder with private
rows and the examples.
"""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import click
import pytest
from commands import cli

from leakbound.cli.main import group

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
# By tests/conformance/test_selftest.py and tests/reproduce/test_recipes.py, which are slow.
RUN_ELSEWHERE = {"leakbound selftest", "leakbound reproduce poetry/fig3 --quick"}
WITH_STATE = re.compile(r"--(out|cache|ledger|replay|config|data)\b")
SHOWN = {
    "tutorial.md",
    "epsilon.md",
}  # test_shown_outputs.py runs them and compares what they print
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES += sorted((ROOT / "docs" / "measured").glob("*.md"))
PAGES = [page for page in PAGES if page.name not in SHOWN]


def fences(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), flags=re.M | re.S)


def with_fences(language: str) -> list[Path]:
    return [page for page in PAGES if fences(page, language)]


def commands(page: Path) -> list[tuple[str, str]]:
    """Each command line of a page, and the comment behind it."""
    lines = "".join(fences(page, "sh")).replace("\\\n", " ").splitlines()
    return [(one[0].strip(), one[2]) for one in (line.partition("#") for line in lines)]


def typed_before(command: str, page: Path) -> bool:
    """On an earlier page, where it began with the same files."""
    earlier = PAGES[: PAGES.index(page)]
    return not WITH_STATE.search(command) and any(
        command == one for other in earlier for one, _ in commands(other)
    )


# Pages whose fences take long are slow tests, which CI runs.
LONG_PYTHON = {"README.md", "audit.md", "extending.md", "rag.md", "runs.md"}
LONG_COMMANDS = {
    *("README.md", "audit.md", "bounds.md", "endpoints.md", "gates.md", "influence.md"),
    *("rag.md", "runs.md", "systems.md"),
}
# Of README, audits of the bundled model on rows of a file take most of the time.
LONG_AUDIT = re.compile(r"leakbound audit --data (?!.*--stop-when-rejected)")


def marked(kind: str, slow: set[str]) -> list[Any]:
    return [
        pytest.param(page, marks=pytest.mark.slow) if page.name in slow else page
        for page in with_fences(kind)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("page", marked("python", LONG_PYTHON), ids=lambda page: page.name)
def test_python_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for code in fences(page, "python"):
        run_python(code)


def test_the_first_python_of_the_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_python(fences(ROOT / "README.md", "python")[0])


def run_python(code: str) -> None:
    exec(compile(code, "page", "exec", dont_inherit=True), {"__name__": "readme"})


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("page", marked("sh", LONG_COMMANDS), ids=lambda page: page.name)
def test_commands_run(page: Path, tmp_path: Path, data_file: Path) -> None:
    """`make` targets exist; `leakbound` commands end as the fence says (a comment `# exit N`)."""
    typed(commands(page), page, tmp_path, data_file)


@pytest.mark.slow
@pytest.mark.torch
def test_short_commands_of_the_readme_run(tmp_path: Path, data_file: Path) -> None:
    page = ROOT / "README.md"
    short = [one for one in commands(page) if not LONG_AUDIT.match(one[0])]
    assert 0 < len(short) < len(commands(page))
    typed(short, page, tmp_path, data_file)


def typed(lines: list[tuple[str, str]], page: Path, tmp_path: Path, data_file: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.M))
    shutil.copy(data_file, tmp_path / "private.jsonl")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for command, note in lines:
        if command.startswith("make "):
            assert command.split()[1] in targets, command
        elif command in RUN_ELSEWHERE or typed_before(command, page):
            continue
        elif command.startswith("leakbound "):
            done = cli(*shlex.split(command)[1:], cwd=tmp_path)
            expected = int(match[1]) if (match := re.search(r"exit (\d+)", note)) else 0
            assert done.returncode == expected, (command, done.stdout, done.stderr)


@pytest.mark.parametrize("page", with_fences("sh"), ids=lambda page: page.name)
def test_commands_name_verbs_and_options_that_there_are(page: Path) -> None:
    for command, _ in commands(page):
        if command.startswith("leakbound "):
            words = shlex.split(command)[1:]
            found: click.Command | None = group
            while isinstance(found, click.Group):
                found = found.get_command(click.Context(found), words.pop(0))
            assert found is not None, command
            options = {name for one in found.params for name in (*one.opts, *one.secondary_opts)}
            given = [word.partition("=")[0] for word in words if word.startswith("--")]
            assert [one for one in given if one not in options] == [], command


@pytest.mark.torch
def test_the_audit_that_the_architecture_follows_can_be_typed(data_file: Path) -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text()
    found = re.findall("^`leakbound audit (.+)`$", page, flags=re.M)
    assert [cli("plan", *shlex.split(one), cwd=data_file.parent).returncode for one in found] == [0]
