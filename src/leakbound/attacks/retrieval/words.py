"""Words of documents and of replies."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from itertools import islice

from leakbound.attacks.redaction import BLOT

SUBSCRIPT = "\u0345"  # the one mark that becomes a letter when its case is folded
PLAIN = re.compile(r"""[\s!"#%&'()*,\-./:;?@\[\\\]{}]*""", re.ASCII)
STANCE_WORDS = 4  # "Well, I think yes": later ones may be of a quoted document
LONG = 4  # letters: shorter words are mostly grammar, and stand in any document


def words_of(text: str) -> list[str]:
    """Words without their case and punctuation.

    Examples:
        >>> words_of("A Kite, over town!")
        ['a', 'kite', 'over', 'town']
    """
    return [found[0] for found in _words(text.casefold())]


def _words(text: str, other: str = "") -> Iterator[re.Match[str]]:
    """Letters, digits and the combining marks behind them, such as the vowel signs of Hindi."""
    marks = "".join(sorted(c for c in set(text) if unicodedata.category(c).startswith("M")))
    return re.finditer(rf"[\w{SUBSCRIPT}][\w{marks}]*{other}", text)


def only_words(text: str, known: Container[str]) -> str:
    """The known words of a text, and whether it begins with yes or no.

    Examples:
        >>> only_words("A kite, red as 7 hills, saw: a kite.", {"a", "kite"})
        'A kite █ a kite.'
        >>> only_words("This is what I know: no.", {"yes", "no"})
        '█ █ █ █ █ no.'
    """
    parts, end = [], 0
    for word in _words(text):
        if word[0].casefold() in known:
            parts += [_between(text[end : word.start()]), word[0]]
            end = word.end()
    kept = "".join([*parts, _between(text[end:])]).strip()
    return kept if stance(kept) == stance(text) else f"{f'{BLOT} ' * STANCE_WORDS}{kept}"


def _between(text: str) -> str:
    return text if PLAIN.fullmatch(text) else f" {BLOT} "


def long_words(words: Sequence[str]) -> list[int]:
    """Where a text has words that stand in it once and are not grammar."""
    cores = [words_of(word) for word in words]
    known = Counter(core for some in cores for core in some)
    return [
        at
        for at, core in enumerate(cores)
        if len(core) == 1 and len(core[0]) >= LONG and known[core[0]] == 1
    ]


def replaced(word: str, core: str) -> str:
    """A word with another core, in its punctuation.

    Examples:
        >>> replaced("(Kite,", "[1]")
        '([1],'
    """
    found = next(_words(word), None)
    return word if found is None else word[: found.start()] + core + word[found.end() :]


def stance(reply: str) -> str | None:
    """Whether a reply begins with yes or no.

    Examples:
        >>> stance("Yes, it is."), stance("I don't know.")
        ('yes', None)
    """
    first = islice(_words(reply.casefold(), f"|{BLOT}+"), STANCE_WORDS)  # a blot was a word
    return next((word[0] for word in first if word[0] in ("yes", "no")), None)
