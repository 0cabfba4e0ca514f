"""The longest passage of each record that stands, word for word, in some output."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
# Scripts without blanks between words count by characters.
WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\W\u3040-\u30ff\u3400-\u9fff]+")
END = -1  # between two texts, and in place of a word that no record has


@dataclass(frozen=True, slots=True, repr=False)
class Passage:
    """Words of a record that stand side by side in an output, and in no other record."""

    words: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.words)


def words_of(text: str) -> list[str]:
    """The words of a text, whatever its punctuation, capitals and composition of characters.

    Examples:
        >>> words_of("Room 12-B, please!")
        ['room', '12', 'b', 'please']
    """
    return WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def longest_passages(
    records: Sequence[Sequence[str]], outputs: Iterable[str], groups: Sequence[int] | None = None
) -> list[Passage]:
    """Find the longest passage of each record in the outputs.

    A passage that stands in two records says of neither that it was disclosed, so it counts for
    none. Passages do not run across texts.

    Examples:
        >>> found = longest_passages([["the code is 4711"], ["the code is 12"]],
        ...                          ["I think the code is 4711."])
        >>> [passage.words for passage in found]
        [('the', 'code', 'is', '4711'), ()]
    """
    known: dict[str, int] = {}
    mine, owner = _numbered(records, known)
    group = np.arange(len(records)) if groups is None else np.asarray(groups, np.int64)
    theirs = _in_outputs(outputs, known)
    length, start = np.zeros(len(records), np.int64), np.zeros(len(records), np.int64)
    here, there = np.flatnonzero(mine >= 0), np.flatnonzero(theirs >= 0)
    grams, other, size = mine[here], theirs[there], 1
    while True:
        both = np.isin(grams, other)
        here, grams = here[both], grams[both]
        if not len(here):
            break
        kept = np.isin(other, grams)
        there, other = there[kept], other[kept]
        alone = _of_one_group(grams, group[owner[here]])
        length[owner[here[alone]]], start[owner[here[alone]]] = size, here[alone]
        here, there, grams, other = _longer(here, there, grams, other, size, mine, theirs)
        size += 1
    words = [*known]
    return [
        Passage(tuple(words[word] for word in mine[at : at + many]))
        for at, many in zip(start.tolist(), length.tolist(), strict=True)
    ]


def _numbered(records: Sequence[Sequence[str]], known: dict[str, int]) -> tuple[Ints, Ints]:
    """Words as numbers, a mark after each text; and the record of each word."""
    numbers: list[int] = []
    owner: list[int] = []
    for at, texts in enumerate(records):
        for text in texts:
            found = [known.setdefault(word, len(known)) for word in words_of(text)]
            numbers += [*found, END]
            owner += [at] * (len(found) + 1)
    return np.array(numbers, np.int64), np.array(owner, np.int64)


def _in_outputs(outputs: Iterable[str], known: dict[str, int]) -> Ints:
    numbers: list[int] = []
    for text in outputs:
        numbers += [*(known.get(word, END) for word in words_of(text)), END]
    return np.array(numbers, np.int64)


def _of_one_group(grams: Ints, owner: Ints) -> npt.NDArray[np.bool_]:
    """Which passages stand in records of one group only."""
    pairs = np.unique(grams * (owner.max() + 1) + owner)
    found, times = np.unique(pairs // (owner.max() + 1), return_counts=True)
    alone: npt.NDArray[np.bool_] = np.isin(grams, found[times == 1])
    return alone


def _longer(
    here: Ints, there: Ints, grams: Ints, other: Ints, size: int, mine: Ints, theirs: Ints
) -> tuple[Ints, Ints, Ints, Ints]:
    """Passages with one word more; equal ones have one number, exactly."""
    after, following = mine[here + size], theirs[there + size]
    own, others = after >= 0, following >= 0
    base = int(mine.max()) + 1
    keys = np.concatenate([(grams * base + after)[own], (other * base + following)[others]])
    numbers = np.unique(keys, return_inverse=True)[1]
    cut = int(own.sum())
    return here[own], there[others], numbers[:cut], numbers[cut:]
