"""Models of many forms, made here at random, answer what one plain pass for each row answers,
or are refused in a sentence.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast  # noqa: E402

from leakbound.errors import TargetError  # noqa: E402
from leakbound.models import Complete, Embed, NextLogits, ScoreTokens, open_model  # noqa: E402
from leakbound.models.local import Budget, TransformersModel, load  # noqa: E402
from leakbound.models.local.engine import self_check  # noqa: E402
from leakbound.models.local.engine.passes import ANY, Sharing  # noqa: E402
from leakbound.models.pocket import FOLDER  # noqa: E402

pytestmark = pytest.mark.torch

Ids = tuple[int, ...]
TINY = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 2048,
        "max_position_embeddings": 256, "pad_token_id": 0, "bos_token_id": 1,
        "eos_token_id": 2}  # fmt: skip
LONGROPE = {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0] * 4,
            "long_factor": [4.0] * 4, "original_max_position_embeddings": 32}  # fmt: skip
# the options of each form, and how its rows may share passes
FORMS: dict[str, tuple[dict[str, Any], Sharing]] = {
    "llama": ({}, Sharing()),
    "gpt_neo": ({"attention_types": [[["global", "local"], 1]], "window_size": 16}, Sharing(16)),
    "mpt": ({}, Sharing(0)),
    "llama4_text": ({"attention_chunk_size": 16, "num_local_experts": 2}, Sharing(16)),
    "phi3": ({"rope_parameters": LONGROPE, "original_max_position_embeddings": 32},
             Sharing(32, 32)),
    "mamba": ({}, Sharing(0, 0)),
    "mamba2": ({"num_heads": 4, "head_dim": 16, "state_size": 8, "n_groups": 1}, Sharing(0, 0)),
    "falcon_mamba": ({}, Sharing(0, 0)),
    "rwkv": ({}, Sharing(0, 0)),
    "jamba": ({"attn_layer_period": 2, "attn_layer_offset": 1, "num_experts": 2},
              Sharing(0, 0)),
    "lfm2": ({"layer_types": ["conv", "full_attention"]}, Sharing(0, 0)),
    "recurrent_gemma": ({"num_hidden_layers": 3}, Sharing(0, 0)),
}  # fmt: skip


def network(kind: str, **options: Any) -> Any:
    """Random weights, and logits of a standard deviation of about 2."""
    torch.manual_seed(3)
    net = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **{**TINY, **options})).eval()
    for parameter in net.parameters():
        parameter.data.normal_(0, 0.2)
    with torch.inference_mode():
        spread = net(input_ids=torch.arange(3, 40)[None]).logits.std()
        net.get_output_embeddings().weight.mul_(2 / spread)
    return net


def wrap(net: Any, **more: Any) -> TransformersModel:
    tokenizer = PreTrainedTokenizerFast.from_pretrained(FOLDER)
    return TransformersModel(net, tokenizer, "tiny", "0", Budget(1 << 20, 1 << 30, 512), **more)


def ids(rng: np.random.Generator, length: int) -> Ids:
    return tuple(rng.integers(3, 2048, length).tolist())


def prompts(rng: np.random.Generator) -> list[Ids]:
    """Ragged rows within and beyond every window, some with a common beginning, some as long."""
    head = ids(rng, 14)
    lengths = (3, 9, 15, 26, 26, 40)
    return [(1, 5, 6, 7), *(head + ids(rng, n) for n in lengths), ids(rng, 31), ids(rng, 70)]


def plain(net: Any, row: Ids) -> np.ndarray[Any, Any]:
    with torch.inference_mode():
        return net(input_ids=torch.tensor([row]), use_cache=False).logits[0].float().numpy()


def off(net: Any, model: TransformersModel) -> float:
    """Largest difference of logits from plain passes, also of rows that grow."""
    rng = np.random.default_rng(1)
    rows, worst = prompts(rng), 0.0
    for _ in range(2):
        got = model.answer([NextLogits(row[:-2], row[-2:]) for row in rows])
        found = [np.abs(g - plain(net, row)[-3:]).max() for g, row in zip(got, rows, strict=True)]
        worst = max(worst, *map(float, found))
        rows = [row + ids(rng, 1) for row in rows]
    return worst


# of the same parts as others
MORE = {"mamba2", "falcon_mamba", "rwkv", "jamba", "recurrent_gemma"}


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.slow) if kind in MORE else kind for kind in FORMS]
)
def test_every_form_answers_as_plain_passes_do(kind: str) -> None:
    options, sharing = FORMS[kind]
    net = network(kind, **options)
    model = wrap(net)
    assert model.passes.sharing == sharing
    assert off(net, model) < 1e-4
    rows = prompts(np.random.default_rng(2))[3:6]
    texts = model.answer([Complete(row, max_tokens=9, stop=()) for row in rows])
    for row, text in zip(rows, texts, strict=True):
        grown = list(row)
        while len(grown) < len(row) + 9 and grown[-1] != 2:
            grown.append(int(plain(net, tuple(grown))[-1].argmax()))
        assert text == model.text([token for token in grown[len(row) :] if token != 2])
    assert model.answer([Embed("some text")])[0].shape == (32,)


@pytest.mark.parametrize("kind", ["gpt_neo", "mpt", "llama4_text", "phi3"])
def test_sharing_passes_as_most_models_do_would_change_answers(kind: str) -> None:
    """What the check is for: it sees this, and so does a comparison of answers."""
    net = network(kind, **FORMS[kind][0])
    model = wrap(net, sharing=Sharing())
    assert off(net, model) > 0.05
    with torch.inference_mode():
        assert self_check.changes_nothing(net, FORMS[kind][1])
        assert kind == "phi3" or not self_check.changes_nothing(net, Sharing())


def test_scores_do_not_depend_on_the_batch() -> None:
    for kind in ("gpt_neo", "mpt", "llama4_text"):
        model = wrap(network(kind, **FORMS[kind][0]))
        asked = [ScoreTokens(row, (7, 8, 9)) for row in prompts(np.random.default_rng(4))]
        for request, together in zip(asked, model.answer(asked), strict=True):
            np.testing.assert_allclose(together, model.answer([request])[0], atol=1e-4)


def test_a_bidirectional_model_is_refused(tmp_path: Path) -> None:
    network("bert").save_pretrained(tmp_path)
    PreTrainedTokenizerFast.from_pretrained(FOLDER).save_pretrained(tmp_path)
    with pytest.raises(TargetError, match=r"'bert'\) is no causal .* depend on later tokens"):
        load(str(tmp_path))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_16_bits_hide_neither_padding_nor_later_tokens(dtype: torch.dtype) -> None:
    """ALiBi over slots moves logits of this model by 7 %, later tokens those of the other by 1 %:
    less than what rounding does to deep models.
    """
    with torch.inference_mode():
        for kind in ("llama", "mpt", "gpt_neo", "mamba"):
            options, sharing = FORMS[kind]
            assert self_check.check_sharing(network(kind, **options).to(dtype), kind) == sharing
        with pytest.raises(TargetError, match="depend on later tokens"):
            self_check.check_sharing(network("bert").to(dtype), "bert")


@pytest.mark.parametrize("vocabulary", [2, 3])
def test_a_vocabulary_of_few_tokens_can_be_checked(vocabulary: int) -> None:
    small = AutoModelForCausalLM.from_config(
        AutoConfig.for_model("llama", **{**TINY, "vocab_size": vocabulary, "bos_token_id": 0,
                                         "eos_token_id": 1})
    )  # fmt: skip
    assert self_check.check_sharing(small.eval(), "few") == Sharing()


def test_a_window_shorter_than_the_check_is_kept() -> None:
    for window in (1, 5, 13):
        net = network("mistral", sliding_window=window)
        model = wrap(net)
        assert model.passes.sharing.ragged in (0, window)
        assert off(net, model) < 1e-4


def test_an_outcome_is_written_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Processes that write it at once leave no half of it, and none of their parts."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for _ in range(2):
        self_check._store("key", Sharing(16))
    (found,) = (tmp_path / "leakbound" / "self-checks").iterdir()
    assert found.name == "key.json"
    assert self_check._load("key") == Sharing(16)


def test_a_model_that_needs_more_than_tokens_is_refused() -> None:
    net = network("llama")
    net.forward = lambda input_ids, pixels: None
    with pytest.raises(TargetError, match="cannot be run over token ids alone \\(TypeError: "):
        self_check.check_sharing(net, "tiny")


def test_a_model_that_never_repeats_itself_is_refused() -> None:
    net = network("llama")
    net.model.layers[0].register_forward_hook(
        lambda _module, _args, out: out + torch.randn(out.shape)
    )
    with pytest.raises(TargetError, match="different logits for the same tokens in each pass"):
        self_check.check_sharing(net, "tiny")


def test_the_pocket_model_shares_all_passes() -> None:
    model = open_model("pocket")
    assert isinstance(model, TransformersModel)
    assert self_check.check_sharing(model.model, "pocket") == model.passes.sharing == Sharing()


def test_a_model_is_checked_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In one process by its fingerprint, and where it took long, on disk."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(self_check, "SLOW", 0.0)
    net, done = network("mpt"), []
    net.register_forward_pre_hook(lambda _module, _args: done.append(1))
    assert self_check.recall(net, "tiny", "one") == Sharing(0)
    first = len(done)
    assert self_check.recall(net, "tiny", "one") == Sharing(0)
    monkeypatch.setattr(self_check, "_known", {})
    assert self_check.recall(net, "tiny", "one") == Sharing(0)
    assert len(done) == first > 0
    assert self_check.recall(net, "tiny", "two") == Sharing(0)
    assert len(done) == 2 * first
    for path in (tmp_path / "leakbound" / "self-checks").iterdir():
        path.write_text("{}")
    monkeypatch.setattr(self_check, "_known", {})
    assert self_check.recall(net, "tiny", "one") == Sharing(0)
    assert len(done) == 3 * first


def test_rows_beyond_a_window_too_long_to_be_checked_are_run_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(self_check, "WORK", {"cpu": 0})
    net = network("gpt_neo", **FORMS["gpt_neo"][0])
    model = wrap(net)
    assert model.passes.sharing == Sharing(16, 16)
    assert off(net, model) < 1e-4


def test_what_is_done_otherwise_is_said() -> None:
    assert Sharing().sentence == ""
    assert Sharing(0, 0, batched=False).sentence == (
        "every row is run by itself; rows are run whole, without keys and values"
    )
    assert Sharing(16).outcome == "exact"
    assert Sharing(0, ANY).outcome == "equal lengths only"
