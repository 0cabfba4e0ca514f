"""Read an answer out of what a model wrote: which of the allowed answers, or none of them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

__all__ = ["parse_answer"]


def parse_answer(text: str, answers: Sequence[str]) -> int:
    """Which of the allowed answers a text gives.

    Case, quotes, surrounding punctuation and chatty prefixes do not matter: an exact match wins,
    then the longest answer that the text begins with, then the only answer that it mentions.

    Args:
        text: What the model wrote.
        answers: The allowed answers.

    Returns:
        Its index; len(answers) if the text gives none or more than one (unreadable).

    Examples:
        >>> [parse_answer(text, ("yes", "no")) for text in ("Yes.", "I think no", "perhaps")]
        [0, 1, 2]
    """
    plain, names = _plain(text), [_plain(answer) for answer in answers]
    if plain in names:
        return names.index(plain)
    starts = [
        i for i, name in enumerate(names) if name and re.match(rf"{re.escape(name)}(?!\w)", plain)
    ]
    if starts:
        return max(starts, key=lambda i: len(names[i]))
    found = [
        i
        for i, name in enumerate(names)
        if name and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", plain)
    ]
    return found[0] if len(found) == 1 else len(answers)


def _plain(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold()
    return re.sub(r"\s+", " ", folded).strip(" \t\n\"'`*.,:;!?()[]{}<>«»“”‘’-")
