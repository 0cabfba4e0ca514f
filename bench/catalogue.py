"""The catalogue page, from the docstrings of the code: `make catalogue` writes docs/catalogue.md.

Without a path it is printed.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leakbound.attacks import CANARIES, QUERIES, SCORES
from leakbound.estimators import ESTIMATORS
from leakbound.mechanisms import MECHANISMS, option_names

HEAD = """# Catalogue

Look up what leakbound can combine in an audit: mechanisms, queries, canaries, scores, estimators
and more, with their options and guarantees. Start with your [mechanism](#mechanisms) or, for a
system of your own, with the [queries](#queries); [Audit and plan](audit.md) shows how to choose.

A guarantee holds for the output, under the neighbouring relation that it names, and for one answer.
Anybody who sees more than the output, or several answers, learns more
([who sees what](threat-models.md)). `leakbound list` prints the first line of each entry. An
installed package can add entries ([how](extending.md#install-it-under-a-name)). `make catalogue`
generates this page from the docstrings of the code.

Sources, by their short names: CL is *ContextLeak: Auditing Leakage in Private In-Context Learning
Methods*; XL is *Tight and Practical Privacy Auditing for Differentially Private In-Context
Learning*; PoE is *Private PoEtry: Private In-Context Learning via Product of Experts*; CI is
*Estimating Privacy Leakage of Augmented Contextual Knowledge in Language Models*.
"""
PARTS = (
    (
        "Mechanisms", MECHANISMS,
        "How an answer is made from a private context: `--mechanism NAME:option=value`. Noise is "
        "calibrated to `--epsilon` and `--delta`. Each option is a key, too, such as "
        "`mechanism.partitions`."
    ),
    (
        "Canaries", CANARIES,
        "The record that is inserted or left out: `--canary NAME:option=value`. Each option is a "
        "key, too, such as `canary.digits`."
    ),
    (
        "Queries", QUERIES,
        "What the attacker sends: `--query NAME:option=value`. Each option is a key, too, such "
        "as `query.repeats`."
    ),
    (
        "Scores", SCORES,
        "How an output becomes a number, higher for members: `--score NAME`."
    ),
    (
        "Estimators", ESTIMATORS,
        "How paired trials become bounds: `--estimator NAME`. These may decide a verdict."
    ),
)  # fmt: skip
HEADING = re.compile(r"(Args|Attributes|Returns|Raises|Guarantee|Reference|Examples):\s*(.*)")
FIELD = re.compile(r" {4}(\w+): (.*)")
PROOF = re.compile(r"docs/(mechanisms/[\w\\]+\.md)")  # a page, whose underscores are escaped
SHOWN = ("Guarantee", "Reference")  # sections of a docstring; options are shown by themselves
CHOICES = ("access", "tasks", "reads")  # attributes that a reader chooses by


def page() -> str:
    """The whole page, as Markdown."""
    parts = [
        f"## {title}\n\n{about}\n\n" + _entries(catalogue) for title, catalogue, about in PARTS
    ]
    return HEAD + "\n" + "\n\n".join(parts) + "\n"


def _entries(catalogue: Mapping[str, Any]) -> str:
    return "\n\n".join(
        _entry(name, kind)
        for name, kind in catalogue.items()
        if kind.__module__.startswith("leakbound.")
    )


def _entry(name: str, kind: Any) -> str:
    found = _sections(inspect.getdoc(kind) or "")
    notes = [
        *(f"{title}: {_line(found[title])}" for title in SHOWN if title in found),
        *(f"{title.capitalize()}: {text}." for title in CHOICES if (text := _choice(kind, title))),
        *_options(kind, found.get("Attributes", [])),
    ]
    text = "\n".join(_escaped(line) for line in found[""]).strip()
    listed = "\n".join(f"- {note}" for note in notes)
    return "\n\n".join(part for part in (f"### {name}", text, listed) if part)


def _sections(text: str) -> dict[str, list[str]]:
    """Lines of a docstring by the heading of their section; "" for those before the first."""
    found: dict[str, list[str]] = {"": []}
    title = ""
    for line in text.splitlines():
        if heading := HEADING.fullmatch(line):
            title = heading[1]
            found[title] = [heading[2]] if heading[2] else []
        else:
            found[title].append(line)
    return found


def _line(lines: list[str]) -> str:
    return _escaped(" ".join(" ".join(lines).split()))


def _choice(kind: Any, name: str) -> str:
    value = inspect.getattr_static(kind, name, "")
    if isinstance(value, property):
        return "by its options"
    value = getattr(kind, name, "")
    return value if isinstance(value, str) else ", ".join(sorted(value))


def _options(kind: Any, attributes: list[str]) -> list[str]:
    """A line for each option: its default, and what it means."""
    mechanism = kind in MECHANISMS.values()
    make = getattr(kind, "calibrated", kind) if mechanism else kind
    known = inspect.signature(make).parameters
    arguments = _sections(inspect.getdoc(make) or "").get("Args", [])
    texts = {**_fields(attributes), **_fields(arguments)}
    return [
        f"`{name}`{_default(known[name].default)}: {_escaped(texts[name])}"
        for name in (option_names(kind) if mechanism else known)
    ]


def _default(default: Any) -> str:
    shown = isinstance(default, int | float | str | bool) and default != ""
    return f" (default `{default}`)" if shown and len(str(default)) < 40 else ""


def _fields(lines: list[str]) -> dict[str, str]:
    """What a section says of each name."""
    found: dict[str, str] = {}
    name = ""
    for line in lines:
        if match := FIELD.fullmatch(line):
            name = match[1]
            found[name] = match[2]
        elif name and line.strip():
            found[name] += " " + line.strip()
    return found


def _escaped(line: str) -> str:
    """Markdown that shows the line as it is; `code` stays code."""
    words = re.split(r"(`[^`]*`)", line)
    text = "".join(w if w.startswith("`") else re.sub(r"([*_<>|\[\]])", r"\\\1", w) for w in words)
    return PROOF.sub(lambda found: f"[{found[1]}]({found[1].replace(chr(92), '')})", text)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(page(), encoding="utf-8")
    else:
        print(page(), end="")
