"""Keywords of a public domain: the words of a text, and how many answers contain them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def words_of(text: str) -> list[str]:
    """Words of a text.

    Examples:
        >>> words_of("Late again, LATE!")
        ['late', 'again', 'late']
    """
    return re.findall(r"\w+", text.casefold())


def mean_counts(
    texts: Sequence[str], domain: Sequence[str], per_answer: int
) -> npt.NDArray[np.float64]:
    """Share of answers in which each keyword is counted.

    Guarantee:
        Replacing one answer changes at most 2 per_answer means by 1/len(texts) each.

    Examples:
        >>> mean_counts(["late late parcel", "late"], ["late", "parcel"], per_answer=1).tolist()
        [1.0, 0.0]
    """
    at = {word: i for i, word in enumerate(domain)}
    counts = np.zeros(len(domain))
    for text in texts:
        known = [word for word in dict.fromkeys(words_of(text)) if word in at]
        counts[[at[word] for word in known[:per_answer]]] += 1 / len(texts)
    return counts


def word_shares(answers: Sequence[str], domain: Sequence[str]) -> tuple[tuple[float, ...], ...]:
    """Weights of the words of a domain for each answer."""
    words = [words_of(answer) for answer in answers]
    return tuple(
        tuple(float(word in own) / max(1, len(set(own))) for word in domain) for own in words
    )
