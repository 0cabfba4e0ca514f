"""What it costs that a partition's answer depends on nothing but its own tokens.

python bench/alone.py [--model pocket] [--dtype auto] [--device auto]

CPU seconds (seconds on a GPU) of 20 answers with 10 partitions each, in one process: batches that
share prefixes and passes, passes of each prompt's own (what mechanisms with a guarantee use), and
batches of a public shape: all partitions of an answer padded to the longest prompt allowed.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable

import torch

from leakbound.models import Complete, Local, ScoreLabels, open_model
from leakbound.models.local import TransformersModel
from leakbound.models.request import Request

WORDS = ("alpha", "beta", "gamma", "ticket", "queue", "red", "blue", "window", "printer", "late")
ANSWERS, PARTITIONS, LONGEST = 20, 10, 40  # the last in words of a message


def message(rng: random.Random, words: int) -> str:
    text = " ".join(rng.choices(WORDS, k=words))
    return f"Message: {text}\nQueue: {rng.choice(('red', 'blue'))}\n\n"


def prompts(examples: int) -> list[list[str]]:
    """Prompts of each answer: messages of 5 to LONGEST words."""
    rng = random.Random(0)

    def one() -> str:
        rows = "".join(message(rng, rng.randint(5, LONGEST)) for _ in range(examples))
        return f"Sort the message into a queue.\n\n{rows}Message: {' '.join(WORDS)}\nQueue:"

    return [[one() for _ in range(PARTITIONS)] for _ in range(ANSWERS)]


def longest(examples: int) -> str:
    rng = random.Random(1)
    rows = "".join(message(rng, LONGEST) for _ in range(examples))
    return f"Sort the message into a queue.\n\n{rows}Message: {' '.join(WORDS)}\nQueue:"


def seconds(model: TransformersModel, work: Callable[[], object]) -> float:
    cuda = model.model.device.type == "cuda"
    model.forget()
    clock = time.perf_counter if cuda else time.process_time
    start = clock()
    work()
    if cuda:
        torch.cuda.synchronize()
    return clock() - start


def requests(kind: str, texts: list[str], alone: bool) -> list[Request[object]]:
    if kind == "answers":
        return [Complete(text, max_tokens=4, alone=alone) for text in texts]
    return [ScoreLabels(text, ("red", "blue", "green"), alone=alone) for text in texts]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--model", default="pocket")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--device", default="auto")
    given = parser.parse_args()
    model = open_model(given.model, local=Local(dtype=given.dtype, device=given.device))
    assert isinstance(model, TransformersModel)
    print("| requests | examples a partition | shared, s | own passes, s | public shape, s |")
    print("| --- | --- | --- | --- | --- |")
    for kind in ("answers", "scores"):
        for examples in (1, 4):
            groups, filler = prompts(examples), longest(examples)
            flat = [text for group in groups for text in group]
            ways = [
                lambda: model.answer(requests(kind, flat, False)),  # noqa: B023
                lambda: model.answer(requests(kind, flat, True)),  # noqa: B023
                lambda: [  # one longest prompt in each batch stands for the padding
                    (model.forget(), model.answer(requests(kind, [*group, filler], False)))  # noqa: B023
                    for group in groups  # noqa: B023
                ],
            ]
            ways[0]()  # warm
            took = [seconds(model, way) for way in ways]
            print(f"| {kind} | {examples} | " + " | ".join(f"{s:.2f}" for s in took) + " |")


if __name__ == "__main__":
    main()
