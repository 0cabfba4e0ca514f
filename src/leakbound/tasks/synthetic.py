"""The bundled synthetic task: help-desk messages routed to colour queues.

The queue of a topic is chosen anew for each data set, so a model cannot know it without examples:
zero-shot is chance, and whatever a system gets right comes from private rows. All words are ours.
"""

from __future__ import annotations

import json
from importlib.resources import files

import numpy as np

from leakbound.tasks.example import Context, Example
from leakbound.tasks.task import Task

QUEUES = ("red", "blue", "green", "gold")
HELP_DESK = Task(
    name="help_desk",
    labels=QUEUES,
    instruction="Label each input with one of: red, blue, green, gold.",
)

WORDS = json.loads(files(__package__).joinpath("synthetic.json").read_text(encoding="utf-8"))
TOPICS: dict[str, list[str]] = WORDS["topics"]
OPENINGS: list[str] = WORDS["openings"]
CLOSINGS: list[str] = WORDS["closings"]  # of an invented person, with {name} or {code}
NAMES: list[str] = WORDS["names"]


def message(topic: str, rng: np.random.Generator) -> str:
    """One message about a topic, with a name or a code of a made-up person."""
    closing = str(rng.choice(CLOSINGS)).format(
        name=rng.choice(NAMES), code=int(rng.integers(1000, 100000))
    )
    return " ".join(
        part
        for part in (str(rng.choice(OPENINGS)), f"{rng.choice(TOPICS[topic])}.", closing)
        if part
    )


def help_desk(count: int, rng: np.random.Generator, topics: int = 4) -> Context:
    """A balanced, shuffled data set of messages, each topic routed to a queue of its own."""
    chosen = rng.choice(list(TOPICS), size=topics, replace=False)
    rows = [
        Example(message(str(chosen[i % topics]), rng), QUEUES[i % topics]) for i in range(count)
    ]
    return tuple(rows[i] for i in rng.permutation(count))
