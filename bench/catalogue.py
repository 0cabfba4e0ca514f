"""The catalogue page, from the docstrings of the code:

`make catalogue` writes docs/catalogue.md. Without a path it is printed.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leakbound.attacks import CANARIES, QUERIES, SCORES
from leakbound.mechanisms import MECHANISMS

HEAD = """# Catalogue

Written by `make catalogue` from the docstrings of the code; `leakbound list` prints the first \
line of each. A guarantee stands here as its
mechanism states it: it holds for what is released, under the neighbouring relation it names, and \
for one answer. Whoever sees more than the
release, or several answers, learns more ([who sees what](threat-models.md)).

Sources, by their short names: CL is *ContextLeak: Auditing Leakage in Private In-Context Learning \
Methods*; XL is *Tight and Practical Privacy
Auditing for Differentially Private In-Context Learning*; PoE is *Private PoEtry: Private \
In-Context Learning via Product of Experts*; CI is *Estimating
Privacy Leakage of Augmented Contextual Knowledge in Language Models*.
"""
PARTS = (
    (
        "Mechanisms", MECHANISMS,
        (
            "How an answer is made from a private context: `--mechanism NAME`. Settings without a "
            "flag of their own: `--option NAME=VALUE`."
        ),
    ),
    ("Canaries", CANARIES, "The record that is put in or left out: `--canary NAME`."),
    ("Queries", QUERIES, "What the attacker sends: `--attack NAME`."),
    ("Scores", SCORES,
     "How a release is turned into a number, higher for members: `--score NAME`."),
)  # fmt: skip

# Sections of a docstring in Google style: what the page leaves out, lists, and prints in bold.
SKIPPED = ("Raises", "Examples", "Args", "Returns")
LISTED = ("Attributes",)
BOLD = ("Guarantee", "Reference")


def page() -> str:
    """The whole page, as Markdown."""
    parts = [
        f"## {title}\n\n{about}\n\n" + _entries(catalogue) for title, catalogue, about in PARTS
    ]
    return HEAD + "\n" + "\n\n".join(parts) + "\n"


def _entries(catalogue: Mapping[str, Any]) -> str:
    return "\n\n".join(_entry(name, kind) for name, kind in catalogue.items())


def _entry(name: str, kind: Any) -> str:
    return "\n\n".join([f"### {name}", *_paragraphs(inspect.getdoc(kind) or ""), *_notes(kind)])


def _paragraphs(text: str) -> list[str]:
    """A docstring in Google style as Markdown: attributes as a list, guarantee in bold."""
    found = []
    for block in re.split(r"\n\n+", text):
        title, _, body = block.partition(":\n")
        if title in SKIPPED:
            continue
        lines = inspect.cleandoc(body).splitlines()
        if title in LISTED:
            found.append("\n".join(_item(line) for line in lines))
        elif title in BOLD:
            found.append(f"**{title}.** " + "\n".join(map(_escaped, lines)))
        else:
            found.append("\n".join(map(_escaped, block.splitlines())))
    return found


def _item(line: str) -> str:
    """`name: what` as an item; a line that goes on is indented."""
    name, colon, what = line.partition(": ")
    goes_on = line.startswith(" ") or not colon
    return f"  {_escaped(line.strip())}" if goes_on else f"- `{name}`: {_escaped(what)}"


def _notes(kind: Any) -> list[str]:
    """Who may use it, and what can be set."""
    facts = {
        "Access": _access(kind),
        "Tasks": getattr(kind, "tasks", ""),
        "Settings": _settings(kind),
    }
    told = [f"{key}: {value}." for key, value in facts.items() if value]
    return ["\n".join(f"- {line}" for line in told)] if told else []


def _access(kind: Any) -> str:
    access = getattr(kind, "access", "")
    if isinstance(access, property):
        return "by its options"
    return access if isinstance(access, str) else ", ".join(sorted(access))


def _settings(kind: Any) -> str:
    """Of a mechanism; settings of an attack have flags, which `leakbound audit --help` lists."""
    if kind not in MECHANISMS.values():
        return ""
    made = inspect.signature(getattr(kind, "calibrated", kind)).parameters.values()
    return ", ".join(
        f"`{p.name}`" + (f" = {p.default!r}" if _plain(p.default) else "") for p in made
    )


def _plain(default: Any) -> bool:
    return isinstance(default, int | float | str | bool)


def _escaped(line: str) -> str:
    """Markdown that shows the line as it is; `code` stays code."""
    words = re.split(r"(`[^`]*`)", line)
    return "".join(w if w.startswith("`") else re.sub(r"([*_<>|\[\]])", r"\\\1", w) for w in words)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(page())
    else:
        print(page(), end="")
