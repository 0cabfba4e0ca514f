"""A hook of the site (mkdocs.yml): llms.txt lists all pages with a sentence on each, each page
stands beside its HTML as Markdown, and the header shows the version.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from leakbound import __version__

LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
FENCE = re.compile(r"^```.*?^```$", re.M | re.S)
SENTENCE = re.compile(r".+?(?:[.?](?=\s|$)|$)", re.S)
MADE = re.compile(r"(Written by|This page is made)")  # how a page is made, not what it is about
TITLE = re.compile(r"^# (.+)$", re.M)
OUTSIDE = "Measured tables, proofs, and pages made from the code"
HEAD = """# leakbound

> {about}.

leakbound inserts a recognisable record (a canary) into the private context of an LLM application,
or leaves it out, compares the answers, and states a lower bound on ε with its confidence. "No
violation" means that a claim was not rejected; it is no certificate.
"""


def on_config(config: Any) -> None:
    """Show the version beside the name."""
    config["site_name"] += f" {__version__}"


def on_post_build(config: Any) -> None:
    """Write llms.txt and the pages as Markdown into the built site."""
    source, site = Path(config["docs_dir"]), Path(config["site_dir"])
    for page in source.rglob("*.md"):
        copy = site / page.relative_to(source)
        copy.write_text(page.read_text(encoding="utf-8"), encoding="utf-8")
    text = index(config["nav"], source, config["site_description"])
    (site / "llms.txt").write_text(text, encoding="utf-8")


def index(nav: list[Any], source: Path, about: str) -> str:
    """The text of llms.txt.

    Args:
        nav: The navigation of mkdocs.yml.
        source: Folder of the pages.
        about: What the project is.
    """
    top = [one for one in nav if isinstance(next(iter(one.values())), str)]
    parts = [("Start here", list(pages(top)))]
    parts += [(t, list(pages(sub))) for one in nav for t, sub in one.items() if one not in top]
    parts.append((OUTSIDE, list(others(nav, source))))
    listed = [
        f"## {title}\n\n" + "\n".join(f"- [{t}]({file}): {line(source / file)}" for t, file in part)
        for title, part in parts
    ]
    return HEAD.format(about=about) + "\n" + "\n\n".join(listed) + "\n"


def pages(nav: Iterable[Any]) -> Iterable[tuple[str, str]]:
    """Title and file of every page, in the order of the navigation."""
    for one in nav:
        for title, below in one.items():
            if isinstance(below, str):
                yield title, below
            else:
                yield from pages(below)


def others(nav: list[Any], source: Path) -> Iterable[tuple[str, str]]:
    """Title and file of the pages that are not in the navigation."""
    listed = {file for _, file in pages(nav)}
    for page in sorted(source.rglob("*.md")):
        file = page.relative_to(source).as_posix()
        if file not in listed:
            yield TITLE.findall(page.read_text(encoding="utf-8"))[0], file


def line(page: Path) -> str:
    """The first sentence of a page about its subject, without links."""
    text = FENCE.sub("", page.read_text(encoding="utf-8")).split("\n\n")
    prose = (part for part in text if part[:1].isalpha() or part[:1] in {"*", "`", "["})
    plain = (" ".join(LINK.sub(r"\1", part).replace("**", "").split()) for part in prose)
    sentences = (found[0] for part in plain for found in SENTENCE.finditer(part))
    return next(one.strip() for one in sentences if not MADE.match(one.strip()))
