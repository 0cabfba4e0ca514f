"""What the site asks a reader to read: how much, in how long sentences, and nothing twice."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GENERATED = {"cli.md", "catalogue.md"}  # from the help of commands and from docstrings
WORDS = 50_000
MEAN, LONGEST, RUN = 20, 40, 12
FENCE = re.compile(r"^( *)```.*?^\1```$", re.M | re.S)
COMMENT = re.compile(r"<!--.*?-->", re.S)
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
ITEM = re.compile(r"^ *(?:[-*]|\d+\.) +", re.M)
END = re.compile(r"(?<=[.!?])[\"”*)]*\s+(?=[\"“*(\[`]*[A-Zε0-9`])")
SHORT = re.compile(r"\b(?:e\.g|i\.e|vs|Fig|Sec)\.")


def listed(nav: object) -> Iterator[str]:
    """The files of the navigation."""
    if isinstance(nav, str):
        yield nav
    elif isinstance(nav, (dict, list)):
        for below in nav.values() if isinstance(nav, dict) else nav:
            yield from listed(below)


def navigation() -> list[str]:
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    return list(listed(yaml.safe_load(settings[settings.index("\nnav:") :])["nav"]))


PAGES = navigation()
BY_HAND = [page for page in PAGES if page not in GENERATED]


@cache
def text_of(page: str) -> str:
    """A page without blocks of code, comments and addresses of links."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return LINK.sub(r"\1", COMMENT.sub("", FENCE.sub("", text)))


def words(text: str) -> list[str]:
    return [word for word in text.replace("|", " ").split() if any(map(str.isalnum, word))]


@cache
def blocks(page: str) -> list[tuple[str, bool]]:
    """Headings, paragraphs, items of lists and cells of tables, and whether each is prose."""
    found: list[tuple[str, bool]] = []
    for part in re.split(r"\n\s*\n|\n(?=#)", text_of(page)):
        heading, _, rest = part.partition("\n") if part.startswith("#") else ("", "", part)
        found.append((heading, False))
        if rest.lstrip().startswith("|"):
            rows = (re.split(r"(?<!\\)\|", line) for line in rest.splitlines())
            found += [(cell, False) for row in rows for cell in row]
        else:
            found += [(one, True) for one in ITEM.split(rest)]
    return [(" ".join(text.split()), prose) for text, prose in found if words(text)]


def sentences(text: str) -> list[list[str]]:
    plain = SHORT.sub(lambda found: found[0].replace(".", ""), text)
    return [found for one in END.split(plain) if (found := words(one))]


def runs(page: str) -> Iterator[tuple[str, ...]]:
    for text, _ in blocks(page):
        plain = [re.sub(r"\W", "", word.lower()) for word in words(text)]
        yield from zip(*(plain[start:] for start in range(RUN)), strict=False)


def test_the_navigation_is_short() -> None:
    count = {page: len(words(text_of(page))) for page in PAGES}
    assert sum(count.values()) <= WORDS, sorted(count.items(), key=lambda one: -one[1])


def test_nothing_is_said_twice() -> None:
    """No twelve words in a row stand twice, on one page or on two."""
    seen: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for page in PAGES:
        for run in runs(page):
            seen[run].append(page)
    assert [(pages, " ".join(run)) for run, pages in seen.items() if len(pages) > 1] == []


@pytest.mark.parametrize("page", BY_HAND)
def test_sentences_are_short(page: str) -> None:
    found = [one for text, prose in blocks(page) if prose for one in sentences(text)]
    cells = [one for text, prose in blocks(page) if not prose for one in sentences(text)]
    assert [" ".join(one) for one in [*found, *cells] if len(one) > LONGEST] == []
    assert sum(map(len, found)) <= MEAN * len(found), sum(map(len, found)) / len(found)


def test_prose_is_read_as_a_reader_reads_it() -> None:
    text = "See [the page](a.md#b): it says `a.b`, e.g. this. Then 2 % more? (Yes.)"
    assert [len(one) for one in sentences(LINK.sub(r"\1", text))] == [8, 3, 1]
