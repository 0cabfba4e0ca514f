"""What the pocket vision model can do, measured on drawn images of classes that its training never
saw: markdown tables.

`python pocket_training/vision/evaluate_vision.py [--model ADDRESS] [--episodes N]`. Greedy answers,
as a system would give them.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

from leakbound.attacks import CANARIES, Membership
from leakbound.models import Complete, Model, open_model
from leakbound.tasks import Context, Example, Query, parse_answer
from leakbound.tasks.images import as_image
from leakbound.tasks.synthetic_images import HELD_OUT, NAMES, PSEUDO_NAMES, draw

Rng = np.random.Generator
KINDS = ("patchwork", "marked", "natural")


def episode(rng: Rng, each: int) -> tuple[Context, list[Example]]:
    """A shuffled context of `each` examples a class, and one more image of every class; names by
    chance.
    """
    looks = rng.choice(len(HELD_OUT), len(NAMES), replace=False)
    rows = [
        [Example(as_image(draw(HELD_OUT[look], rng)), name) for _ in range(each + 1)]
        for look, name in zip(looks, NAMES, strict=True)
    ]
    shown = [row for own in rows for row in own[1:]]
    return tuple(shown[i] for i in rng.permutation(len(shown))), [own[0] for own in rows]


def accuracy(model: Model, each: int, episodes: int, seed: int) -> list[bool]:
    """Is each query image named right? One query of every class an episode."""
    hits: list[bool] = []
    for number in range(episodes):
        context, asked = episode(np.random.default_rng([seed, each, number]), each)
        said = model.answer(
            [
                Complete(PSEUDO_NAMES.prompt(context, Query(row.input)), max_tokens=8)
                for row in asked
            ]
        )
        hits += [
            parse_answer(text, NAMES) == NAMES.index(row.label)
            for text, row in zip(said, asked, strict=True)
        ]
    return hits


def presence(
    model: Model, kind: str, shots: int, episodes: int, seed: int
) -> tuple[list[bool], list[bool], list[bool]]:
    """For each episode: yes where the canary is in the context, yes where it is not, its label for
    itself where it is.
    """
    there, absent, copied = [], [], []
    for number in range(episodes):
        rng = np.random.default_rng([seed, shots, number, KINDS.index(kind)])
        context, spare = episode(rng, max(1, math.ceil(shots / len(NAMES))))
        context, label = context[:shots], str(rng.choice(NAMES))
        canary = CANARIES[kind]().make(spare[int(rng.integers(len(spare)))], label, rng)
        at = int(rng.integers(shots))
        member = (*context[:at], canary, *context[at + 1 :])
        query = Membership().render(canary, PSEUDO_NAMES, NAMES[0], NAMES[1]).query
        requests = [
            PSEUDO_NAMES.prompt(c, q)
            for c, q in ((member, query), (context, query), (member, Query(canary.input)))
        ]
        yes, no, copy = model.answer([Complete(prompt, max_tokens=8) for prompt in requests])
        there.append(parse_answer(yes, ("yes", "no")) == 0)
        absent.append(parse_answer(no, ("yes", "no")) == 0)
        copied.append(parse_answer(copy, NAMES) == NAMES.index(canary.label))
    return there, absent, copied


def cell(hits: list[bool]) -> str:
    share = float(np.mean(hits))
    return f"{share:.3f} ± {math.sqrt(share * (1 - share) / len(hits)):.3f}"


def main() -> None:
    args = argparse.ArgumentParser()
    args.add_argument("--model", default="pocket-vision")
    args.add_argument("--episodes", type=int, default=200)
    args.add_argument("--seed", type=int, default=90001)
    opt = args.parse_args()
    model = open_model(opt.model)
    print(
        "| examples a class (five classes, none seen in training) | accuracy ± s.e. | n |\n| --- "
        "| --- | --- |"
    )
    for each in (0, 1, 2, 4):
        hits = accuracy(model, each, opt.episodes, opt.seed)
        print(f"| {each or 'none (chance .2)'} | {cell(hits)} | {len(hits)} |", flush=True)
    print(
        "\n| canary | examples | membership TPR | FPR | input-output: its own label | n pairs "
        "|\n| --- | --- | --- | --- | --- | --- |"
    )
    for kind in KINDS:
        for shots in (4, 20):
            there, absent, copied = presence(model, kind, shots, opt.episodes, opt.seed)
            print(
                (
                    f"| {kind} | {shots} | {cell(there)} | {cell(absent)} | {cell(copied)} | "
                    f"{len(there)} |"
                ),
                flush=True,
            )


if __name__ == "__main__":
    main()
