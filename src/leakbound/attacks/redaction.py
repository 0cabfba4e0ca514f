"""What may be kept of an answer: the words of it that are the canary's."""

from __future__ import annotations

import re
from collections.abc import Iterator

BLOT = "█"
FURTHER = "▓▒░"  # for canaries that hold a blot themselves
FRAGMENT = 3  # characters: shorter words of other rows stand in many a canary by chance


def repeated(text: str, target: str) -> str:
    """The words of a target that a text repeats, and the target wherever the text holds it.

    Examples:
        >>> repeated("Mallory Doe has code:7f31, I think.", "7f31")
        '█7f31█'
    """
    text, goal = " ".join(text.split()), " ".join(target.casefold().split())
    known = set(goal.split())
    kept = {at for span in _occurrences(text, goal) for at in range(*span)}
    for found in re.finditer("[^ ]+", text):
        word = found[0].casefold()
        if word in known or (len(word) >= FRAGMENT and word in goal):
            kept.update(range(*found.span()))
    blot = next((one for one in BLOT + FURTHER if one not in goal), BLOT)
    shown = "".join(c if at in kept or c == " " else blot for at, c in enumerate(text))
    return re.sub(f"{blot}+(?: {blot}+)*", blot, shown)


def _occurrences(text: str, goal: str) -> Iterator[tuple[int, int]]:
    """Where a text holds the other one, whatever its case; "ß" is two letters then."""
    if not goal or goal not in text.casefold():
        return
    places = [at for at, c in enumerate(text) for _ in c.casefold()]
    for found in re.finditer(re.escape(goal), text.casefold()):
        yield places[found.start()], places[found.end() - 1] + 1
