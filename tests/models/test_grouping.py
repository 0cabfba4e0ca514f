"""A batch runs about as few tokens as the tree of its prefixes has, and costs no more than its
requests one by one, where a pass costs as much as some tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast  # noqa: E402

from leakbound.models import NextLogits, ScoreTokens  # noqa: E402
from leakbound.models.local import Budget, TransformersModel  # noqa: E402
from leakbound.models.local.engine.passes import PASS, Sharing  # noqa: E402
from leakbound.models.pocket import FOLDER  # noqa: E402

pytestmark = pytest.mark.torch

Ids = tuple[int, ...]
Asked = list[tuple[Ids, Ids]]
RNG = np.random.default_rng(0)


def ids(length: int) -> Ids:
    return tuple(RNG.integers(3, 2048, length).tolist())


def neighbours(late: float, pairs: int = 4, length: int = 480) -> Asked:
    """Contexts of paired trials that share a beginning, each with two labels of one length."""
    head, found = ids(int(length * late)), []
    for _ in range(pairs):
        tail = ids(length - len(head) - 20)
        prompts = [head + ids(20) + tail for _ in range(2)]
        found += [(prompt, label) for prompt in prompts for label in ((5, 6, 7), (8, 9, 10))]
    return found


def nested() -> Asked:
    head = ids(60)
    inner = [head + ids(40) for _ in range(3)]
    return [(row + ids(30) + ids(8), (5,)) for row in inner for _ in range(3)]


def ragged() -> Asked:
    """One long row among short ones, without a common beginning."""
    return [((1, *ids(n)), (5, 6)) for n in (300, 12, 15, 20)]


SCENES: dict[str, Callable[[], Asked]] = {
    "late": lambda: neighbours(0.6),
    "middle": lambda: neighbours(0.4),
    "early": lambda: neighbours(0.1),
    "nested": nested,
    "ragged": ragged,
}


def tree(rows: list[Ids]) -> int:
    """Tokens of the tree of prefixes: no way of running the rows can do with fewer."""
    total, before = 0, ()
    for row in sorted(set(rows)):
        common = next((n for n, (a, b) in enumerate(zip(before, row, strict=False)) if a != b),
                      min(len(before), len(row)))  # fmt: skip
        total, before = total + len(row) - common, row
    return total


@pytest.fixture(scope="module")
def counted() -> tuple[TransformersModel, list[int]]:
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
             "num_attention_heads": 4, "vocab_size": 2048, "max_position_embeddings": 512,
             "bos_token_id": 1, "eos_token_id": 2}  # fmt: skip
    torch.manual_seed(3)
    net: Any = AutoModelForCausalLM.from_config(AutoConfig.for_model("llama", **shape)).eval()
    tokenizer = PreTrainedTokenizerFast.from_pretrained(FOLDER)
    budget = Budget(16 << 20, 1 << 30, 8192)
    model, taken = TransformersModel(net, tokenizer, "tiny", "0", budget, Sharing()), []
    net.register_forward_pre_hook(
        lambda _module, _args, inputs: taken.append(inputs["input_ids"].numel()), with_kwargs=True
    )
    return model, taken


@pytest.mark.parametrize("scene", list(SCENES))
@pytest.mark.parametrize("kind", [ScoreTokens, NextLogits])
def test_few_tokens_are_run(
    counted: tuple[TransformersModel, list[int]], scene: str, kind: Any
) -> None:
    model, taken = counted
    asked = SCENES[scene]()
    requests, found = [kind(*one) for one in asked], []
    for batches in ([requests], [[request] for request in requests]):
        model.forget()
        taken.clear()
        answers = [answer for batch in batches for answer in model.answer(batch)]
        found.append((sum(taken), sum(taken) + PASS["cpu"] * len(taken), answers))
    (together, cost, batched), (_, cost_of_singles, single) = found
    for one, other in zip(batched, single, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)
    least = tree([prompt + response for prompt, response in asked])
    if scene != "ragged":  # where a few tokens more save passes
        assert together <= 1.02 * least + 2 * len(asked)  # a pass begins with a known token
    assert cost <= cost_of_singles + PASS["cpu"]
