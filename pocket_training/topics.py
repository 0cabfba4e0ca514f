"""Texts about topics, in English words: what few-shot classification by topic is learnt on.

A topic is one direction of meaning or several; its words are drawn about them, among the frequent
words of English, into frames of several styles. No two episodes have the same topics.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from english import English, about, running, unit

Rng = np.random.Generator

# * is a word of the topic, @ a name, # a number.
FRAMES: dict[str, tuple[str, ...]] = {
    "news": (
        "@ said on Monday that the * will * its * in @.",
        "The * of @ has agreed to * the * after # days of talks.",
        "A * in @ was * by * on Tuesday, officials said.",
        "More than # * were * when the * hit @ last week.",
        "@ * the * as * rose # percent in the third quarter.",
        "The * faces a new * over its * with @.",
        "@ beat @ # - # to win the * on Sunday.",
        "Plans for a * have been * by the * , a spokesman for @ said.",
    ),
    "plot": (
        "when his * is * by a * , @ must find the * before it is too late .",
        "@ , a young * from @ , falls in love with a * who hides a * .",
        "after the * of her * , she leaves the * and meets @ .",
        "he has # days to * the * and save the * of @ .",
        "the story follows a * and his * as they * across the * .",
        "they soon find out that the * is not what it seems .",
    ),
    "view": (
        "it's a * , * and often * look at * .",
        "the * is * , but you never really care about the * .",
        "too * to be * and too * to be a good * .",
        "one of the most * * of the year , with a * that makes you * .",
        "I did not like the * , and the * was even worse.",
        "what a * ! we loved every * of it .",
        "this is a * for anyone who wants to * .",
        "neither * nor * , it is just another * .",
    ),
    "question": (
        "What is the * of the * in @ ?",
        "Who was the first * to * the * ?",
        "How many * does a * have ?",
        "Where did the * of @ come from ?",
        "When was the * * ?",
        "Why do * * their * ?",
    ),
    "fact": (
        "The * is a * of * found in the * of @.",
        "@ is a * * known for its * and *.",
        "It was * in # by @ and is now part of the *.",
        "A * is used to * the * of *.",
        "The * and the * are both kinds of *.",
        "@ was a * who * the * in #.",
        "We measured the * of # * with and without *.",
        "These results show that * may * the * in *.",
    ),
    "talk": (
        "can you bring the * tomorrow?",
        "I think the * is * , don't you?",
        "@: hey, did you see the * ?",
        "no, but @ told me about the * and the *.",
        "please * my * , it does not *.",
        "ok, let's * the * at #.",
        "my * is * again and I need a * soon.",
    ),
}
STYLES = tuple(FRAMES)
LOOKS = ("plain", "plain", "lower", "headline", "wire")


@dataclass(frozen=True)
class Kind:
    """What the texts of one label have in common.

    Attributes:
        spreads: Running chances of its words, one for each direction.
        share: Share of its words in free text.
        styles: Names of the frames it takes.
    """

    spreads: tuple[np.ndarray, ...]
    share: float
    styles: tuple[str, ...]


class Topics:
    """Draws topics and texts about them."""

    def __init__(self, english: English) -> None:
        self.english = english
        self.any = running(english.chance)
        self.weight = 1e-3 / (1e-3 + english.chance)  # frequent words say little of the topic
        self.names = [i for i, word in enumerate(english.words[:4000]) if word[0].isupper()]

    def center(self, rng: Rng, near: np.ndarray | None = None) -> np.ndarray:
        """A direction: about one word or some, or any; `near` another in half of the cases."""
        vectors = self.english.vectors
        if near is not None and rng.random() < 0.5:
            chosen = vectors[self.draw(about(self.english, near, 8.0), rng)]
            return unit(chosen + 0.4 * near)
        if rng.random() < 0.15:
            return unit(rng.normal(size=vectors.shape[1]) * vectors.std(0))
        chosen = vectors[rng.integers(150, 8000, int(rng.integers(1, 4)))]
        return unit(chosen.sum(0) + rng.normal(0, 0.03, vectors.shape[1]))

    def draw(self, spread: np.ndarray, rng: Rng) -> int:
        return min(int(np.searchsorted(spread, rng.random())), len(spread) - 1)

    def kinds(self, count: int, rng: Rng) -> list[Kind]:
        """The kinds of an episode: apart in topic, and at times in style as well or only.

        A third of the episodes are easy: one direction each, and most words are about it.
        """
        roll, easy = rng.random(), rng.random() < 0.35
        sharp = rng.uniform(11, 15) if easy else rng.uniform(7, 12)
        share = rng.uniform(0.6, 0.85) if easy else rng.uniform(0.2, 0.65)
        same = tuple(STYLES[i] for i in rng.permutation(len(STYLES))[: int(rng.integers(1, 5))])
        apart = [STYLES[i % len(STYLES)] for i in rng.permutation(max(count, len(STYLES)))]
        shared = self.spreads(rng, sharp, easy) if roll < 0.08 else None
        return [
            Kind(
                shared or self.spreads(rng, sharp, easy),
                share,
                (apart[k],) if roll < 0.2 else same,
            )
            for k in range(count)
        ]

    def spreads(self, rng: Rng, sharp: float, one: bool) -> tuple[np.ndarray, ...]:
        first = self.center(rng)
        more = 0 if one else int(rng.choice((0, 0, 1, 2, 3)))
        rest = [self.center(rng, first) for _ in range(more)]
        return tuple(about(self.english, c, sharp) for c in (first, *rest))

    def text(self, kind: Kind, rng: Rng, words: int, look: str) -> tuple[str, np.ndarray]:
        """A text of about `words` words, and the mean direction of what it says."""
        spread = kind.spreads[int(rng.integers(len(kind.spreads)))]
        out: list[str] = []
        used: list[int] = []
        while sum(len(part.split()) for part in out) < words - 3 or not out:
            if rng.random() < 0.5:
                frames = FRAMES[kind.styles[int(rng.integers(len(kind.styles)))]]
                out.append(self.framed(frames[int(rng.integers(len(frames)))], spread, rng, used))
            else:
                size = int(rng.integers(4, max(6, min(22, words + 1))))
                out.append(self.free(spread, kind.share, size, rng, used))
        text = self.looking(out, look, spread, rng, used)
        return text, unit((self.english.vectors[used] * self.weight[used, None]).sum(0))

    def framed(self, frame: str, spread: np.ndarray, rng: Rng, used: list[int]) -> str:
        def fill(slot: re.Match[str]) -> str:
            if slot[0] == "#":
                return str(int(rng.integers(1, 10 ** int(rng.integers(1, 5)))))
            used.append(
                self.draw(spread, rng)
                if slot[0] == "*"
                else self.names[int(rng.integers(len(self.names)))]
            )
            return self.english.words[used[-1]]

        text = re.sub(r"[*@#]", fill, frame)
        return text[0].upper() + text[1:] if frame[0].isupper() else text

    def free(self, spread: np.ndarray, share: float, size: int, rng: Rng, used: list[int]) -> str:
        """Words of the topic among frequent ones, as running text has them, without grammar."""
        out = []
        for roll in rng.random(size):
            used.append(self.draw(spread if roll < share else self.any, rng))
            out.append(self.english.words[used[-1]] + ("," if rng.random() < 0.06 else ""))
        text = " ".join(out).rstrip(",")
        return text[0].upper() + text[1:] + "."

    def looking(
        self, parts: list[str], look: str, spread: np.ndarray, rng: Rng, used: list[int]
    ) -> str:
        if look == "lower":
            return re.sub(r" ?([.,?!])", r" \1", " ".join(parts)).lower()
        if look == "headline":
            used += [self.draw(spread, rng) for _ in range(int(rng.integers(2, 6)))]
            head = [self.english.words[i].capitalize() for i in used[-5:]]
            return f"{' '.join(head)} {' '.join(parts)}"
        if look == "wire":
            place = self.english.words[self.names[int(rng.integers(len(self.names)))]]
            return f"{place.upper()} (Reuters) - {' '.join(parts)}"
        return " ".join(parts)

    def line(self, rng: Rng, words: int) -> str:
        """A text about anything."""
        kind = self.kinds(1, rng)[0]
        return self.text(kind, rng, words, LOOKS[int(rng.integers(len(LOOKS)))])[0]
