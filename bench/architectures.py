"""Which architectures of the installed transformers the local engine runs, and how exactly.

Small models with random weights, logits of a standard deviation of about 2; ragged batches, within
and beyond windows, that grow by a token, against one plain forward pass for each row.
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as NAMES

from leakbound.errors import TargetError
from leakbound.models import NextLogits
from leakbound.models.local import Budget, TransformersModel
from leakbound.models.local.engine.passes import Sharing
from leakbound.models.pocket import FOLDER

Ids = tuple[int, ...]
MOST = 3_000_000  # weights of a small model
SECONDS = 40  # for one architecture
SHAPE = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4,
         "num_key_value_heads": 2, "vocab_size": 512, "max_position_embeddings": 256,
         "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}  # fmt: skip
# made small where a configuration has them
SMALLER = {"moe_intermediate_size": 32, "shared_expert_intermediate_size": 32,
           "moe_shared_expert_intermediate_size": 32, "n_routed_experts": 4, "num_experts": 4,
           "num_local_experts": 4, "num_experts_per_tok": 2, "moe_topk": 2, "n_group": 1,
           "topk_group": 1, "kv_lora_rank": 16, "q_lora_rank": 16, "o_lora_rank": 16,
           "v_head_dim": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "head_dim": 8,
           "swa_head_dim": 8, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "ffn_dim": 64,
           "sliding_window": 16, "window_size": 16, "attention_chunk_size": 16,
           "sliding_window_size": 16, "local_attention": 16, "linear_key_head_dim": 8,
           "linear_value_head_dim": 8, "linear_num_key_heads": 4, "linear_num_value_heads": 4,
           "linear_head_dim": 8, "vocab_size_per_layer_input": 512,
           "hidden_size_per_layer_input": 8, "router_hidden_size": 16, "rel_extent": 16,
           "index_head_dim": 8, "index_n_heads": 2, "index_topk": 16, "ssm_state_size": 8,
           "state_size": 8, "chunk_size": 8, "num_mem_heads": 4,
           "expert_ffn_hidden_size": 32, "ffn_hidden_size": 64}  # fmt: skip
MAMBA = {"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 8, "mamba_n_groups": 1,
         "mamba_chunk_size": 8}  # fmt: skip
LONGROPE = {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0] * 4,
            "long_factor": [4.0] * 4, "original_max_position_embeddings": 32}  # fmt: skip
# what an architecture needs beside, or should have so that all its layers are tried
NEEDS: dict[str, dict[str, Any]] = {
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "num_hidden_layers": 2},
    "mistral": {"sliding_window": 16},
    "gptj": {"rotary_dim": 4}, "codegen": {"rotary_dim": 4},
    "phi3": {"rope_parameters": LONGROPE, "original_max_position_embeddings": 32},
    "mamba2": {"num_heads": 4, "head_dim": 16, "n_groups": 1},
    "bamba": MAMBA | {"attn_layer_indices": [1]}, "granitemoehybrid": MAMBA,
    "falcon_h1": MAMBA | {"mamba_d_ssm": 64},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "num_experts": 2},
    "recurrent_gemma": {"num_hidden_layers": 3}, "reformer": {"is_decoder": True},
    "hunyuan_v1_dense": {"head_dim": 8}, "hunyuan_v1_moe": {"head_dim": 8},
    "nemotron_h": {"mamba_num_heads": 8, "mamba_head_dim": 8, "n_groups": 1},
    "plbart": {"encoder_attention_heads": 4, "decoder_attention_heads": 4},
    "whisper": {"encoder_attention_heads": 4, "decoder_attention_heads": 4},
    "gemma3n_text": {"num_kv_shared_layers": 0, "laurel_rank": 8},
    "gemma4_text": {"num_kv_shared_layers": 0},
    "helium": {"head_dim": 8, "num_key_value_heads": 4},
    "minicpm3": {"num_key_value_heads": 4},
    "dots3_note_text": {"num_key_value_heads": 4},
    "lfm2": {"layer_types": ["conv", "full_attention"], "num_hidden_layers": 2},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_hidden_layers": 2},
}  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """What was found for one architecture."""

    kind: str
    outcome: str
    sentence: str = ""
    off: float = 0.0
    padded: float | None = None

    @property
    def row(self) -> str:
        off = "" if self.outcome == "refused" else f"{self.off:.0e}"
        padded = "" if self.outcome == "refused" else _as_found(self.padded)
        return f"| `{self.kind}` | {self.outcome} | {off} | {padded} | {self.sentence} |"


def _as_found(padded: float | None) -> str:
    return "fails" if padded is None else f"{padded:.0e}" if padded < 1e-3 else f"{padded:.2f}"


def small(kind: str) -> Any:
    """A configuration of a few thousand weights in which every type of layer occurs."""
    base = AutoConfig.for_model(kind)
    options = SHAPE | {n: v for n, v in SMALLER.items() if _is_size(vars(base).get(n))}
    if "kv_lora_rank" in options:  # its heads have no keys of their own
        options |= {"num_key_value_heads": 4, "head_dim": options["qk_rope_head_dim"]}
    types = list(dict.fromkeys(getattr(base, "layer_types", None) or ()))
    count = max(2, len(types))
    if types:
        options["layer_types"] = (types * 2)[:count]
    options["num_hidden_layers"] = count
    return _made(kind, {**options, **NEEDS.get(kind, {})})


def _made(kind: str, options: dict[str, Any]) -> Any:
    """A configuration, without what it computes by itself."""
    try:
        return AutoConfig.for_model(kind, **options)
    except AttributeError as error:
        fixed = re.match(r"property '(\w+)' of .* has no setter", str(error))
        if fixed is None:
            raise
        name = "layer_types" if fixed[1] == "layers_block_type" else fixed[1]
        return _made(kind, {n: v for n, v in options.items() if n != name})


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def network(kind: str) -> Any:
    """A small model with random weights; ValueError if it is not small."""
    config = small(kind)
    with torch.device("meta"):
        count = sum(p.numel() for p in AutoModelForCausalLM.from_config(config).parameters())
    if count > MOST:
        raise ValueError(f"{count:,} weights")
    torch.manual_seed(3)
    net = AutoModelForCausalLM.from_config(config).float().eval()
    for parameter in net.parameters():
        parameter.data.normal_(0, 0.2)
    return net


def scale(net: Any) -> None:
    """Give logits a standard deviation of about 2, where the last layer can be reached."""
    head = net.get_output_embeddings()
    if head is not None:
        head.weight.data.mul_(2 / plain(net, tuple(range(3, 40))).std())


def plain(net: Any, row: Ids) -> np.ndarray[Any, Any]:
    with torch.inference_mode():
        found = net(input_ids=torch.tensor([row]), use_cache=False).logits[0]
    return np.asarray(found.float().numpy())


def batches(rng: np.random.Generator) -> Iterator[list[Ids]]:
    """Ragged rows, some with a common beginning, some as long as others; then the same, grown."""
    head = ids(rng, 14)
    rows = [ids(rng, 4), *(head + ids(rng, n) for n in (3, 9, 15, 26, 26, 40)), ids(rng, 70)]
    yield rows
    yield [row + ids(rng, 1) for row in rows]


def ids(rng: np.random.Generator, length: int) -> Ids:
    return tuple(rng.integers(3, 512, length).tolist())


def difference(net: Any, tokenizer: Any, sharing: Sharing | None) -> tuple[float, Sharing]:
    """Largest difference of a logit from plain passes."""
    budget = Budget(1 << 20, 1 << 30, 512)
    model, worst = TransformersModel(net, tokenizer, "It", "0", budget, sharing), 0.0
    for rows in batches(np.random.default_rng(1)):
        got = model.answer([NextLogits(row[:-2], row[-2:]) for row in rows])
        for one, row in zip(got, rows, strict=True):
            off = np.abs(one - plain(net, row)[-3:]).max()
            worst = float("inf") if np.isnan(off) else max(worst, float(off))
    return worst, model.passes.sharing


def measure(kind: str, tokenizer: Any) -> Measured:
    """The outcome for one architecture; whatever a configuration raises goes through."""
    net = network(kind)
    scale(net)
    try:
        off, sharing = difference(net, tokenizer, None)
    except TargetError as error:
        return Measured(kind, "refused", str(error).split(") ", 1)[-1])
    try:
        padded: float | None = difference(net, tokenizer, Sharing())[0]
    except Exception:
        padded = None
    return Measured(kind, sharing.outcome, sharing.sentence, off, padded)


def measure_all(kinds: Iterable[str]) -> tuple[list[Measured], list[str]]:
    """What was found, and architectures that have no small form here."""
    tokenizer = PreTrainedTokenizerFast.from_pretrained(FOLDER)
    found, missing = [], []
    signal.signal(signal.SIGALRM, _too_long)
    for kind in kinds:
        signal.alarm(SECONDS)
        try:
            found.append(measure(kind, tokenizer))
            print(found[-1].row, flush=True)
        except Exception as error:
            missing.append(kind)
            print(kind, type(error).__name__, str(error)[:120], file=sys.stderr, flush=True)
        finally:
            signal.alarm(0)
    return found, missing


def _too_long(*_: object) -> None:
    raise TimeoutError(f"more than {SECONDS} s")


def page(found: list[Measured], missing: list[str]) -> str:
    """The page."""
    count = {o: sum(m.outcome == o for m in found) for o in sorted({m.outcome for m in found})}
    total = ", ".join(f"{number} {outcome}" for outcome, number in count.items())
    worst = max((m.off for m in found), default=0.0)
    order = ["exact", "equal lengths only", "refused"]
    rows = sorted(found, key=lambda m: (order.index(m.outcome), m.kind))
    table = "\n".join(m.row for m in rows)
    absent = ", ".join(f"`{kind}`" for kind in missing)
    return TEXT.format(
        version=transformers.__version__, all=len(found), total=total, worst=worst, table=table,
        absent=absent,
    )  # fmt: skip


TEXT = """# Architectures of local models

When leakbound loads a local model, it checks its own engine against the model. A ragged batch, rows
that go on from stored keys and values, rows that grow by a token, and rows longer than any window
are compared with one plain forward pass for each row. The first way of sharing passes that changes
no answer is used. The provenance of a record names it (`computation`).

- **exact**: rows of different lengths share a pass, a common beginning is computed once, and
  answers are those of plain passes. Rows that are longer than a window share a pass with rows of
  equal length.
- **equal lengths only**: rows share a pass with rows of equal length only, because padding would
  change what a row sees. Recurrent and hybrid models are run without keys and values.
  In bfloat16 and float16 what padding may change is measured by what rounding changes without it.
- **refused**: the model is not causal, or needs more than token ids.

The table was written by `python bench/architectures.py --write docs/measured/architectures.md` with
transformers {version}: {all} causal architectures, {total}. Each is a small model with random
weights and logits of a standard deviation of about 2, over ragged batches within and beyond a
window of 16 tokens. "Off by" is the largest difference of any logit from plain passes of single
rows without keys and values (at most {worst:.0e}). "If padded" is the same difference if all models
were run as Llama is.

| model type | outcome | off by | if padded | what is done otherwise |
| --- | --- | --- | --- | --- |
{table}

The command knows no small form of these, so they are not in the table. They are checked when they
are loaded, as every model is: {absent}.

## Speed and memory

`python bench/audit_speed.py --old FOLDER` feeds the prompts of audits to this engine, to the first
release and to this engine one by one, in CPU seconds, with the number of tokens that went through
the model. On a shape of 125 million parameters, over contexts of 20 examples with a canary that
stands late, labels are scored 1.70 times as fast as by the first release (2,059 tokens against
3,671), and 1.57 times as fast as one by one. The aim was 1.5 times, and never slower than one by
one. It is missed elsewhere: labels where the canary stands anywhere, 1.21 and 1.45 times; answers
with a late canary, 1.07 and 1.39 times, because the first release ran as few tokens there; answers
of the pocket model, 1.04 and .98 times. Scores differ from those of single requests by rounding
(4e-6). Token-forwards are at most 1.02 times the minimum of the prefix tree and two a prompt,
unless a few more save passes (`tests/models/test_grouping.py`).

`python bench/memory_budget.py` reads the peak of a process with `--memory X` from outside, mapped
files included. The pocket model stayed at 0.95 of 486 MB, and the shape of 125 million parameters
(478 MB of weights) at 1.02 of 956 MB. Budgets that leave less than 64 MB beside Python, torch and
the weights are refused at load, as is 1.2 times the weights of so small a model. Prompts that do
not fit a budget are refused before they are run.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the page")
    parser.add_argument("kinds", nargs="*", help="model types [default: all]")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.utils.logging.set_verbosity(50)
    found, missing = measure_all(args.kinds or sorted(NAMES))
    if args.write:
        args.write.write_text(page(found, missing))
    print(f"{len(found)} architectures measured, {len(missing)} without a small form")
    return 0 if all(m.off < 1e-3 for m in found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
