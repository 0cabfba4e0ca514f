"""Influence of the spans of a long context: against a naive twin, against the machine's own matrix
products, in bfloat16.

The twin does what the published program does: for every response token a batch of prompts without
one span each, with and
without the context, all of them run whole, logits made at every position, nothing kept. It is run
for some response tokens
and, of overlapping windows, some batches of spans (all are equally long), and its time is
extrapolated: a straight line in the
length of the prompt, and as many batches as there are. Models have random weights: their numbers
mean nothing, their times do.

The share of the machine: multiply-adds of the linear layers for every token that exactness needs
(the whole prompt, the
prompt without context, and for each span what stands behind it), over the time taken, over the rate
of a large product of
matrices in the same number format. Attention and logits are not counted as work, so they lower the
share.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from leakbound.attribution import PromptParts, TokenDistribution, blocks, measure
from leakbound.models.local import TransformersModel
from leakbound.models.pocket import FOLDER

Ids = tuple[int, ...]
RESULTS = Path(__file__).parent / "results"
SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "opt-125m": ("opt", {}),
    "llama-8b": ("llama", {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
                           "num_attention_heads": 32, "num_key_value_heads": 8,
                           "vocab_size": 128256, "max_position_embeddings": 8192}),
}  # fmt: skip


def build(
    shape: str, dtype: torch.dtype, device: str, layers: int | None = None
) -> TransformersModel:
    """A model of a known shape with random weights."""
    kind, known = SHAPES[shape]
    config = AutoConfig.for_model(
        kind, **known, **({"num_hidden_layers": layers} if layers and not known else {})
    )
    torch.manual_seed(0)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype).eval()
    return TransformersModel(model, PreTrainedTokenizerFast.from_pretrained(FOLDER), shape, "0")


def clock(model: TransformersModel) -> float:
    """Seconds, once the device has done what it was given."""
    if model.model.device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def timed(model: TransformersModel, call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds and result, nothing being known from earlier calls."""
    model.forget()
    begin = clock(model)
    result = call()
    return clock(model) - begin, result


def twin(model: TransformersModel, prompts: list[Ids], said: Ids, batch: int) -> torch.Tensor:
    """(prompts, vocabulary) ln p of the next token:

    full passes in batches, logits at every position, no cache.
    """
    rows, out = [prompt + said for prompt in prompts], []
    for at in range(0, len(rows), batch):
        part = rows[at : at + batch]
        width = max(map(len, part))
        ids = torch.tensor(
            [list(row) + [1] * (width - len(row)) for row in part]
        )  # padded behind: causal, so unseen
        with torch.inference_mode():
            logits = model.model(input_ids=ids.to(model.model.device), use_cache=False).logits
        out += [logits[i, len(row) - 1].float().log_softmax(-1) for i, row in enumerate(part)]
    return torch.stack(out)


def run_twin(
    model: TransformersModel, parts: PromptParts, response: Ids, spans: list[Any], a: Any
) -> tuple[float, float, Any]:
    """Seconds for everything (extrapolated), the share of it that was run, and {token: {span:

    signed influence}}.
    """
    some = (
        spans
        if len(spans) <= a.twin_spans
        else [spans[i] for i in np.linspace(0, len(spans) - 1, a.twin_spans).astype(int)]
    )
    places = sorted(set(np.linspace(0, len(response) - 1, a.twin).round().astype(int).tolist()))
    prompts = [parts.without(span) for span in some] + [parts.without(), parts.without(parts.whole)]
    seconds, found = [], {}
    for t in places:
        begin = clock(model)
        log_p = twin(model, prompts, response[:t], a.batch)[:, response[t]].cpu().numpy()
        seconds.append((clock(model) - begin) * (len(spans) + 2) / len(prompts))
        found[t] = dict(zip(some, log_p[len(some)] - log_p[: len(some)], strict=True))
    line = np.polyfit(places, seconds, 1) if len(places) > 1 else (0.0, seconds[0])
    whole = float(np.polyval(line, np.arange(len(response))).sum())
    return whole, len(places) * len(prompts) / (len(response) * (len(spans) + 2)), found


def needed(parts: PromptParts, response: Ids, spans: list[Any]) -> int:
    """Tokens that no exact method can leave out:

    what stands behind each span, and the two prompts themselves.
    """
    after = len(parts.tail) + len(response)
    whole = len(parts.head) + len(parts.context) + after
    return (
        whole + len(parts.head) + after + sum(len(parts.context) - end + after for _, end in spans)
    )


def multiply_adds(model: TransformersModel) -> int:
    """Of the linear layers for one token, without the head."""
    head = model.model.get_output_embeddings()
    layers = [m for m in model.model.modules() if isinstance(m, torch.nn.Linear) and m is not head]
    return sum(m.weight.numel() for m in layers)


def matmul_rate(model: TransformersModel, size: int = 4096) -> float:
    """Multiply-adds a second of a product of two large matrices: the best of three."""
    a, b = (
        torch.randn(size, size, device=model.model.device).to(model.model.dtype) for _ in range(2)
    )
    times = []
    for _ in range(4):
        begin = clock(model)
        torch.mm(a, b)
        times.append(clock(model) - begin)
    return float(size**3 / min(times[1:]))


def case(
    model: TransformersModel, a: Any, stride: int | None
) -> tuple[PromptParts, Ids, list[Any]]:
    rng = np.random.default_rng(0)
    draw = lambda size: tuple(rng.integers(4, 50_000, size).tolist())  # noqa: E731
    return (
        PromptParts((2, *draw(7)), draw(a.context), draw(16)),
        draw(a.response),
        list(blocks(a.context, a.n, stride)),
    )


def compare(model: TransformersModel, a: Any, stride: int | None) -> dict[str, Any]:
    """One setting: ours, the share of the machine, the twin, their difference."""
    parts, response, spans = case(model, a, stride)
    ours, found = timed(
        model,
        lambda: measure(model, parts, response, spans, [TokenDistribution()], with_tolerance=False),
    )
    tokens, rate = needed(parts, response, spans), matmul_rate(model)
    whole, share, theirs = run_twin(model, parts, response, spans, a)
    at = {span: i for i, span in enumerate(spans)}
    apart = max(
        abs(found.signed[0][at[s], t] - v) for t, row in theirs.items() for s, v in row.items()
    )
    return {
        "model": model.name, "dtype": str(model.model.dtype).removeprefix("torch."),
        "hardware": hardware(model), "threads": torch.get_num_threads(), "context": a.context,
        "n": a.n, "stride": stride or a.n, "spans": len(spans), "response": a.response,
        "seconds": ours, "tokens_needed": tokens,
        "share_of_matmul": tokens * multiply_adds(model) / ours / rate,
        "matmul_multiply_adds_per_s": rate, "twin_seconds": whole, "twin_share_run": share,
        "times_faster": whole / ours, "largest_difference": float(apart), "signed": found.signed[0],
    }  # fmt: skip


def hardware(model: TransformersModel) -> str:
    if model.model.device.type == "cuda":
        return torch.cuda.get_device_name(model.model.device)
    cpu = Path("/proc/cpuinfo")
    names = (
        [
            line.split(":")[1].strip()
            for line in cpu.read_text().splitlines()
            if line.startswith("model name")
        ]
        if cpu.exists()
        else []
    )
    return names[0] if names else platform.processor() or "CPU"


def told(r: dict[str, Any]) -> str:
    return (
        f"{r['model']} shape, {r['dtype']}, {r['hardware']}, {r['threads']} threads: |D| = "
        f"{r['context']}, n = {r['n']}, stride {r['stride']} "
        f"({r['spans']} spans), |y| = {r['response']}\n  {r['seconds']:.1f} s; naive twin "
        f"{r['twin_seconds']:.0f} s (extrapolated, "
        f"{r['twin_share_run']:.2%} of it run): {r['times_faster']:.0f} times faster; influences "
        f"differ by at most {r['largest_difference']:.1g}\n"
        f"  {r['share_of_matmul']:.0%} of the rate of a large matrix product "
        f"({2 * r['matmul_multiply_adds_per_s'] / 1e9:.0f} GFLOP/s) on the "
        f"{r['tokens_needed']} token-forwards that exactness needs"
    )


def reduced(
    model: TransformersModel, a: Any, stride: int | None, base: dict[str, Any]
) -> dict[str, Any]:
    """The same in bfloat16, beside the float32 twin, with the error that it costs."""
    parts, response, spans = case(model, a, stride)
    model.model.to(torch.bfloat16)
    ours, found = timed(
        model,
        lambda: measure(model, parts, response, spans, [TokenDistribution()], with_tolerance=False),
    )
    rate = matmul_rate(model)
    model.model.to(torch.float32)
    return {
        "dtype": "bfloat16", "seconds": ours,
        "times_faster_than_float32_twin": base["twin_seconds"] / ours,
        "share_of_matmul": base["tokens_needed"] * multiply_adds(model) / ours / rate,
        "largest_error": float(np.abs(found.signed[0] - base["signed"]).max()),
        "mean_influence": float(np.abs(base["signed"]).mean()),
        "mean_error": float(np.abs(found.signed[0] - base["signed"]).mean()),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in (
        ("context", 1024),
        ("n", 128),
        ("response", 50),
        ("twin", 2),
        ("twin-spans", 14),
        ("batch", 8),
    ):
        parser.add_argument(f"--{name}", type=int, default=value, help=f"[default: {value}]")
    parser.add_argument("--shape", choices=SHAPES, default="opt-125m")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--layers", type=int, help="fewer layers, for a quick look (OPT)")
    parser.add_argument("--blocks-only", action="store_true", help="leave out windows of stride 1")
    parser.add_argument(
        "--write",
        action="store_true",
        help="keep the figures in bench/results under the hardware's name",
    )
    a = parser.parse_args()
    if a.device == "cuda" and not torch.cuda.is_available():
        print(f"{a.shape} shape, {a.dtype}: no GPU here, so its figure is not measured")
        return
    model = build(a.shape, getattr(torch, a.dtype), a.device, a.layers)
    measure(
        model,
        PromptParts((2,), tuple(range(4, 34)), (5, 6)),
        (7, 8),
        [(0, 8)],
        [TokenDistribution()],
    )  # warm up
    kept = []
    for stride in (None,) if a.blocks_only else (None, 1):
        found = compare(model, a, stride)
        print(told(found), flush=True)
        if a.device == "cpu" and a.dtype == "float32":
            half = reduced(model, a, stride, found)
            found["bfloat16"] = half
            print(
                f"  bfloat16: {half['seconds']:.1f} s, "
                f"{half['times_faster_than_float32_twin']:.0f} times faster than the float32 "
                "twin, "
                f"{half['share_of_matmul']:.0%} of its matrix product's rate; error at most "
                f"{half['largest_error']:.2g}, {half['mean_error']:.2g} in "
                f"the mean, where the mean influence is {half['mean_influence']:.2g}",
                flush=True,
            )
        kept.append({k: v for k, v in found.items() if k != "signed"})
    if a.write:
        RESULTS.mkdir(exist_ok=True)
        name = "".join(c if c.isalnum() else "-" for c in hardware(model).lower()).strip("-")
        (RESULTS / f"influence-{a.shape}-{name}.json").write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
