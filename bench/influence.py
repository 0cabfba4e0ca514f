"""Influence of the blocks of a long context against a naive twin: one full forward pass per response token and ablation.

The twin does what the published program does: for every response token a batch of prompts without one block each, with and
without the context, all of them run whole, logits made at every position, nothing kept. It is run for `--twin` response tokens
only, spread over the response, and its time is extrapolated to all of them (a straight line in the length of the prompt).
The model has the shape of OPT-125M and random weights in float32: its numbers mean nothing, its times do.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import torch
from transformers import OPTConfig, OPTForCausalLM, PreTrainedTokenizerFast

from contextleak.influence import Law, Parts, blocks, measure
from contextleak.models.pocket import FOLDER
from contextleak.models.transformers import TransformersModel

Ids = tuple[int, ...]


def build(layers: int) -> TransformersModel:
    """A random model of the shape of OPT-125M (12 layers)."""
    torch.manual_seed(0)
    model = OPTForCausalLM(OPTConfig(num_hidden_layers=layers)).eval()
    return TransformersModel(model, PreTrainedTokenizerFast.from_pretrained(FOLDER), "opt-125m shape", "0")


def twin(model: TransformersModel, prompts: list[Ids], said: Ids, batch: int) -> torch.Tensor:
    """(prompts, vocabulary) ln p of the next token: full passes in batches, logits at every position, no cache."""
    rows, out = [prompt + said for prompt in prompts], []
    for at in range(0, len(rows), batch):
        part = rows[at : at + batch]
        width = max(map(len, part))
        ids = torch.tensor([list(row) + [1] * (width - len(row)) for row in part])  # padded behind: causal, so unseen
        with torch.inference_mode():
            logits = model.model(input_ids=ids, use_cache=False).logits
        out += [logits[i, len(row) - 1].double().log_softmax(-1) for i, row in enumerate(part)]
    return torch.stack(out)


def run_twin(
    model: TransformersModel, parts: Parts, response: Ids, spans: Any, tokens: int, batch: int
) -> tuple[float, dict[int, Any]]:
    """Seconds for the whole response, extrapolated, and signed influence (spans,) at the tokens that were run."""
    places = sorted(set(np.linspace(0, len(response) - 1, tokens).round().astype(int).tolist()))
    prompts = [parts.without(span) for span in spans] + [parts.without(), parts.without(parts.whole)]
    seconds, found = [], {}
    for t in places:
        begin = time.perf_counter()
        log_p = twin(model, prompts, response[:t], batch)[:, response[t]]
        found[t] = (log_p[len(spans)] - log_p[: len(spans)]).numpy()
        seconds.append(time.perf_counter() - begin)
    line = np.polyfit(places, seconds, 1) if len(places) > 1 else (0.0, seconds[0])
    return float(np.polyval(line, np.arange(len(response))).sum()), found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in (("context", 1024), ("n", 128), ("response", 50), ("twin", 2), ("batch", 8), ("layers", 12)):
        parser.add_argument(f"--{name}", type=int, default=value, help=f"[default: {value}]")
    a = parser.parse_args()
    model, rng = build(a.layers), np.random.default_rng(0)
    draw = lambda size: tuple(rng.integers(4, 50_000, size).tolist())  # noqa: E731
    parts, response, spans = Parts((2, *draw(7)), draw(a.context), draw(16)), draw(a.response), blocks(a.context, a.n)
    measure(model, Parts((2,), draw(30), draw(4)), draw(2), [(0, 8)], [Law()])  # warm up
    times, signed = {}, {}
    for lam in (1.0, 0.5):
        model.forget()
        begin = time.perf_counter()
        signed[lam] = measure(model, parts, response, spans, [Law(lam)]).signed[0]
        times[lam] = time.perf_counter() - begin
        print(f"contextleak, lambda = {lam:g}: {times[lam]:.1f} s, its noise floor included", flush=True)
    whole, found = run_twin(model, parts, response, spans, a.twin, a.batch)
    apart = max(float(np.abs(signed[1.0][:, t] - want).max()) for t, want in found.items())
    print(
        f"|D| = {a.context}, n = {a.n}, |y| = {a.response}, {len(spans)} ablations, {torch.get_num_threads()} threads, float32:\n"
        f"naive twin {whole:.0f} s (extrapolated from {len(found)} of {a.response} response tokens): "
        f"{whole / times[1.0]:.0f} times as long at lambda = 1, {whole / times[0.5]:.0f} times at lambda = 0.5; "
        f"influences differ by at most {apart:.1g}"
    )


if __name__ == "__main__":
    main()
