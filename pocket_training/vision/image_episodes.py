"""Training episodes: a context of images under names, and questions about it.

Everything is generated.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import image_words as w
import numpy as np

from leakbound.attacks import templates
from leakbound.tasks.example import Example
from leakbound.tasks.synthetic_images import (
    COLOURS,
    NAMES,
    SHAPES,
    TEXTURES,
    TRAINED,
    Look,
    Pixels,
    draw,
    mark,
    patchwork,
)
from leakbound.tasks.task import Task

Rng = np.random.Generator
MARK = "<image>"


@dataclass
class Turn:
    """One question over a context: its images, and the right answer."""

    text: str
    images: list[Pixels]
    answer: str
    kind: str


@dataclass
class Episode:
    """A context and turns, each of which sees the context and itself only.

    known[i]: was this row's class shown before?
    """

    head: str
    rows: list[str]
    images: list[Pixels]
    labels: list[str]
    known: list[bool]
    turns: list[Turn] = field(default_factory=list)


class Bank:
    """Images of the classes that training may see, drawn once."""

    def __init__(self, each: int, seed: int, looks: tuple[Look, ...] = TRAINED) -> None:
        rng = np.random.default_rng([seed, 5])
        self.looks = looks
        self.images = np.stack([np.stack([draw(look, rng) for _ in range(each)]) for look in looks])

    def targets(self) -> np.ndarray:
        """(looks, 3) number of shape, texture and colour."""
        colours = list(COLOURS)
        return np.array(
            [
                (SHAPES.index(k.shape), TEXTURES.index(k.texture), colours.index(k.colour))
                for k in self.looks
            ]
        )

    def one(self, look: int, rng: Rng) -> Pixels:
        return self.images[look, int(rng.integers(self.images.shape[1]))]


def pick(rng: Rng, items):  # type: ignore[no-untyped-def]
    return items[int(rng.integers(len(items)))]


def labels_of(ways: int, rng: Rng) -> tuple[str, ...]:
    roll = rng.random()
    if roll < 0.4 and ways <= len(NAMES):
        pool = NAMES
    elif roll < 0.85:
        pool = (*NAMES, *w.LABELS)
    else:
        pool = tuple(dict.fromkeys(w.new_word(rng) for _ in range(4 * ways)))
    return tuple(pool[i] for i in rng.permutation(len(pool))[:ways])


def task_of(labels: tuple[str, ...], rng: Rng) -> Task:
    fields = w.FIELDS[0] if rng.random() < 0.5 else pick(rng, w.FIELDS)
    shown = ", ".join(labels[i] for i in rng.permutation(len(labels)))
    return Task(
        "episode", tuple(shown.split(", ")), *fields, pick(rng, w.INSTRUCTIONS).format(labels=shown)
    )


class Maker:
    """Makes one episode of `count` rows and `ways` names, of which `present` have a class in the
    context.
    """

    def __init__(self, bank: Bank, turns: int = 6) -> None:
        self.bank, self.turns = bank, turns
        self.hard = 0.5  # share of the absent images that are like one of the context

    def episode(self, rng: Rng, ways: int, count: int) -> Episode:
        labels = labels_of(ways, rng)
        task = task_of(labels, rng)
        looks = rng.choice(len(self.bank.looks), len(labels), replace=False)
        order = rng.integers(0, len(labels), count)
        if rng.random() < 0.5:  # balanced
            order = np.concatenate(
                [rng.permutation(len(labels)) for _ in range(count // len(labels) + 1)]
            )[:count]
        images = [self.bank.one(looks[i], rng) for i in order]
        names = [labels[i] for i in order]
        known = [bool(i in order[:at]) for at, i in enumerate(order)]
        if count and rng.random() < 0.35:  # a canary in the place of a row
            at = int(rng.integers(count))
            images[at] = patchwork(rng) if rng.random() < 0.5 else mark(images[at], rng)
            names[at], known[at] = pick(rng, labels), False
            special = at
        else:
            special = int(rng.integers(count)) if count else -1
        head = task.head(pick(rng, w.PREAMBLES) if rng.random() < 0.1 else "")
        rows = [task.block(Example(MARK, name)) for name in names]
        ep = Episode(head, rows, images, names, known)
        for _ in range(self.turns):
            ep.turns.append(self.turn(task, ep, looks, labels, special, rng))
        return ep

    def turn(
        self,
        task: Task,
        ep: Episode,
        looks: np.ndarray,
        labels: tuple[str, ...],
        special: int,
        rng: Rng,
    ) -> Turn:
        roll = rng.random()
        if roll < 0.25 or not ep.images:
            at = int(rng.integers(len(labels)))
            kind = "classify" if labels[at] in ep.labels else "unknown"
            return Turn(task.open_block(MARK), [self.bank.one(looks[at], rng)], labels[at], kind)
        if roll < 0.4:
            at = special if rng.random() < 0.6 else int(rng.integers(len(ep.images)))
            return Turn(task.open_block(MARK), [ep.images[at]], ep.labels[at], "copy")
        return self.membership(task, ep, looks, special, rng)

    def membership(
        self, task: Task, ep: Episode, looks: np.ndarray, special: int, rng: Rng
    ) -> Turn:
        text = task.open_block(templates.MEMBERSHIP_IMAGE.format(canary=MARK))
        if rng.random() < 0.5:
            at = special if rng.random() < 0.6 else int(rng.integers(len(ep.images)))
            return Turn(text, [ep.images[at]], "yes", "member")
        return Turn(text, [self.absent(ep, looks, rng)], "no", "nonmember")

    def absent(self, ep: Episode, looks: np.ndarray, rng: Rng) -> Pixels:
        if rng.random() < self.hard:
            near = (
                mark(pick(rng, ep.images), rng),
                mark(self.bank.one(pick(rng, looks), rng), rng),
                self.bank.one(pick(rng, looks), rng),
            )
            return near[int(rng.integers(len(near)))]
        return (
            patchwork(rng)
            if rng.random() < 0.5
            else self.bank.one(int(rng.integers(len(self.bank.looks))), rng)
        )
