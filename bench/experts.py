"""J experts on the pocket model: one batch for all, their prefixes reused by the next query,
decoding a token at a time.

Times are the best of several rounds, in which the two sides of a ratio take turns, so that a busy
machine slows both.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from leakbound.mechanisms import ReportNoisyMax
from leakbound.models import NextLogits
from leakbound.models.local import TransformersModel
from leakbound.models.pocket import load_pocket
from leakbound.tasks import Context, Job, Query
from leakbound.tasks.synthetic import HELP_DESK, help_desk

EXPERTS, ROUNDS = 25, 7


def seconds(call: Callable[..., Any], *args: Any, **kwargs: Any) -> float:
    begin = time.perf_counter()
    call(*args, **kwargs)
    return time.perf_counter() - begin


def rows(shots: int) -> tuple[Context, list[Query]]:
    """The help-desk rows of J experts with `shots` examples each, and queries about other rows."""
    data = help_desk(EXPERTS * shots + 2, np.random.default_rng(0))
    return data[: EXPERTS * shots], [Query(one.input) for one in data[EXPERTS * shots :]]


def requests(context: Context, query: Query) -> list[Any]:
    return ReportNoisyMax(1.0, EXPERTS).requests(HELP_DESK, Job(context, query), 0)


def one_pass(model: TransformersModel, context: Context, queries: list[Query]) -> str:
    """(a) One cold answer of report noisy max against one plain forward pass of as many tokens."""
    batch = requests(context, queries[0])
    width = -(-sum(len(model.encode(ask.prompt)) + 1 for ask in batch) // EXPERTS)
    ids, answered, plain = torch.randint(3, 2000, (EXPERTS, width)), [], []
    for _ in range(ROUNDS):
        model.forget()
        answered.append(seconds(model.answer, batch))
        with torch.inference_mode():
            plain.append(seconds(model.model, input_ids=ids, logits_to_keep=1))
    return (
        f"(a) report noisy max, J={EXPERTS} one-example experts: {1e3 * min(answered):.0f} ms; "
        "one forward pass over "
        f"{EXPERTS} rows of {width} tokens: {1e3 * min(plain):.0f} ms: ratio "
        f"{min(answered) / min(plain):.2f} (goal 1.5)"
    )


def second_query(model: TransformersModel, shots: int) -> str:
    """(b) A second query over the same context against the first; with the share of its tokens that
    have to be run.
    """
    context, queries = rows(shots)
    first, second = [], []
    for _ in range(ROUNDS):
        model.forget()
        first.append(seconds(model.answer, requests(context, queries[0])))
        second.append(seconds(model.answer, requests(context, queries[1])))
    head, new = (
        len(model.encode(text))
        for text in (HELP_DESK.head(), HELP_DESK.open_block(queries[1].text))
    )
    share = (
        EXPERTS
        * new
        / sum(len(model.encode(ask.prompt)) - head for ask in requests(context, queries[1]))
    )
    return (
        f"(b) second query, J={EXPERTS} experts of {shots}: {1e3 * min(second):.0f} ms after "
        f"{1e3 * min(first):.0f} ms: "
        f"ratio {min(second) / min(first):.2f} (goal 0.3; the query is {share:.2f} of the tokens)"
    )


def tokens_per_second(
    model: TransformersModel, prompts: list[tuple[int, ...]], tokens: int = 24
) -> float:
    """Decode by the sum of all experts' logits, each token through new asks one token longer than
    the last.
    """
    model.forget()
    said: tuple[int, ...] = ()
    begin = time.perf_counter()
    for _ in range(tokens):
        tables = model.answer([NextLogits(prompt + said) for prompt in prompts])
        said += (int(np.sum([table[-1] for table in tables], 0).argmax()),)
    return tokens / (time.perf_counter() - begin)


def decoding(model: TransformersModel, context: Context, queries: list[Query]) -> str:
    """(c) Token-by-token decoding, with what earlier calls left behind and without."""
    bare = TransformersModel(
        model.model, model.tokenizer, "pocket", "", replace(model.passes.budget, kept=0)
    )
    prompts = [model.encode(ask.prompt) for ask in requests(context, queries[0])]
    rounds = [
        (tokens_per_second(model, prompts), tokens_per_second(bare, prompts, 12)) for _ in range(4)
    ]
    kept, alone = (max(side) for side in zip(*rounds, strict=True))
    return (
        f"(c) decoding by J={EXPERTS} experts: {kept:.1f} tokens/s with the store, {alone:.1f} "
        "without: "
        f"ratio {kept / alone:.1f}"
    )


def main() -> None:
    model = load_pocket()
    context, queries = rows(1)
    model.answer(requests(context, queries[0]))
    print(f"{torch.get_num_threads()} threads")
    print(one_pass(model, context, queries))
    for shots in (1, 4):
        print(second_query(model, shots))
    print(decoding(model, context, queries))


if __name__ == "__main__":
    main()
