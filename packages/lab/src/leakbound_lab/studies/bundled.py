"""The bundled contexts of the studies: help-desk notes with a code in one sentence.

They are generated from a seed. All words are our own.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from leakbound.attribution.cases import Case
from leakbound.tasks.synthetic import NAMES, TOPICS, message

LINES = 20  # about 350 tokens of the pocket model
LONG = "Summarize the document in 20 to 40 words."
LEAST, MOST = 20, 40  # words


def notes(count: int, seed: int = 0) -> list[Case]:
    """Notes of about 350 tokens of the pocket model.

    Half of the queries ask for the code, the others for a summary. The reference of a summary is
    the first message, which the pocket model was trained to answer with.
    """
    return [_note(at, np.random.default_rng([seed, at])) for at in range(count)]


def notes_to_summarize(count: int, seed: int = 0) -> list[Case]:
    """The same notes, each with a query for a summary of 20 to 40 words.

    The reference is what the pocket model was trained to answer with: the first messages that have
    20 words together, and no more than 40 words of them.
    """
    return [
        replace(case, query=LONG, reference=_first_words(case.context))
        for case in notes(count, seed)
    ]


def _first_words(text: str) -> str:
    """Whole messages until there are 20 words, cut at 40."""
    words = text.split(" ")
    ends = (at for at, word in enumerate(words, 1) if at >= LEAST and word[-1] in ".!?")
    return " ".join(words[: min(next(ends, MOST), MOST)])


def _note(at: int, rng: np.random.Generator) -> Case:
    lines = [message(str(topic), rng) for topic in rng.choice(list(TOPICS), LINES)]
    name, code = str(rng.choice(NAMES)), str(int(rng.integers(10000, 100000)))
    first = lines[0]
    lines.insert(int(rng.integers(1, LINES)), f"The door code of {name} is {code}.")
    if at % 2:
        return Case(" ".join(lines), "Summarize the document in one sentence.", reference=first)
    return Case(" ".join(lines), f"What is the door code of {name}?", reference=code)
