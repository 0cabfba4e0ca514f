"""The local engine over prompts with images says what the model's own processor and forward pass
say, and looks at an image once.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("PIL")

from leakbound.errors import TargetError  # noqa: E402
from leakbound.models import Complete, NextLogits, ScoreLabels, ScoreTokens, open_model  # noqa: E402
from leakbound.models.content import Parts, images_in, join  # noqa: E402
from leakbound.models.local import TransformersModel, load  # noqa: E402
from leakbound.models.local.engine.passes import Sharing  # noqa: E402
from leakbound.models.local.vision import VisionModel  # noqa: E402
from leakbound.models.pocket import SEEING  # noqa: E402
from leakbound.tasks import Example, Query, Task  # noqa: E402
from leakbound.tasks.images import as_image, pixels  # noqa: E402
from leakbound.tasks.synthetic_images import PSEUDO_NAMES, pseudo_names  # noqa: E402

pytestmark = pytest.mark.torch

ROWS = pseudo_names(12, np.random.default_rng(3))
PROMPTS = [PSEUDO_NAMES.prompt(ROWS[:k], Query(ROWS[-1 - k].input)) for k in (0, 1, 2, 5)]


def pil_processor(kind: str) -> Any:
    """The image processor without torchvision; its name had no suffix when it was the only one."""
    import transformers

    module = importlib.import_module(f"transformers.models.{kind.lower()}")
    own = getattr(module, f"{kind}ImageProcessorPil", None)
    return own or getattr(transformers, f"{kind}ImageProcessor")


def idefics(folder: Path) -> Path:
    """A model of another architecture with random weights:

    tokens around an image, and several patches to a token.
    """
    from tokenizers import Tokenizer
    from transformers import (
        Idefics3Config,
        Idefics3ForConditionalGeneration,
        Idefics3Processor,
        LlamaConfig,
        PreTrainedTokenizerFast,
    )

    words = Tokenizer.from_file(str(SEEING / "tokenizer.json"))
    words.add_special_tokens(["<fake_token_around_image>", "<global-img>", "<end_of_utterance>"])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words,
        pad_token="<pad>",
        bos_token="<bos>",
        eos_token="<eos>",
        extra_special_tokens={"image_token": "<image>"},
    )
    text = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=48, intermediate_size=96, num_hidden_layers=2,
        num_attention_heads=4, max_position_embeddings=512, pad_token_id=0, bos_token_id=1,
        eos_token_id=2, initializer_range=0.3,
    )  # fmt: skip
    eye = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "image_size": 32,
        "patch_size": 8,
    }
    torch.manual_seed(0)
    model = Idefics3ForConditionalGeneration(
        Idefics3Config(
            vision_config=eye, text_config=text.to_dict(), image_token_id=3, scale_factor=2
        )
    )
    model.save_pretrained(folder)
    images = pil_processor("Idefics3")(
        size={"longest_edge": 32}, max_image_size={"longest_edge": 32}, do_image_splitting=False
    )
    Idefics3Processor(images, tokenizer, image_seq_len=4).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module", params=["llava", "idefics3"])
def seeing(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return load(
        str(SEEING if request.param == "llava" else idefics(tmp_path_factory.mktemp("model")))
    )


def own_logits(model: Any, prompt: Parts) -> Any:
    """The slow twin: the whole prompt through the model's own processor and forward pass."""
    text = "".join(
        part if isinstance(part, str) else model.processor.image_token for part in prompt.parts
    )
    images = [pixels(image) for image in images_in(prompt)]
    with torch.inference_mode():
        return (
            model.model(**model.processor(text=text, images=images, return_tensors="pt"))
            .logits[0, -1]
            .float()
            .numpy()
        )


def test_logits_are_those_of_the_model_itself(seeing: Any) -> None:
    assert seeing.blind == ""
    for prompt, found in zip(PROMPTS, seeing.answer([NextLogits(p) for p in PROMPTS]), strict=True):
        np.testing.assert_allclose(found[-1], own_logits(seeing, prompt), atol=2e-3)


def test_images_are_seen_in_half_precision_as_well() -> None:
    half = load(str(SEEING), dtype="bfloat16")
    assert half.blind == ""
    assert half.fingerprint != load(str(SEEING)).fingerprint


def test_a_batch_says_what_each_prompt_alone_says(seeing: Any) -> None:
    requests = [ScoreLabels(prompt, PSEUDO_NAMES.labels) for prompt in PROMPTS]
    together = seeing.answer(requests)
    for request, found in zip(requests, together, strict=True):
        seeing.forget()
        np.testing.assert_allclose(seeing.answer([request])[0], found, atol=2e-3)


def test_images_that_differ_share_no_prefix(seeing: Any) -> None:
    task = Task(
        "t",
        ("a", "b"),
        instruction="A long instruction that many prompts share: there is something to keep.",
    )
    one, other = (task.prompt((Example(row.input, "a"),), Query(ROWS[5].input)) for row in ROWS[:2])
    first, second = seeing.encode(one), seeing.encode(other)
    images = [{i for i in row if i < 0} for row in (first, second)]
    assert len(images[0] & images[1]) == len(images[0]) / 2  # the query's, and not the example's
    seeing.forget()
    seeing.answer([NextLogits(one)])
    np.testing.assert_allclose(
        seeing.answer([NextLogits(other)])[0][-1], own_logits(seeing, other), atol=2e-3
    )


def test_an_image_goes_through_the_tower_once(seeing: Any) -> None:
    seeing.forget()
    distinct = {image for prompt in PROMPTS for image in images_in(prompt)}
    for _ in range(3):
        seeing.answer([Complete(prompt, max_tokens=2) for prompt in PROMPTS])
    assert seeing.eye.towered == len(distinct)


def test_features_beyond_the_budget_are_made_again(seeing: Any) -> None:
    wanted = seeing.answer([NextLogits(p) for p in PROMPTS])
    before, seeing.eye.budget = seeing.eye.budget, 0
    try:
        seeing.forget()
        rows = [
            NextLogits(seeing.encode(p)) for p in PROMPTS
        ]  # token ids: the features are not asked for beforehand
        for _ in range(2):
            for one, two in zip(seeing.answer(rows), wanted, strict=True):
                np.testing.assert_allclose(one, two, atol=2e-3)
        assert seeing.eye.towered > len(
            {image for prompt in PROMPTS for image in images_in(prompt)}
        )
    finally:
        seeing.eye.budget = before


def test_texts_are_answered_as_by_any_model(seeing: Any) -> None:
    text = "Label each input with one of: a, b.\n\nInput: x\nLabel:"
    ids = seeing.tokenizer(text, return_tensors="pt")
    with torch.inference_mode():
        wanted = seeing.model(**ids).logits[0, -1].float().numpy()
    np.testing.assert_allclose(seeing.answer([NextLogits(text)])[0][-1], wanted, atol=2e-3)
    assert seeing.answer([ScoreTokens(text, "a")])[0].shape == (len(seeing.encode_response("a")),)


def test_a_text_cannot_pose_as_an_image(seeing: Any) -> None:
    for prompt in ("look: <image>", join(("look: <image>", ROWS[0].input))):
        with pytest.raises(TargetError, match="reads as an image"):
            seeing.check([Complete(prompt)])


def test_a_prompt_beyond_the_window_is_refused_before_any_pass(seeing: Any) -> None:
    long = PSEUDO_NAMES.prompt(ROWS * 30, Query(ROWS[0].input))
    seeing.forget()
    with pytest.raises(TargetError, match="the window of"):
        seeing.check([Complete(long)])
    assert seeing.eye.towered == 0


def test_draws_over_images_differ_and_come_again(seeing: Any) -> None:
    requests = [
        Complete(PROMPTS[2], max_tokens=6, temperature=2.0, stop=(), draw=draw) for draw in range(6)
    ]
    texts = seeing.answer(requests)
    assert len(set(texts)) > 1
    assert seeing.answer(requests) == texts


def test_a_model_of_texts_says_that_it_sees_none(pocket: TransformersModel) -> None:
    with pytest.raises(TargetError, match="reads text only"):
        pocket.check([Complete(PROMPTS[1])])


def test_a_model_that_masks_images_apart_takes_none(tmp_path: Path) -> None:
    """PaliGemma lets the tokens of a prompt see one another both ways:

    rows with shared prefixes would not be its own. Even without images it is not causal, so it is
    refused when it is loaded; who says how rows may share passes gets text answers only.
    """
    from tokenizers import Tokenizer
    from transformers import (
        PaliGemmaConfig,
        PaliGemmaForConditionalGeneration,
        PaliGemmaProcessor,
        PreTrainedTokenizerFast,
    )

    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_file(str(SEEING / "tokenizer.json")),
        pad_token="<pad>",
        bos_token="<bos>",
        eos_token="<eos>",
    )
    images = pil_processor("Siglip")(size={"height": 16, "width": 16})
    images.image_seq_length = 4
    processor = PaliGemmaProcessor(images, tokenizer)
    eye = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "image_size": 16,
        "patch_size": 8,
    }
    text = {"model_type": "gemma", "vocab_size": len(processor.tokenizer), "hidden_size": 32,
            "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
            "num_key_value_heads": 1, "head_dim": 16, "pad_token_id": 0,
            "initializer_range": 0.5}  # fmt: skip
    torch.manual_seed(0)
    config = PaliGemmaConfig(
        vision_config=eye,
        text_config=text,
        image_token_id=processor.image_token_id,
        projection_dim=32,
        hidden_size=32,
    )
    net = PaliGemmaForConditionalGeneration(config).eval()
    net.save_pretrained(tmp_path)
    processor.save_pretrained(tmp_path)
    with pytest.raises(TargetError, match="no causal language model: its logits depend on later"):
        open_model(f"hf/{tmp_path}")
    model = VisionModel(net, processor, "hf/folder", "0", sharing=Sharing())
    with pytest.raises(TargetError, match="cannot read images here"):
        model.check([Complete(PROMPTS[1])])
    assert isinstance(model.answer([Complete("a text", max_tokens=2)])[0], str)


def test_an_image_of_any_size_fits(seeing: Any) -> None:
    wide = as_image(np.random.default_rng(0).integers(0, 256, (20, 70, 3), dtype=np.uint8))
    prompt = PSEUDO_NAMES.prompt((Example(wide, "dax"),), Query(ROWS[0].input))
    np.testing.assert_allclose(
        seeing.answer([NextLogits(prompt)])[0][-1], own_logits(seeing, prompt), atol=2e-3
    )
