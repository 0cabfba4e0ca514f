"""The local engine against slow twins:

every answer equals its batch-of-one answer and plain transformers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import transformers  # noqa: E402
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast  # noqa: E402

from leakbound.errors import TargetError  # noqa: E402
from leakbound.models import Complete, Embed, NextLogits, ScoreLabels, ScoreTokens  # noqa: E402
from leakbound.models.local import Budget, TransformersModel, load  # noqa: E402
from leakbound.models.pocket import FOLDER  # noqa: E402

pytestmark = pytest.mark.torch

TINY = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "vocab_size": 2048, "max_position_embeddings": 256,
        "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}  # fmt: skip
SHAPES: dict[str, dict[str, Any]] = {
    "llama": {"num_key_value_heads": 2},
    "opt": {"ffn_dim": 64, "word_embed_proj_dim": 32},
    "gpt_neox": {},
    "gemma": {"num_key_value_heads": 1, "head_dim": 8},
    "qwen2": {"num_key_value_heads": 2},
    "mistral": {"num_key_value_heads": 2, "sliding_window": 24},
}


def build(kind: str) -> TransformersModel:
    """A model of a real architecture with random weights and the pocket tokenizer."""
    torch.manual_seed(3)
    shape = {
        k: v
        for k, v in {**TINY, **SHAPES[kind]}.items()
        if not (kind == "opt" and k == "intermediate_size")
    }
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **shape)).eval()
    for parameter in model.parameters():
        parameter.data.normal_(0, 0.15)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(FOLDER)
    return TransformersModel(model, tokenizer, kind, "0", Budget(256 << 20, 1 << 30, 512))


def ids(rng: np.random.Generator, low: int, high: int) -> tuple[int, ...]:
    return (1, *rng.integers(3, 2048, int(rng.integers(low, high))).tolist())


def naive_logits(model: TransformersModel, row: tuple[int, ...]) -> np.ndarray[Any, Any]:
    with torch.inference_mode():
        return model.model(input_ids=torch.tensor([row])).logits[0].float().numpy()


@pytest.fixture(scope="module", params=list(SHAPES))
def model(request: pytest.FixtureRequest) -> TransformersModel:
    return build(request.param)


def prompts() -> list[tuple[int, ...]]:
    """Short and long, shared heads of several lengths, one very long row among short ones."""
    rng = np.random.default_rng(0)
    head, block = ids(rng, 20, 21), ids(rng, 40, 41)[1:]
    rows = [ids(rng, 2, 30) for _ in range(4)] + [head + ids(rng, 2, 12)[1:] for _ in range(4)]
    return [*rows, *(head + block + ids(rng, 2, 9)[1:] for _ in range(3)), ids(rng, 150, 151), (1,)]


def test_scores_equal_the_naive_pass(model: TransformersModel) -> None:
    rng = np.random.default_rng(1)
    requests = [ScoreTokens(p, ids(rng, 1, 7)[1:]) for p in prompts()]
    for request, got in zip(requests, model.answer(requests), strict=True):
        row = tuple(request.prompt) + tuple(request.response)
        table = torch.log_softmax(torch.tensor(naive_logits(model, row)), -1).numpy()
        start = len(request.prompt) - 1
        want = [table[start + i, token] for i, token in enumerate(request.response)]
        np.testing.assert_allclose(got, want, atol=1e-4)


def test_no_padding_contamination(model: TransformersModel) -> None:
    requests = [NextLogits(p, (5, 6)) for p in prompts()]
    together = model.answer(requests)
    for request, got in zip(requests, together, strict=True):
        np.testing.assert_allclose(got, model.answer([request])[0], atol=1e-4)
        assert got.shape == (3, 2048)


def test_greedy_completion_equals_a_loop_of_naive_passes(model: TransformersModel) -> None:
    requests = [Complete(p, max_tokens=5, stop=()) for p in prompts()[3:9]]
    for request, got in zip(requests, model.answer(requests), strict=True):
        row = list(request.prompt)
        for _ in range(5):
            token = int(naive_logits(model, tuple(row))[-1].argmax())
            if token == 2:
                break
            row.append(token)
        assert got == model.tokenizer.decode(row[len(request.prompt) :], skip_special_tokens=True)


@pytest.fixture(scope="module")
def llama() -> TransformersModel:
    return build("llama")


def test_label_scores_are_sums_of_token_scores(llama: TransformersModel) -> None:
    labels = ("yes", "no", "quite another thing")
    (got,) = llama.answer([ScoreLabels("A question:", labels)])
    want = [llama.answer([ScoreTokens("A question:", label)])[0].sum() for label in labels]
    np.testing.assert_allclose(got, want, atol=1e-4)


def test_draws_are_their_own_and_repeat(llama: TransformersModel) -> None:
    requests = [Complete("Once", max_tokens=8, temperature=1.0, stop=(), draw=d) for d in (1, 2, 1)]
    one, two, again = llama.answer(requests)
    assert one == again != two
    assert llama.answer(requests[1:2]) == [two]


def test_stop_strings_end_an_answer(llama: TransformersModel) -> None:
    (free,) = llama.answer([Complete("Once", max_tokens=12, stop=())])
    stop = free[len(free) // 2]
    (cut,) = llama.answer([Complete("Once", max_tokens=12, stop=(stop,))])
    assert cut == free[: free.index(stop)]


def test_a_prompt_of_no_token_ids_is_that_of_an_empty_text(llama: TransformersModel) -> None:
    empty, text = llama.encode(()), llama.encode("")
    assert empty == text
    (logits,) = llama.answer([NextLogits((), (5, 6, 7))])
    np.testing.assert_allclose(logits, naive_logits(llama, (*empty, 5, 6, 7)), atol=1e-4)


def test_prompts_that_do_not_fit_are_refused(llama: TransformersModel) -> None:
    with pytest.raises(TargetError, match=r"need \d+ tokens, and the window"):
        llama.answer([Complete("word " * 400)])


def test_embeddings_do_not_depend_on_the_batch(llama: TransformersModel) -> None:
    short, long = llama.answer([Embed("a"), Embed("a much longer text than the other one")])
    np.testing.assert_allclose(short, llama.answer([Embed("a")])[0], atol=1e-6)
    assert short.shape == long.shape == (32,)


def test_chat_models_get_their_template(llama: TransformersModel) -> None:
    tokenizer = PreTrainedTokenizerFast.from_pretrained(FOLDER)
    tokenizer.chat_template = "{% for m in messages %}[{{ m.content }}]{% endfor %}>"
    chat = TransformersModel(llama.model, tokenizer, "chat", "0")
    assert tokenizer.decode(chat.encode("hi")) == "[hi]>"


def test_a_saved_folder_loads_by_the_same_code(llama: TransformersModel, tmp_path: Any) -> None:
    llama.model.save_pretrained(tmp_path)
    llama.tokenizer.save_pretrained(tmp_path)
    again = load(str(tmp_path))
    request = ScoreTokens("A b", "c d")
    np.testing.assert_allclose(again.answer([request])[0], llama.answer([request])[0], atol=1e-5)
    assert again.fingerprint == load(str(tmp_path)).fingerprint


@pytest.mark.parametrize(
    ("missing", "sentence"),
    [("config.json", "no config.json"), ("model.safetensors", "no weights")],
)
def test_incomplete_folders_get_a_sentence(
    llama: TransformersModel, tmp_path: Any, missing: str, sentence: str
) -> None:
    llama.model.save_pretrained(tmp_path)
    llama.tokenizer.save_pretrained(tmp_path)
    (tmp_path / missing).unlink()
    with pytest.raises(TargetError, match=sentence):
        load(str(tmp_path))


def test_broken_weights_get_a_sentence(llama: TransformersModel, tmp_path: Any) -> None:
    llama.model.save_pretrained(tmp_path)
    llama.tokenizer.save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"nonsense")
    with pytest.raises(TargetError, match="could not be loaded"):
        load(str(tmp_path))


def test_transformers_is_the_version_the_code_is_written_for() -> None:
    assert int(transformers.__version__.split(".")[0]) == 5
