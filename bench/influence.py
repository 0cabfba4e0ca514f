"""Influence of the spans of a long context: its time, against the machine's own matrix products,
and in bfloat16.

Models have random weights: their numbers mean nothing, their times do. Other programs are compared
in influence_speed.py.

The share of the machine: multiply-adds of the linear layers for every token that exactness needs
(the whole prompt, the prompt without context, and for each span what stands behind it), over the
time taken, over the rate of a large product of matrices in the same number format. Attention and
logits are not counted as work, so they lower the share.
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
    """One setting: the time, and the share of the machine."""
    parts, response, spans = case(model, a, stride)
    ours, found = timed(
        model,
        lambda: measure(model, parts, response, spans, [TokenDistribution()], with_tolerance=False),
    )
    tokens, rate = needed(parts, response, spans), matmul_rate(model)
    return {
        "model": model.name, "dtype": str(model.model.dtype).removeprefix("torch."),
        "hardware": hardware(model), "threads": torch.get_num_threads(), "context": a.context,
        "n": a.n, "stride": stride or a.n, "spans": len(spans), "response": a.response,
        "seconds": ours, "tokens_needed": tokens,
        "share_of_matmul": tokens * multiply_adds(model) / ours / rate,
        "matmul_multiply_adds_per_s": rate, "signed": found.signed[0],
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
        f"({r['spans']} spans), |y| = {r['response']}\n  {r['seconds']:.1f} s\n"
        f"  {r['share_of_matmul']:.0%} of the rate of a large matrix product "
        f"({2 * r['matmul_multiply_adds_per_s'] / 1e9:.0f} GFLOP/s) on the "
        f"{r['tokens_needed']} token-forwards that exactness needs"
    )


def reduced(
    model: TransformersModel, a: Any, stride: int | None, base: dict[str, Any]
) -> dict[str, Any]:
    """The same in bfloat16, with the error that it costs."""
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
        "share_of_matmul": base["tokens_needed"] * multiply_adds(model) / ours / rate,
        "largest_error": float(np.abs(found.signed[0] - base["signed"]).max()),
        "mean_influence": float(np.abs(base["signed"]).mean()),
        "mean_error": float(np.abs(found.signed[0] - base["signed"]).mean()),
    }  # fmt: skip


PARTS = {  # operations by what they are for; the product with the output head is told by its shape
    "aten::addmm": "linear layers", "aten::mm": "linear layers", "aten::bmm": "attention",
    "aten::_scaled_dot_product_flash_attention_for_cpu": "attention",
    "aten::cat": "copies of kept keys and values", "aten::copy_": "other copies",
    "aten::index_select": "copies of kept keys and values",
}  # fmt: skip


def profiled(model: TransformersModel, a: Any) -> dict[str, Any]:
    """Exact mode in disjoint blocks: its share of the machine in CPU seconds, and where they go."""
    parts, response, spans = case(model, a, None)

    def run() -> Any:
        model.forget()
        own = [TokenDistribution()]
        return measure(model, parts, response, spans, own, with_tolerance=False)

    size = 4096
    left, right = torch.randn(size, size), torch.randn(size, size)
    products = [cpu_seconds(lambda: torch.mm(left, right)) for _ in range(4)][1:]
    taken, tokens = cpu_seconds(run), needed(parts, response, spans)
    rate = size**3 / min(products)
    with torch.profiler.profile(record_shapes=True) as found:
        run()
    vocabulary, split = model.model.config.vocab_size, dict.fromkeys(PARTS.values(), 0.0)
    for event in found.key_averages(group_by_input_shape=True):
        part = PARTS.get(event.key, "activations, norms and all else")
        if event.key == "aten::mm" and any(vocabulary in shape for shape in event.input_shapes):
            part = "logits"
        split[part] = split.get(part, 0.0) + event.self_cpu_time_total
    every = sum(split.values())
    return {
        "context": a.context, "blocks": len(spans), "answer": a.response, "seconds": taken,
        "tokens": tokens, "share": tokens * multiply_adds(model) / taken / rate,
        "gflops": 2 * rate / 1e9,
        "split": {part: one / every for part, one in sorted(split.items(), key=lambda i: -i[1])},
    }  # fmt: skip


def cpu_seconds(call: Callable[[], Any]) -> float:
    begin = time.process_time()
    call()
    return time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in (
        ("context", 1024),
        ("n", 128),
        ("response", 50),
    ):
        parser.add_argument(f"--{name}", type=int, default=value, help=f"[default: {value}]")
    parser.add_argument("--shape", choices=SHAPES, default="opt-125m")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--layers", type=int, help="fewer layers, for a quick look (OPT)")
    parser.add_argument("--blocks-only", action="store_true", help="leave out windows of stride 1")
    parser.add_argument("--profile", action="store_true", help="show where the time goes, as JSON")
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
    if a.profile:
        torch.set_num_threads(1)
        print(json.dumps(profiled(model, a)))
        return
    kept = []
    for stride in (None,) if a.blocks_only else (None, 1):
        found = compare(model, a, stride)
        print(told(found), flush=True)
        if a.device == "cpu" and a.dtype == "float32":
            half = reduced(model, a, stride, found)
            found["bfloat16"] = half
            print(
                f"  bfloat16: {half['seconds']:.1f} s, "
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
