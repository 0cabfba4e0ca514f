"""The catalogue page, from the docstrings of the code: `make catalogue` writes docs/catalogue.md.

Without a path it is printed.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections import Counter
from collections.abc import Mapping, Set
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

| short name | source |
| --- | --- |
| CL | *ContextLeak: Auditing Leakage in Private In-Context Learning Methods* |
| XL | *Tight and Practical Privacy Auditing for Differentially Private In-Context Learning* |
| PoE | *Private PoEtry: Private In-Context Learning via Product of Experts* |
| CI | *Estimating Privacy Leakage of Augmented Contextual Knowledge in Language Models* |
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
OURS = "leakbound."  # other packages are listed where they are installed
LONG = 6  # words of an option that several entries have, and that is explained once
Option = tuple[str, str, str]  # name, default, meaning
CHOICES = ("access", "tasks", "reads")  # attributes that a reader chooses by


def page() -> str:
    """The whole page, as Markdown."""
    return HEAD + "\n" + "\n\n".join(_part(*part) for part in PARTS) + "\n"


def _part(title: str, catalogue: Mapping[str, Any], about: str) -> str:
    """A catalogue; options that say the same in several entries are explained before them."""
    kinds = {name: kind for name, kind in catalogue.items() if kind.__module__.startswith(OURS)}
    counts = Counter(one for kind in kinds.values() for one in _options(kind))
    shared = {one for one, times in counts.items() if times > 1 and len(one[2].split()) >= LONG}
    common = "\n".join(
        f"- `{name}`: {text}" for name, _, text in counts if (name, _, text) in shared
    )
    parts = [f"## {title}", about]
    if common:
        parts += ["Options of several:", common]
    return "\n\n".join([*parts, *(_entry(name, kind, shared) for name, kind in kinds.items())])


def _entry(name: str, kind: Any, shared: Set[Option]) -> str:
    found = _sections(inspect.getdoc(kind) or "")
    notes = [
        *(f"{title}: {_line(found[title])}" for title in SHOWN if title in found),
        *(f"{title.capitalize()}: {text}." for title in CHOICES if (text := _choice(kind, title))),
        *(
            f"`{option}`{default}" + ("" if one in shared else f": {text}")
            for one in _options(kind) for option, default, text in [one]
        ),
    ]  # fmt: skip
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


def _options(kind: Any) -> list[Option]:
    """Each option: its name, its default, and what it means."""
    attributes = _sections(inspect.getdoc(kind) or "").get("Attributes", [])
    mechanism = kind in MECHANISMS.values()
    make = getattr(kind, "calibrated", kind) if mechanism else kind
    known = inspect.signature(make).parameters
    arguments = _sections(inspect.getdoc(make) or "").get("Args", [])
    texts = {**_fields(attributes), **_fields(arguments)}
    return [
        (name, _default(known[name].default), _escaped(texts[name]))
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
