"""A result on one screen: a headline with its mark and exit code, and lines of name and text."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from leakbound.auditing.result.sentences import odds_beside
from leakbound.stats import beside

if TYPE_CHECKING:
    from rich.text import Text

WIDTH = 80  # columns, where the screen has them
NAMES = 20  # of these for the names of rows
LEAST = 32  # where a screen is narrower, lines break as its terminal likes
MOST = 7  # lines
STEPS = ("next", "then")  # rows that are to be followed, or copied
SIGNS = {"violation": "✗", "no_violation": "✓", "passed": "✓", "inconclusive": "?", "": "·"}
GRAVEST = ("violation", "inconclusive", "failed", "no_violation")  # of runs that share a mark
STYLES = {"✗": "bold red", "✓": "bold green", "?": "bold yellow"}
DEFAULT = "default; state yours: --epsilon"


def lay_out(
    headline: str, rows: Iterable[tuple[str, str]], last: str, *, code: int | None = None,
    width: int = WIDTH,
) -> str:  # fmt: skip
    """At most seven lines of full width: the longest texts, but no steps, lose what is more."""
    width = max(LEAST, min(width, WIDTH))
    room = WIDTH if code is None else WIDTH - len(f"  exit {code}")
    if width == WIDTH:
        headline = _shorten(headline, room)
    filled = [_head(headline, code, width), *(_row(*row, width) for row in rows if row[1])]
    lines = [one.splitlines() for one in (*filled, _fill(last, width, "   ", "   "))]
    texts = [one for one in lines if not one[0].strip().startswith(STEPS)]
    while width == WIDTH and sum(map(len, lines)) > MOST and max(map(len, texts)) > 1:
        longest = max(reversed(texts), key=len)
        rest = longest.pop()
        longest[-1] = _shorten(f"{longest[-1]} {rest.strip()}", WIDTH)
    return "\n".join(line for part in lines for line in part)


def _shorten(text: str, room: int) -> str:
    cut = text[: room - 1].rpartition(" ")[0].rstrip(" .,;:…")
    whole = len(cut) + NAMES > room  # else one long word, such as a path, is cut itself
    return text if len(text) <= room else f"{cut} …" if whole else f"{text[: room - 1]}…"


def leak_rows(
    epsilon: float | None, limit: float, what: str = "claim", notes: str = ""
) -> Iterator[tuple[str, str]]:
    """A bound beside what was allowed, and the odds that both mean."""
    shown, allowed = beside(epsilon, limit)
    yield "leak ε", f"≥ {shown:<9} {what} {allowed}{notes}"
    if (epsilon or 0.0) > 0:
        odds, most = odds_beside(epsilon, limit)
        factor = odds if odds == "a million" else f"× {odds}"
        said = f"{factor} or more; {what} allows {most}"
        yield "odds", f"that a record was used: {said}" if len(said) <= 36 else said


def _head(text: str, code: int | None, width: int) -> str:
    said = "" if code is None else f"exit {code}"
    if said and len(text) + len(said) + 2 <= width:
        return text.ljust(width - len(said)) + said
    return _fill(f"{text}{'   ' * bool(said)}{said}", width, "", "   ")


def _row(name: str, text: str, width: int) -> str:
    if not name:  # a line of a table
        return f"   {text}"
    if width < 3 * NAMES:
        return _fill(f"{name}: {' '.join(text.split())}", width, "   ", "     ")
    later = " " * (5 if name in STEPS else NAMES)
    return _fill(text, width, f"   {name:<{NAMES - 3}}", later)


def _fill(text: str, width: int, first: str, later: str) -> str:
    if len(first) + len(text) <= width:
        return first + text
    return textwrap.fill(
        KEPT.sub(lambda found: found[0].replace(" ", "\0"), text), width,
        initial_indent=first, subsequent_indent=later, break_long_words=False,
        break_on_hyphens=False,
    ).replace("\0", " ")  # fmt: skip


KEPT = re.compile(r"[×≥] \S+|ε = \S+|exit \d+|--[a-z-]+ (?:'[^']*'|\S+)|\d+ s$")  # on one line
ROW = re.compile(r"^   \S+(?: \S+){0,2}(?=  )", re.M)


def in_colours(text: str) -> Text:
    """The same text in colours: the headline, its bar, and names of rows."""
    from rich.text import Text

    shown, style = Text(text), STYLES.get(text[:1], "bold")
    shown.stylize(style, 0, len(text.partition("   ")[0]))
    shown.highlight_regex(ROW, "dim")
    shown.highlight_regex(r"[█▏▎▍▌▋▊▉]+", style.removeprefix("bold").strip())
    return shown
