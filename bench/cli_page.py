"""The reference of the command line, from the commands themselves: `make catalogue` writes
docs/cli.md.

Without a path it is printed.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import click

from leakbound.cli.main import EXIT_CODES, SECTIONS, group
from leakbound.cli.screen.help_pages import OWN, Option, SectionedCommand

HEAD = """# Commands

Look up a command or an option of leakbound here. If you are new, start with the
[tutorial](tutorial.md), or run [`leakbound init`](#leakbound-init) on your own rows. Options that
several commands share are listed [at the end](#shared-options). `make catalogue` generates this
page from the commands themselves.

{index}

Every command accepts these:

| option | meaning |
| --- | --- |
| `--json` | one JSON value instead of text: verdicts, counts, and the files that it wrote |
| `-q`, `--quiet` | errors and warnings only |
| `-v`, `--verbose` | all sentences, and version and options on standard error |
| `-h`, `--help` | the options that matter first; `--help-all` shows all of them |

Your shell completes commands and options once its configuration file holds one of these lines:

```text
eval "$(_LEAKBOUND_COMPLETE=bash_source leakbound)"          # ~/.bashrc
eval "$(_LEAKBOUND_COMPLETE=zsh_source leakbound)"           # ~/.zshrc
_LEAKBOUND_COMPLETE=fish_source leakbound | source           # ~/.config/fish/config.fish
```

{codes}
"""
SHARED = """## Shared options

A [configuration file](audit.md#settings) takes the same settings as keys: `--shots 8` is
`shots: 8`. The [catalogue](catalogue.md) explains the options of each component.
"""
LONG = 9  # words of an option that several commands have, and that is listed once
OTHERS = "Other options"  # of several commands, under no heading of their own
FEW_GROUPS = 3
LISTED = {  # components, by the part of the catalogue that lists them
    "mechanism": "mechanisms", "query": "queries", "canary": "canaries", "score": "scores",
}  # fmt: skip
EVERYWHERE = {"--json", "--quiet", "--verbose", "--help", "--help-all"}
FLAG = re.compile(r"(?<![\w`/-])(--?[a-z][a-z-]*)")
DEFAULT = re.compile(r"\s*\[(?:(default: )([^\]]*)|(required))\]")
FEW = re.compile(r"^\[(.*\|.*)\]$")  # a metavar that lists the values


@dataclass(frozen=True)
class Row:
    """A line of a table of options."""

    section: str
    flag: str
    text: str
    default: str

    def line(self) -> str:
        return f"| {self.flag} | {self.text} | {self.default} |"


def page() -> str:
    """The whole page, as Markdown."""
    found = {name: dict(commands_of(name)) for section in SECTIONS.values() for name in section}
    rows = {n: list(rows_of(n, one)) for each in found.values() for n, one in each.items()}
    owners = shared(rows)
    parts = [
        part
        for title, section in SECTIONS.items()
        for part in (
            f"## {title}",
            *(entry(n, one, rows[n], owners) for name in section for n, one in found[name].items()),
        )
    ]
    head = HEAD.format(index=index(), codes=codes())
    return head + "\n" + "\n\n".join([*parts, SHARED + "\n" + together(owners)]) + "\n"


def commands_of(name: str) -> Iterable[tuple[str, click.Command]]:
    """A command and those below it, by their whole names."""
    found = group.get_command(click.Context(group), name)
    assert found is not None
    yield name, found
    if isinstance(found, click.Group):
        context = click.Context(found)
        for below in found.list_commands(context):
            command = found.get_command(context, below)
            assert command is not None
            yield f"{name} {below}", command


def index() -> str:
    lines = [f"| [`{n}`](#leakbound-{n}) | {escaped(text)} |"
             for section in SECTIONS.values() for n, text in section.items()]  # fmt: skip
    return "| command | what it does |\n| --- | --- |\n" + "\n".join(lines)


def codes() -> str:
    listed = EXIT_CODES.removeprefix("Exit codes: ").rstrip(".")
    pairs = (one.split(" ", 1) for one in re.split(r", (?=\d)", listed))
    return "| exit code | meaning |\n| --- | --- |\n" + "\n".join(
        f"| {code} | {text} |" for code, text in pairs
    )


def rows_of(name: str, command: click.Command) -> Iterable[Row]:
    """The options of a command, without those that all have."""
    context = click.Context(command, info_name=name)
    for param in command.params:
        if isinstance(param, click.Option) and not EVERYWHERE & set(param.opts):
            yield row(param, context)


def row(param: click.Option, context: click.Context) -> Row:
    record = param.get_help_record(context)
    written, text = record if record is not None else ("", "")
    default = DEFAULT.search(text)
    text, values = DEFAULT.sub("", text), list(choices(param))
    flag, _, metavar = written.partition(" ")
    if param.name in LISTED and values:
        text = f"{text}; see CATALOGUE"
    elif values:
        text += f"; one of {', '.join(values)}"
    elif metavar:
        written = f"{flag} {metavar}"
    shown = f"`{flag if values else written}`".replace("|", " or ")
    section = param.section if isinstance(param, Option) else OWN
    link = f"the [catalogue](catalogue.md#{LISTED.get(param.name or '')})"
    text = escaped(text).replace("CATALOGUE", link)
    return Row(section, shown.replace(" / ", "` / `"), text, default_of(default))


def choices(param: click.Option) -> Iterable[str]:
    listed: Iterable[object] = ()
    if isinstance(param, Option) and param.choices:
        listed = param.choices()
    elif isinstance(param.type, click.Choice):
        listed = param.type.choices
    elif found := FEW.match(param.metavar or ""):
        listed = found[1].split("|")
    return (f"`{one}`" for one in listed)


def default_of(found: re.Match[str] | None) -> str:
    if found is None or found[2] == "False":
        return ""
    value = found[3] or found[2]
    return escaped(value) if found[3] or " " in value else f"`{value}`"


def shared(rows: dict[str, list[Row]]) -> dict[Row, tuple[str, ...]]:
    """Commands of each option under a heading that several commands have."""
    found: dict[Row, list[str]] = defaultdict(list)
    for name, listed in rows.items():
        for one in listed:
            found[one].append(name)
    return {
        one: tuple(names) for one, names in found.items()
        if len(names) > 1 and (one.section != OWN or len(one.text.split()) >= LONG)
    }  # fmt: skip


def entry(
    name: str, command: click.Command, rows: list[Row], owners: dict[Row, tuple[str, ...]]
) -> str:
    """A command: what it does, examples, its own options, and which others it shares."""
    context = click.Context(command, info_name=f"leakbound {name}")
    usage = " ".join([f"leakbound {name}", *command.collect_usage_pieces(context)])
    about = escaped(inspect.cleandoc(command.help or "").replace("\f", ""))
    examples = command.examples if isinstance(command, SectionedCommand) else ()
    typed = "\n".join([usage, "", *(f"leakbound {name} {one}" for one in examples if one)])
    own = [one for one in rows if one not in owners]
    others = dict.fromkeys(heading(one) for one in rows if one in owners)
    links = ", ".join(f"[{title.lower()}](#{anchor(title)})" for title in others)
    if len(others) > FEW_GROUPS:
        links = "[all groups that name this command](#shared-options)"
    parts = [f"### leakbound {name}", about, f"```text\n{typed.strip()}\n```", table(own)]
    return "\n\n".join(part for part in [*parts, links and f"Shared options: {links}."] if part)


def together(owners: dict[Row, tuple[str, ...]]) -> str:
    """Shared options by heading, then by the commands that take them."""
    parts: list[str] = []
    for section in dict.fromkeys(heading(one) for one in owners):
        parts.append(f"### {section}")
        rows = {one: names for one, names in owners.items() if heading(one) == section}
        for names in dict.fromkeys(rows.values()):
            verbs = ", ".join(f"`{name}`" for name in names)
            parts += [f"Of {verbs}:", table([one for one, by in rows.items() if by == names])]
    return "\n\n".join(parts)


def table(rows: list[Row]) -> str:
    head = "| option | meaning | default |\n| --- | --- | --- |\n"
    return head + "\n".join(one.line() for one in rows) if rows else ""


def heading(row: Row) -> str:
    return OTHERS if row.section == OWN else row.section


def anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


def escaped(text: str) -> str:
    """Markdown that shows the text as it is, with flags as code."""
    words = re.split(r"(`[^`]*`)", text)
    return "".join(
        w if w.startswith("`") else FLAG.sub(r"`\1`", re.sub(r"([*_<>|\[\]])", r"\\\1", w))
        for w in words
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(page(), encoding="utf-8")
    else:
        print(page(), end="")
