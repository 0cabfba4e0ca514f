"""Words of documents and of replies: which a reply repeats, and which of it may be kept."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from itertools import islice

SUBSCRIPT = "\u0345"  # the one mark that becomes a letter when its case is folded
PLAIN = re.compile(r"""[\s!"#%&'()*,\-./:;?@\[\\\]{}]*""", re.ASCII)
STANCE_WORDS = 4  # "Well, I think yes": later ones may be of a quoted document
LONG = 4  # letters: shorter words are mostly grammar, and stand in any document
BLOT = "█"
FURTHER = "▓▒░"  # for canaries that hold a blot themselves
FRAGMENT = 3  # characters: shorter words of other rows stand in many a canary by chance


def words_of(text: str) -> list[str]:
    """Words without their case and punctuation."""
    return [found[0] for found in _words(text.casefold())]


def _words(text: str, other: str = "") -> Iterator[re.Match[str]]:
    """Letters, digits and the combining marks behind them, such as the vowel signs of Hindi."""
    marks = "".join(sorted(c for c in set(text) if unicodedata.category(c).startswith("M")))
    return re.finditer(rf"[\w{SUBSCRIPT}][\w{marks}]*{other}", text)


def only_words(text: str, known: Container[str]) -> str:
    """The known words of a text, and whether it begins with yes or no."""

    def between(gap: str) -> str:
        return gap if PLAIN.fullmatch(gap) else f" {BLOT} "

    parts, end = [], 0
    for word in _words(text):
        if word[0].casefold() in known:
            parts += [between(text[end : word.start()]), word[0]]
            end = word.end()
    kept = "".join([*parts, between(text[end:])]).strip()
    return kept if stance(kept) == stance(text) else f"{f'{BLOT} ' * STANCE_WORDS}{kept}"


def long_words(words: Sequence[str]) -> list[int]:
    """Where a text has words that stand in it once and are not grammar."""
    cores = [words_of(word) for word in words]
    known = Counter(core for some in cores for core in some)
    return [
        at
        for at, core in enumerate(cores)
        if len(core) == 1 and len(core[0]) >= LONG and known[core[0]] == 1
    ]


def replace_core(word: str, core: str) -> str:
    """A word with another core, in its punctuation."""
    found = next(_words(word), None)
    return word if found is None else word[: found.start()] + core + word[found.end() :]


def stance(reply: str) -> str | None:
    """Whether a reply begins with yes or no."""
    first = islice(_words(reply.casefold(), f"|{BLOT}+"), STANCE_WORDS)  # a blot was a word
    return next((word[0] for word in first if word[0] in ("yes", "no")), None)


def share_in_order(wanted: Sequence[str], found: Sequence[str]) -> float:
    """Length of the longest common subsequence over that of the first sequence (ROUGE-L recall)."""
    places: dict[str, int] = {}
    for at, part in enumerate(wanted):
        places[part] = places.get(part, 0) | 1 << at
    every = left = (1 << len(wanted)) - 1
    for part in found:  # bit-parallel (Hyyrö 2004)
        hit = left & places.get(part, 0)
        left = (left + hit | left - hit) & every
    return (len(wanted) - left.bit_count()) / max(1, len(wanted))


def redact(text: str, target: str) -> str:
    """The words of a target that a text repeats, and the target wherever the text holds it."""
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
