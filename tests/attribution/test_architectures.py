"""The prefix-sharing engine against one plain forward pass per ablation, for architectures built at
random in float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast  # noqa: E402

from leakbound.attribution import PromptParts, TokenDistribution, blocks, measure  # noqa: E402
from leakbound.models.local import Budget, TransformersModel  # noqa: E402
from leakbound.models.pocket import FOLDER  # noqa: E402

pytestmark = pytest.mark.torch

TINY = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 512,
        "max_position_embeddings": 256, "pad_token_id": 0, "bos_token_id": 1,
        "eos_token_id": 2}  # fmt: skip
WIDE = {"intermediate_size": 64}
SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama, rotary": ("llama", {**WIDE, "num_key_value_heads": 2}),
    "llama, rotary, tied head": (
        "llama",
        {**WIDE, "num_key_value_heads": 2, "tie_word_embeddings": True},
    ),
    "opt, absolute": ("opt", {"ffn_dim": 64, "word_embed_proj_dim": 32}),
    "opt, absolute, own head": (
        "opt",
        {"ffn_dim": 64, "word_embed_proj_dim": 32, "tie_word_embeddings": False},
    ),
    "gpt2, absolute, tied head": ("gpt2", {}),
    "gpt_neox, part rotary": ("gpt_neox", WIDE),
    "gemma, tied head": ("gemma", {**WIDE, "num_key_value_heads": 1, "head_dim": 8}),
    "qwen2": ("qwen2", {**WIDE, "num_key_value_heads": 2}),
    "mistral, sliding window": (
        "mistral",
        {**WIDE, "num_key_value_heads": 2, "sliding_window": 24},
    ),
}
LAWS = (
    TokenDistribution(),
    TokenDistribution(0.5, 0.8, banned=(0, 7)),
    TokenDistribution(1.5, 1.0, banned_early=(2,), min_tokens=3),
    TokenDistribution(0.0),
)


PLENTY = Budget(256 << 20, 1 << 30, 512)
TIGHT = Budget(
    20_000, 1 << 20, 16
)  # rows are run in pieces of 16 tokens, and of a stored row only the beginning fits


def build(
    name: str, budget: Budget = PLENTY, dtype: Any = torch.float32, seed: int = 5
) -> TransformersModel:
    kind, shape = SHAPES[name]
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **{**TINY, **shape})).eval()
    for parameter in model.parameters():
        parameter.data.normal_(0, 0.15)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(FOLDER)
    return TransformersModel(model.to(dtype), tokenizer, kind, "0", budget)


def naive(
    model: TransformersModel, prompt: tuple[int, ...], response: tuple[int, ...]
) -> np.ndarray[Any, Any]:
    """(tokens, vocabulary) logits of the response tokens, from one forward pass over this row
    alone.
    """
    with torch.inference_mode():
        logits = (
            model.model(input_ids=torch.tensor([prompt + response]), use_cache=False)
            .logits[0]
            .double()
            .numpy()
        )
    return logits[len(prompt) - 1 : -1]


def by_hand(
    distribution: TokenDistribution,
    context: np.ndarray[Any, Any],
    prior: np.ndarray[Any, Any],
    response: tuple[int, ...],
) -> list[float]:
    out = []
    for t, token in enumerate(response):
        row = (
            distribution.lam * context[t] + (1 - distribution.lam) * prior[t]
        ) / distribution.temperature
        row[list(distribution.banned_at(t))] = -np.inf
        out.append(float(row[token] - row.max() - np.log(np.exp(row - row.max()).sum())))
    return out


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize(
    ("distributions", "budget"),
    [(LAWS, PLENTY), (LAWS[:1], PLENTY), (LAWS[:1], TIGHT)],
    ids=["logits", "scores", "pieces"],
)
def test_equal_to_one_plain_pass_per_ablation(
    name: str, distributions: tuple[TokenDistribution, ...], budget: Budget
) -> None:
    model, rng = build(name, budget), np.random.default_rng(2)
    head, context, tail, response = (
        tuple(rng.integers(8, 512, size).tolist()) for size in (6, 75, 9, 5)
    )
    parts = PromptParts((1, *head), context, tail)
    spans = [*blocks(75, 8), *blocks(75, 20, 7), (30, 31), parts.whole]
    found = measure(model, parts, response, spans, distributions)
    prior = naive(model, parts.without(parts.whole), response)
    full = naive(model, parts.without(), response)
    for at, distribution in enumerate(distributions):
        np.testing.assert_allclose(
            found.full[at], by_hand(distribution, full, prior, response), atol=1e-4
        )
        for i, span in enumerate(spans):
            want = by_hand(
                distribution, naive(model, parts.without(span), response), prior, response
            )
            np.testing.assert_allclose(found.ablated[at, i], want, atol=1e-4)
        if distribution.lam == 0:
            assert (found.signed[at] == 0).all()
    assert (found.tolerance < 1e-4).all()


FEW = ("qwen2", "gemma, tied head", "mistral, sliding window")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=["bfloat16", "float32"])
@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=[] if one in FEW else pytest.mark.slow) for one in SHAPES]
)
def test_the_numerical_tolerance_covers_the_difference_to_plain_passes(
    name: str, dtype: Any
) -> None:
    """In 16 bits it was 0 or near it in most runs, where influences were off by up to .15 nat."""
    off = list[bool]()
    for seed in range(3):
        model, rng = build(name, dtype=dtype, seed=seed), np.random.default_rng(seed)
        size = int(rng.integers(30, 90))
        context = tuple(rng.integers(3, 500, size).tolist())
        response = tuple(rng.integers(3, 500, 6).tolist())
        parts, spans = PromptParts((1, 5), context, (7, 9, 11)), blocks(size, 6)
        found = measure(
            model, parts, response, spans, [TokenDistribution()], rounding=model.rounding
        )

        def alone(*removed: tuple[int, int]) -> Any:
            logits = naive(model, parts.without(*removed), response)  # noqa: B023
            table = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
            return table[np.arange(len(response)), list(response)]  # noqa: B023

        plain = np.array([np.abs(alone() - alone(span)) for span in spans])
        off += (np.abs(plain - np.abs(found.signed[0])) > found.tolerance[0]).ravel().tolist()
    assert sum(off) <= 0.01 * len(off)
