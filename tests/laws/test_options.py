"""One vocabulary: a name of an option means one thing in every command."""

import re
from collections import defaultdict

import click
import pytest

from leakbound.cli.main import PAGES, RENAMED, SECTIONS, group, main

NAMES = [name for section in SECTIONS.values() for name in section]
LISTS = {"--lam"}  # numbers with commas where several are compared, else one


def options(name: str) -> list[tuple[str, click.Option]]:
    found = group.get_command(click.Context(group), name)
    below = found.commands.values() if isinstance(found, click.Group) else [found]
    return [
        (flag, one)
        for command in below
        for one in command.params
        if isinstance(one, click.Option)
        for flag in one.opts
    ]


def meaning(flag: str, one: click.Option) -> tuple[str, str]:
    """What is given, and the help up to its first detail."""
    numbers = click.INT, click.FLOAT, click.IntRange, click.FloatRange
    number = one.type in numbers or isinstance(one.type, numbers[2:])
    kind = "flag" if one.is_flag else "number" if number and flag not in LISTS else "words"
    return kind, re.split(r"[,;:(\[]", one.help or "")[0].strip()


def test_a_name_has_one_meaning_in_every_command() -> None:
    found: dict[str, dict[tuple[str, str], list[str]]] = defaultdict(lambda: defaultdict(list))
    for name in NAMES:
        for flag, one in options(name):
            found[flag][meaning(flag, one)].append(name)
    several = {flag: dict(meanings) for flag, meanings in found.items() if len(meanings) > 1}
    assert several == {}
    assert len(found) > 150


def test_out_is_a_folder_and_a_page_is_html() -> None:
    heads = {flag: meaning(flag, one)[1] for name in NAMES for flag, one in options(name)}
    assert heads["--out"] == "folder to write into"
    assert heads["--html"] == "HTML page to write"
    assert heads["--save"] == "YAML file to write"


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [(name, old, new) for name, table in RENAMED.items() for old, new in table.items()],
)
def test_an_old_name_is_refused_with_the_new_one(
    name: str, old: str, new: str, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [flag for flag, _ in options(name)]
    assert new in flags
    assert old not in flags
    with pytest.raises(SystemExit) as ended:
        main([name, old, "x"])
    assert ended.value.code == 2
    assert f"{old} of leakbound {name} is now {new}." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        *(([name, "--html", "x"], f"its page: {page}.") for name, page in PAGES.items()),
        (["audit", "--report"], "always writes its page: report.html"),
        (["audit", "--format", "json"], "--json prints the result as JSON"),
        (["audit", "--json", "nowhere.json"], "it prints: --json >nowhere.json"),
        (["audit", "--output", "x"], "Did you mean '--out'?"),
        (["audit", "--config"], "requires an argument"),
    ],
)
def test_an_option_that_is_often_tried_is_refused_with_what_does_it(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert said in "".join(capsys.readouterr())
