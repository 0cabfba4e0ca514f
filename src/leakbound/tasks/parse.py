"""Read an answer out of what a model wrote: which of the allowed answers, or none of them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

AROUND = " \t\n\"'`*.,:;!?()[]{}<>«»“”‘’-"  # means nothing before or behind an answer


def parse_answer(text: str, answers: Sequence[str]) -> int:
    """Index of the allowed answer that a text gives; len(answers) if it gives none or more than one
    (unreadable).

    Case, quotes, surrounding punctuation and chatty prefixes do not matter, unless answers differ
    in nothing else: an exact match wins, then the longest answer that the text begins with, then
    the only answer that it mentions.

    Examples:
        >>> [parse_answer(text, ("yes", "no")) for text in ("Yes.", "I think no", "perhaps")]
        [0, 1, 2]
        >>> [parse_answer(text, ("-1", "0", "1")) for text in ("-1", "1.", "0")]
        [0, 2, 1]
    """
    if text.strip() in answers:
        return answers.index(text.strip())
    said, names = _compare(text, answers)
    if said in names:
        return names.index(said)
    starts = [
        i for i, name in enumerate(names) if name and re.match(rf"{re.escape(name)}(?!\w)", said)
    ]
    if starts:
        return max(starts, key=lambda i: len(names[i]))
    found = [
        i
        for i, name in enumerate(names)
        if name and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", said)
    ]
    return found[0] if len(found) == 1 else len(answers)


def _compare(text: str, answers: Sequence[str]) -> tuple[str, list[str]]:
    """Text and answers in the plainest form in which the answers differ."""
    names = [plain(answer) for answer in answers]
    if len(set(names)) == len(set(answers)):
        return plain(text), names
    ends = {end for answer in answers for end in (answer[:1], answer[-1:])}
    around = "".join(sign for sign in AROUND if sign.isspace() or sign not in ends)
    return plain(text, around), [plain(answer, around) for answer in answers]


def plain(text: str, around: str = AROUND) -> str:
    """A text without what means nothing in an answer."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return re.sub(r"\s+", " ", folded).strip(around)
