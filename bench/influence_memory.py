"""Influence over a context of 16,384 tokens within a memory budget: the peak of the process, and
the time, for each budget.

Each budget is run in a process of its own, whose peak the operating system reports. The model is a
random Llama shape of 6 layers
(512 wide, 24.6 KB of keys and values a token in float32): its numbers mean nothing, its memory
does.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time

import numpy as np

CONTEXT, N, RESPONSE = 16_384, 2_048, 20


def child(memory: int) -> None:
    import torch
    from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedTokenizerFast

    from leakbound.attribution import PromptParts, TokenDistribution, blocks, measure
    from leakbound.models.local import Budget, TransformersModel
    from leakbound.models.pocket import FOLDER

    torch.manual_seed(0)
    shape = LlamaConfig(hidden_size=512, intermediate_size=1536, num_hidden_layers=6,
                        num_attention_heads=8, max_position_embeddings=20_000,
                        vocab_size=32_000)  # fmt: skip
    net = AutoModelForCausalLM.from_config(shape).eval()
    budget = Budget.of(net, memory)
    model = TransformersModel(
        net, PreTrainedTokenizerFast.from_pretrained(FOLDER), "llama shape", "0", budget
    )
    rng = np.random.default_rng(0)
    draw = lambda size: tuple(rng.integers(4, 32_000, size).tolist())  # noqa: E731
    begin = time.perf_counter()
    found = measure(
        model,
        PromptParts((1,), draw(CONTEXT), draw(16)),
        draw(RESPONSE),
        blocks(CONTEXT, N),
        [TokenDistribution()],
        with_tolerance=False,
    )
    seconds, peak = (
        time.perf_counter() - begin,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10,
    )
    print(f"{memory} {peak} {seconds} {np.abs(found.signed).sum():.6f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memory", type=float, nargs="*", default=[4.0, 1.8], help="budgets in GB")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.child:
        child(a.child)
        return
    for gigabytes in a.memory:
        command = [sys.executable, __file__, "--child", str(int(gigabytes * 2**30))]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[
            -4:
        ]
        peak, seconds, total = int(said[1]) / 2**30, float(said[2]), said[3]
        print(
            f"|D| = {CONTEXT}, n = {N}, |y| = {RESPONSE}, --memory {gigabytes:g}GB: peak "
            f"{peak:.2f} GB ({'under' if peak <= gigabytes else 'OVER'} "
            f"the budget), {seconds:.0f} s, sum of influence {total}",
            flush=True,
        )


if __name__ == "__main__":
    main()
