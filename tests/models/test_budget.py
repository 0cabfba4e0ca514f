"""A memory budget: what is refused, how it is cut, and that the engine stays within its parts."""

from __future__ import annotations

import copy
import os
import weakref
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast  # noqa: E402

from leakbound.errors import TargetError, UsageError  # noqa: E402
from leakbound.models import Complete, NextLogits, ScoreTokens  # noqa: E402
from leakbound.models.local import Budget, TransformersModel  # noqa: E402
from leakbound.models.local.engine.budget import _free, token_bytes  # noqa: E402
from leakbound.models.local.engine.prefixes import PrefixCache, State  # noqa: E402
from leakbound.models.pocket import FOLDER  # noqa: E402

pytestmark = pytest.mark.torch

TOKEN = 2 * 2 * 2 * 8 * 4  # keys and values, 2 layers, 2 heads of 8 floats of 4 bytes


@pytest.fixture(scope="module")
def net() -> Any:
    torch.manual_seed(3)
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
             "num_attention_heads": 4, "vocab_size": 2048, "max_position_embeddings": 4096,
             "num_key_value_heads": 2}  # fmt: skip
    return AutoModelForCausalLM.from_config(AutoConfig.for_model("llama", **shape)).eval()


def wrap(net: Any, budget: Budget) -> TransformersModel:
    return TransformersModel(
        net, PreTrainedTokenizerFast.from_pretrained(FOLDER), "tiny", "0", budget
    )


def cache_in(passed: dict[str, Any]) -> PrefixCache:
    """The cache of a forward pass, under either of the names that transformers has for it."""
    (found,) = (value for value in passed.values() if isinstance(value, PrefixCache))
    return found


def rows(count: int, length: int) -> list[tuple[int, ...]]:
    rng = np.random.default_rng(0)
    lead = tuple(rng.integers(3, 2048, length // 2).tolist())
    return [
        lead + tuple(rng.integers(3, 2048, length - length // 2).tolist()) for _ in range(count)
    ]


def test_keys_and_values_of_a_token(net: Any) -> None:
    model = wrap(net, Budget(1 << 20, 1 << 30, 512))
    model.answer([NextLogits(rows(1, 100)[0])])
    assert token_bytes(net) == TOKEN
    assert model.passes.store.bytes % TOKEN == 0
    assert model.passes.store.bytes >= 100 * TOKEN


def test_a_budget_below_what_the_process_takes_is_refused(net: Any) -> None:
    with pytest.raises(UsageError, match=r"memory budget is 0\.01 GB .* --memory"):
        Budget.of(net, 10 << 20)


def test_a_budget_is_cut_from_what_the_weights_leave(net: Any) -> None:
    whole, half = Budget.of(net, 64 << 30), Budget.of(net, 32 << 30)
    assert whole.kept + whole.flight < 64 << 30
    assert half.flight < whole.flight
    assert Budget.of(net, None).kept >= 256 << 20


def test_a_row_too_large_for_the_budget_is_refused_before_it_is_run(net: Any) -> None:
    model = wrap(net, Budget(0, 1000 * TOKEN, 512))
    with pytest.raises(TargetError, match=r"1001 tokens .* --memory"):
        model.check([ScoreTokens(rows(1, 1000)[0], (5,))])
    model.check([ScoreTokens(rows(1, 999)[0], (5,))])


def test_batches_stay_within_their_part_while_answers_grow(net: Any) -> None:
    model, held = wrap(net, Budget(0, 300 * TOKEN, 512)), []

    def watch(_module: Any, args: Any, kwargs: Any) -> None:
        held.append(cache_in(kwargs).get_seq_length() * kwargs["input_ids"].shape[0])

    handle = net.register_forward_pre_hook(watch, with_kwargs=True)
    model.answer([Complete(row, max_tokens=60, stop=()) for row in rows(6, 40)])
    handle.remove()
    assert max(held) <= 300


def test_the_logits_of_a_batch_stay_within_its_part(net: Any) -> None:
    model, held = wrap(net, Budget(0, 1 << 20, 512)), []
    handle = net.register_forward_hook(lambda _module, _args, out: held.append(out.logits.nbytes))
    tight = model.answer([ScoreTokens(row[:-20], row[-20:]) for row in rows(12, 40)])
    handle.remove()
    assert max(held) <= 1 << 20
    free = wrap(net, Budget(0, 1 << 30, 512)).answer(
        [ScoreTokens(row[:-20], row[-20:]) for row in rows(12, 40)]
    )
    np.testing.assert_allclose(np.stack(tight), np.stack(free), atol=1e-4)


def test_memory_that_the_system_does_not_tell_is_taken_as_two_gigabytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on macOS, whose `sysconf` does not know the name of available pages, and on Windows, which
    has no `sysconf`.
    """
    known = os.sysconf
    monkeypatch.setattr(
        os, "sysconf", lambda name: known(name.replace("SC_AVPHYS_PAGES", "SC_UNKNOWN"))
    )
    assert _free(torch.device("cpu")) == 2 << 30
    monkeypatch.delattr(os, "sysconf")
    assert _free(torch.device("cpu")) == 2 << 30


@pytest.mark.parametrize(
    "budget", [Budget(150 * TOKEN, 700 * TOKEN, 64), Budget(0, 300 * TOKEN, 7)]
)
def test_batches_passes_and_store_stay_within_their_parts(net: Any, budget: Budget) -> None:
    model, seen = wrap(net, budget), []

    def watch(_module: Any, args: Any, kwargs: Any) -> None:
        cache = cache_in(kwargs)
        seen.append(
            (kwargs["input_ids"].numel(), cache.get_seq_length(), kwargs["input_ids"].shape[0])
        )

    handle = net.register_forward_pre_hook(watch, with_kwargs=True)
    many = rows(9, 200)
    tight = model.answer([NextLogits(row, (5, 6)) for row in many])
    handle.remove()
    assert all(
        count <= budget.tokens + 3 for count, _, _ in seen
    )  # the last piece holds what is kept
    assert all(past * batch * TOKEN <= budget.flight for _, past, batch in seen)
    assert model.passes.store.bytes <= budget.kept
    free = wrap(net, Budget(1 << 20, 1 << 30, 4096)).answer(
        [NextLogits(row, (5, 6)) for row in many]
    )
    np.testing.assert_allclose(np.stack(tight), np.stack(free), atol=1e-4)


def test_logits_that_are_no_numbers_are_no_answer(net: Any) -> None:
    model = wrap(copy.deepcopy(net), Budget(0, 1 << 20, 512))
    model.model.lm_head.weight.data[7] = torch.nan
    for request in (NextLogits(rows(1, 20)[0]), Complete(rows(1, 20)[0], 2)):
        with pytest.raises(TargetError, match="not numbers"):
            model.answer([request])


@pytest.mark.parametrize("kept", [260, 700, 1500])
def test_all_rows_that_are_kept_count(net: Any, kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row that a pass hands on to the next as well, in a call and behind it."""
    blocks: list[weakref.ref[Any]] = []
    plain = State.block

    def watched(state: State, at: int, length: int) -> Any:
        block = plain(state, at, length)
        blocks.append(weakref.ref(block))
        return block

    def held() -> int:
        return sum(block.nbytes for ref in blocks if (block := ref()) is not None)

    monkeypatch.setattr(State, "block", watched)
    model, peaks = wrap(net, Budget(kept * TOKEN, 520 * TOKEN, 256)), []
    handle = net.register_forward_pre_hook(lambda *_: peaks.append(held()))
    (base,) = rows(1, 500)
    try:
        for _ in range(2):
            prompts = [base[: 480 - 20 * i] + (2,) * (20 * i + 1) for i in range(4)]
            model.answer([ScoreTokens(prompt, (5, 6, 7)) for prompt in prompts])
            assert 0 < held() <= model.passes.store.bytes
    finally:
        handle.remove()
    assert max(peaks) <= kept * TOKEN
