"""Keys and values that outlive a call: they change how many tokens are run, never an answer."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast  # noqa: E402

from leakbound.models import Complete, NextLogits, ScoreLabels, ScoreTokens  # noqa: E402
from leakbound.models.local import Budget, TransformersModel  # noqa: E402
from leakbound.models.local.engine.passes import Group  # noqa: E402
from leakbound.models.local.engine.prefixes import (  # noqa: E402
    PrefixCache,
    State,
    assemble,
)
from leakbound.models.pocket import FOLDER  # noqa: E402

pytestmark = pytest.mark.torch

Ids = tuple[int, ...]
TINY = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "vocab_size": 2048, "max_position_embeddings": 256,
        "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
        "num_key_value_heads": 2}  # fmt: skip
TOKEN = (
    2 * 2 * 2 * 8 * 4
)  # bytes of the keys and values of one token: both, 2 layers, 2 heads of 8 floats of 4 bytes


def network(kind: str = "llama", **extra: Any) -> Any:
    torch.manual_seed(3)
    net = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **{**TINY, **extra})).eval()
    for parameter in net.parameters():
        parameter.data.normal_(0, 0.15)
    return net


def wrap(net: Any, cache_bytes: int = 1 << 20, batch_tokens: int = 512) -> TransformersModel:
    tokenizer = PreTrainedTokenizerFast.from_pretrained(FOLDER)
    return TransformersModel(
        net, tokenizer, "tiny", "0", Budget(cache_bytes, 1 << 30, batch_tokens)
    )


def counter(model: TransformersModel) -> Callable[[], int]:
    """A function that says how many tokens (padding included) went through the network since it was
    last called.
    """
    shapes: list[int] = []
    model.model.register_forward_pre_hook(
        lambda _m, _a, kwargs: shapes.append(kwargs["input_ids"].numel()), with_kwargs=True
    )

    def taken() -> int:
        total = sum(shapes)
        shapes.clear()
        return total

    return taken


def ids(rng: np.random.Generator, length: int) -> Ids:
    return tuple(rng.integers(3, 2048, length).tolist())


def start(rng: np.random.Generator, length: int) -> Ids:
    """Tokens as they begin a prompt."""
    return (1, *ids(rng, length - 1))


def pool(rng: np.random.Generator) -> list[Ids]:
    """Rows that start alike in many ways:

    a few heads, a few blocks behind them, tails, and rows that others extend.
    """
    heads = [(1,), *(start(rng, n) for n in (5, 17, 33))]
    stems = [rng.choice(len(heads)) for _ in range(8)]
    rows = [heads[s] + ids(rng, int(rng.integers(1, 50))) for s in stems]
    return rows + [row + ids(rng, int(rng.integers(1, 40))) for row in rows for _ in range(2)]


def asked(rng: np.random.Generator, rows: list[Ids]) -> list[Any]:
    """A random batch of asks of random kinds; a row may come more than once, in any order."""
    out: list[Any] = []
    for i in rng.integers(0, len(rows), int(rng.integers(1, 9))):
        response = ids(rng, int(rng.integers(0, 4)))
        kinds = [NextLogits(rows[i], response), ScoreTokens(rows[i], response),
                 Complete(rows[i], 4, stop=()), ScoreLabels(rows[i], ("yes", "no"))]  # fmt: skip
        out.append(kinds[int(rng.integers(0, 4))])
    return out


def same(one: Any, two: Any) -> None:
    if isinstance(one, str):
        assert one == two
    else:
        np.testing.assert_allclose(one, two, atol=1e-4)


KINDS: dict[str, dict[str, int]] = {
    "llama": {}, "gpt_neox": {}, "opt": {"ffn_dim": 64, "word_embed_proj_dim": 32},
    "mistral": {"sliding_window": 24},
}  # fmt: skip


@cache
def known(kind: str) -> Any:
    return network(kind, **KINDS[kind])


# Of each form one budget, that of the usual form three; all of them with the slow tests.
LARGE, MIDDLE, SMALL = 1 << 20, 30_000, 6_000
USUAL = {("llama", LARGE), ("llama", MIDDLE), ("llama", SMALL), ("gpt_neox", MIDDLE),
         ("opt", SMALL), ("mistral", MIDDLE)}  # fmt: skip


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
@pytest.mark.parametrize(
    ("kind", "budget"),
    [pytest.param(*one, marks=[] if one in USUAL else pytest.mark.slow)
     for one in product(KINDS, (LARGE, MIDDLE, SMALL))],
)  # fmt: skip
def test_what_was_asked_before_changes_no_answer(kind: str, budget: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, kept, fresh = pool(rng), wrap(known(kind), budget), wrap(known(kind), 0)
    for _ in range(12):
        requests = asked(rng, rows)
        for one, two in zip(kept.answer(requests), fresh.answer(requests), strict=True):
            same(one, two)
        assert kept.passes.store.bytes <= budget
    assert fresh.passes.store.bytes == 0


@pytest.mark.parametrize("growing", [True, False])
def test_rows_that_grow_get_the_answers_of_rows_alone(growing: bool) -> None:
    """Several experts of different lengths, by one token or several, beside other asks; also where
    no batch is held.
    """
    rng = np.random.default_rng(5)
    kept, fresh = wrap(known("llama"), 1 << 20 if growing else 40_000), wrap(known("llama"), 0)
    experts, said = [start(rng, n) for n in (12, 40, 40, 71)], ()
    for step in range(10):
        said += ids(rng, int(rng.integers(1, 4)))
        requests = [NextLogits(row + said) for row in experts]
        for request, got in zip(requests, kept.answer(requests), strict=True):
            same(got, fresh.answer([request])[0])
        if step == 5:
            kept.answer([NextLogits(start(rng, 30))])


def test_answers_that_outgrow_a_sliding_window_are_those_of_rows_alone() -> None:
    """Rows of different lengths, all within the window of 24 until the answer has grown."""
    rng, model = np.random.default_rng(7), wrap(known("mistral"))
    lead = ids(rng, 6)
    requests = [Complete(lead + ids(rng, more), max_tokens=40, stop=()) for more in (3, 9, 15)]
    assert model.answer(requests) == [model.answer([request])[0] for request in requests]


def test_sliding_windows_keep_nothing() -> None:
    model = wrap(known("mistral"))
    model.answer([NextLogits(ids(np.random.default_rng(0), 60))])
    assert model.passes.store.bytes == 0


def test_a_growing_rope_keeps_nothing() -> None:
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
    assert wrap(network(rope_parameters=rope)).passes.store.budget == 0


# --- how many tokens are run


def test_a_second_query_over_the_same_context_runs_only_the_query() -> None:
    rng = np.random.default_rng(1)
    model = wrap(copy.deepcopy(known("llama")), 4 << 20, batch_tokens=8192)
    taken = counter(model)
    head, contexts, queries = (
        start(rng, 18),
        [ids(rng, 80) for _ in range(10)],
        [ids(rng, 12) for _ in range(3)],
    )
    model.answer([NextLogits(head + c + queries[0]) for c in contexts])
    assert taken() == 18 + 10 * (80 + 12)
    for query in queries[1:]:
        model.answer([NextLogits(head + c + query) for c in contexts])
        assert taken() == 10 * 12
    model.answer([ScoreTokens(head + contexts[3] + queries[2], (5, 6))])
    assert taken() <= 12 + 2


def test_rows_found_to_different_lengths_run_in_one_batch() -> None:
    rng = np.random.default_rng(2)
    model = wrap(copy.deepcopy(known("llama")))
    taken, rows = counter(model), [start(rng, n) for n in (20, 50, 100)]
    model.answer([NextLogits(row) for row in rows])
    taken()
    model.answer(
        [NextLogits((*rows[i], *more)) for i, more in ((2, (7, 8, 9)), (0, (4, 5)), (1, (6, 6, 6)))]
    )
    assert taken() == 3 * 3


def test_new_rows_do_not_make_old_ones_run_again() -> None:
    rng = np.random.default_rng(2)
    model = wrap(copy.deepcopy(known("llama")), 4 << 20, batch_tokens=8192)
    taken, rows, query = counter(model), [start(rng, 60) for _ in range(12)], ids(rng, 9)
    model.answer([NextLogits(row + query) for row in rows[:11]])
    taken()
    model.answer([NextLogits(row + ids(rng, 9)) for row in rows])
    assert taken() == 11 * 9 + 69


def test_decoding_token_by_token_runs_one_token_a_row() -> None:
    rng = np.random.default_rng(3)
    model = wrap(copy.deepcopy(known("llama")), 4 << 20)
    taken, experts, said = counter(model), [start(rng, 20 + i) for i in range(10)], ()
    model.answer([NextLogits(row) for row in experts])
    taken()
    for token in (9, 8, 7, 6, 5):
        said += (token,)
        model.answer([NextLogits(row + said) for row in experts])
        assert taken() == len(experts)


def test_two_contexts_can_be_decoded_in_turn() -> None:
    rng = np.random.default_rng(4)
    model = wrap(copy.deepcopy(known("llama")), 4 << 20)
    taken, sides, said = counter(model), [[start(rng, 30) for _ in range(4)] for _ in range(2)], ()
    for step in range(4):
        for side in sides:
            model.answer([NextLogits(row + said) for row in side])
            assert step == 0 or taken() == 4
        taken()
        said += (7,)


def test_a_common_beginning_ends_with_its_last_keys() -> None:
    """Nothing is computed of it that only logits need; in pieces, of no piece but the last."""
    rng, reached = np.random.default_rng(6), []
    model = wrap(copy.deepcopy(known("llama")), batch_tokens=64)
    model.model.model.layers[-1].mlp.register_forward_pre_hook(
        lambda _module, args: reached.append(args[0].shape[0] * args[0].shape[1])
    )
    head = start(rng, 100)
    requests = [NextLogits(head + ids(rng, 5)) for _ in range(2)]
    got = model.answer(requests)
    assert sum(reached) == 2 * 5
    for request, one in zip(requests, got, strict=True):
        same(one, wrap(known("llama"), 0).answer([request])[0])


# --- what is kept


def test_the_least_recently_used_row_goes_first() -> None:
    rng = np.random.default_rng(6)
    model = wrap(copy.deepcopy(known("llama")), 3 * 40 * TOKEN)
    taken, (a, b, c, d) = counter(model), [start(rng, 40) for _ in range(4)]
    request = [
        Complete(row, 1) for row in (a, b, c, a, d)
    ]  # completions hold no batch: the budget is for rows alone
    for one in request:
        model.answer([one])
    assert model.passes.store.bytes == 3 * 40 * TOKEN
    taken()
    for row, cost in ((a, 1), (d, 1), (c, 1), (b, 40)):
        model.answer([Complete(row, 1)])
        assert taken() == cost


def test_a_longer_row_takes_the_place_of_its_beginning() -> None:
    model, row = wrap(known("llama")), ids(np.random.default_rng(7), 90)
    for length in (30, 60, 90):
        model.answer([Complete(row[:length], 1)])
        assert model.passes.store.bytes == length * TOKEN


def test_many_answers_to_one_prompt_are_kept_once() -> None:
    rng = np.random.default_rng(8)
    model, row = wrap(known("llama")), ids(rng, 90)
    model.answer([Complete(row + ids(rng, 3), 1) for _ in range(5)])
    assert model.passes.store.bytes == 2 * 93 * TOKEN  # the last row is handed on, besides


def test_what_no_later_row_starts_with_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of a stored prompt start like the prompt: only the last group of a call is copied."""
    rng, copies, block = np.random.default_rng(11), [], State.block

    def counted(state: State, at: int, length: int) -> Any:
        copies.append(length)
        return block(state, at, length)

    monkeypatch.setattr(State, "block", counted)
    model, row = wrap(known("llama"), batch_tokens=64), start(rng, 120)
    model.answer([ScoreTokens(row, (7, 8))])
    copies.clear()
    windows = [row[:at] + row[at + 4 :] for at in range(90, 66, -1)]
    scores = model.answer([ScoreTokens(window, (7, 8)) for window in windows])
    assert len(copies) == 1
    alone = wrap(known("llama"), cache_bytes=0)
    for window, score in zip(windows, scores, strict=True):
        assert np.allclose(alone.answer([ScoreTokens(window, (7, 8))])[0], score, atol=1e-5)


def test_a_pass_over_kept_keys_copies_none_of_them() -> None:
    """The new ones go into room behind them, and every logit stays the same, bit for bit."""
    model = wrap(network())
    rows = [(*range(5, 45), *range(50, 50 + more)) for more in (9, 4)]
    model.answer([NextLogits(rows[0][:40])])
    found = [model.passes.store.find(row, 40) for row in rows]
    assert [one.length for one in found] == [40, 40]
    logits = {}
    for room in (rows, ()):
        state = assemble(model.model.config, found, model.model.device, room)
        begin = [layer.keys.data_ptr() for layer in state.cache.layers]
        with torch.inference_mode():
            first = model.passes._extend(state, rows, 3)
            kept = [layer.keys.data_ptr() for layer in state.cache.layers]
            assert (kept == begin) == bool(room)
            state.repeat(2)
            longer = [(*row, 7) for row in rows for _ in range(2)]
            logits[bool(room)] = first, model.passes._extend(state, longer, 1)
    assert all(map(torch.equal, logits[True], logits[False]))


def test_forget_empties_the_store() -> None:
    rng = np.random.default_rng(9)
    model = wrap(copy.deepcopy(known("llama")))
    taken, row = counter(model), start(rng, 60)
    model.answer([NextLogits(row)])
    assert model.passes.store.bytes > 0
    model.forget()
    assert model.passes.store.bytes == 0
    taken()
    model.answer([NextLogits(row)])
    assert taken() == 60


def test_no_repr_shows_token_ids() -> None:
    model, row = wrap(known("llama")), tuple(range(201, 240))
    model.answer([NextLogits(row), NextLogits((*row, 250))])
    store = model.passes.store
    things = [
        store,
        *store._rows,
        *store._states,
        store.find(row, 30),
        Group(row, [0]),
        model.passes,
        model,
    ]
    shown = " ".join(repr(thing).split(" object at ")[0] for thing in things)
    assert "<private>" in shown
    assert not any(str(token) in shown for token in row)


@pytest.mark.parametrize("name", ["cache", "past_key_values"])
def test_keys_and_values_are_passed_by_the_name_that_the_model_has(name: str) -> None:
    """transformers 5.24 has `cache`; releases before it, and code of models, `past_key_values`."""
    net, received = network(), []
    inner = net.forward
    (own,) = {"cache", "past_key_values"} & set(inspect.signature(inner).parameters)

    def run(kept: Any, more: dict[str, Any]) -> Any:
        received.append(kept)
        return inner(**{own: kept}, **more)

    def newer(input_ids: Any, position_ids: Any = None, cache: Any = None, **more: Any) -> Any:
        return run(cache, {"input_ids": input_ids, "position_ids": position_ids, **more})

    def older(
        input_ids: Any, position_ids: Any = None, past_key_values: Any = None, **more: Any
    ) -> Any:
        return run(past_key_values, {"input_ids": input_ids, "position_ids": position_ids, **more})

    asked = [NextLogits((5, 6, 7, 8), (9, 10))]
    expected = wrap(net).answer(asked)
    net.forward = newer if name == "cache" else older
    np.testing.assert_allclose(wrap(net).answer(asked)[0], expected[0], atol=1e-5)
    assert any(isinstance(one, PrefixCache) for one in received)
