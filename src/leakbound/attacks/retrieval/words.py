"""Words of documents and of replies."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from leakbound.attacks.protocols import BLOT

__all__ = ["WORD", "long_words", "replaced", "stance", "words_of"]

WORD = re.compile(rf"\w+|{BLOT}+")  # a blotted word keeps its place
STANCE_WORDS = 4  # "Well, I think yes": later ones may be of a quoted document
LONG = 4  # letters: shorter words are mostly grammar, and stand in any document


def words_of(text: str) -> list[str]:
    """Words without their case and punctuation.

    Args:
        text: Any text.

    Returns:
        In their order.

    Examples:
        >>> words_of("A Kite, over town!")
        ['a', 'kite', 'over', 'town']
    """
    return WORD.findall(text.casefold())


def long_words(words: Sequence[str]) -> list[int]:
    """Where a text has words that stand in it once and are not grammar.

    Args:
        words: Words, divided at blanks.

    Returns:
        Places of words whose core is one word of at least four letters, of which there is one.
    """
    cores = [words_of(word) for word in words]
    known = Counter(core for some in cores for core in some)
    return [
        at
        for at, core in enumerate(cores)
        if len(core) == 1 and len(core[0]) >= LONG and known[core[0]] == 1
    ]


def replaced(word: str, core: str) -> str:
    """A word with another core, in its punctuation.

    Args:
        word: Such as "(Kite,".
        core: What takes the place of its letters.

    Returns:
        A word.

    Examples:
        >>> replaced("(Kite,", "[1]")
        '([1],'
    """
    return WORD.sub(lambda _: core, word, count=1)


def stance(reply: str) -> str | None:
    """Whether a reply begins with yes or no.

    Args:
        reply: Any text.

    Returns:
        "yes" or "no"; None for anything else, such as that nothing is known.

    Examples:
        >>> stance("Yes, it is."), stance("I don't know.")
        ('yes', None)
    """
    first = [word for word in words_of(reply)[:STANCE_WORDS] if word in ("yes", "no")]
    return first[0] if first else None
