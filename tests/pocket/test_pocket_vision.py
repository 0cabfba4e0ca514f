"""The shipped vision model does what it is shipped for, on classes that its training never saw."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("PIL")

from leakbound.models import open_model  # noqa: E402
from leakbound.models.pocket import SEEING  # noqa: E402
from leakbound.tasks.synthetic_images import NAMES, PSEUDO_NAMES, SIDE, TRAINED  # noqa: E402

sys.path.insert(0, str(Path(__file__).parents[2] / "pocket_training" / "vision"))
evaluate = pytest.importorskip("evaluate_vision")

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def seeing() -> Any:
    return open_model("pocket-vision")


def test_it_is_small_and_loads_with_the_auto_classes() -> None:
    from transformers import AutoModelForImageTextToText, AutoProcessor

    assert sum(p.stat().st_size for p in SEEING.iterdir()) < 8 << 20
    model = AutoModelForImageTextToText.from_pretrained(SEEING, local_files_only=True)
    processor = AutoProcessor.from_pretrained(SEEING, local_files_only=True)
    picture = np.zeros((SIDE, SIDE, 3), np.uint8)
    inputs = processor(text="Image: <image>\nName:", images=[picture], return_tensors="pt")
    said = model.generate(**inputs, max_new_tokens=2, do_sample=False)
    assert said.shape[1] == inputs["input_ids"].shape[1] + 2


def test_a_name_is_one_token_and_any_text_has_a_lossless_encoding(seeing: Any) -> None:
    assert all(len(seeing.encode_response(name)) == 1 for name in (*NAMES, "yes", "no"))
    for text in ("plain words", "naïve café — 東京 🙂", "\tint x = 0;\n\n}", "0f3a9c"):
        assert seeing.tokenizer.decode(seeing.encode(text)[1:]) == text


@pytest.mark.slow
def test_names_are_learnt_from_examples_and_from_nothing_else(seeing: Any) -> None:
    few = evaluate.accuracy(seeing, 4, 20, seed=5)
    zero = evaluate.accuracy(seeing, 0, 20, seed=5)
    assert len(few) == len(zero) == 100
    assert np.mean(few) >= 0.8
    assert np.mean(zero) <= 0.4


@pytest.mark.slow
def test_its_first_layers_learn_names_too(seeing: Any) -> None:
    short = open_model("pocket-vision-short")
    assert short.fingerprint == f"{seeing.fingerprint}-3-layers"
    few, zero = (np.mean(evaluate.accuracy(short, shots, 20, seed=5)) for shots in (4, 0))
    assert few >= zero + 0.2


@pytest.mark.slow
def test_it_tells_whether_an_image_is_in_the_context(seeing: Any) -> None:
    there, absent, copied = evaluate.presence(seeing, "patchwork", 10, 15, seed=5)
    assert np.mean(there) >= 0.9
    assert np.mean(absent) <= 0.1
    assert np.mean(copied) >= 0.8


def test_training_asks_for_answers_where_they_stand(seeing: Any) -> None:
    train = pytest.importorskip("train_vision")
    episodes = pytest.importorskip("image_episodes")
    tok = seeing.tokenizer.backend_tokenizer
    maker = episodes.Maker(episodes.Bank(2, 0, TRAINED[:12]))
    for seed in range(20):
        episode = maker.episode(np.random.default_rng(seed), 5, seed % 7)
        sequence = train.encode(episode, tok)
        assert (
            sequence.ids.count(3)
            == train.TOKENS * len(sequence.images)
            == 4 * (len(episode.rows) + len(episode.turns))
        )
        assert len(sequence.about) == 2 * len(sequence.images)
        assert (
            len(
                {
                    len(c)
                    for c in (
                        sequence.ids,
                        sequence.segment,
                        sequence.position,
                        sequence.weight,
                        sequence.kind,
                    )
                }
            )
            == 1
        )
        whole = tok.encode(episode.head + "".join(episode.rows) + episode.turns[0].text).ids
        first = [
            token
            for token, part in zip(sequence.ids, sequence.segment, strict=True)
            if part in (0, 1)
        ]
        assert first[: len(train.spread(whole))] == train.spread(
            whole
        )  # a turn continues the context as a prompt does


def test_the_training_forward_equals_the_model(seeing: Any) -> None:
    train = pytest.importorskip("train_vision")
    episodes = pytest.importorskip("image_episodes")
    episode = episodes.Maker(episodes.Bank(2, 0, TRAINED[:12]), turns=1).episode(
        np.random.default_rng(3), 3, 4
    )
    sequence = train.encode(episode, seeing.tokenizer.backend_tokenizer)
    inputs = seeing.processor(
        text=episode.head + "".join(episode.rows) + episode.turns[0].text,
        images=sequence.images,
        return_tensors="pt",
    )
    length = inputs["input_ids"].shape[1]
    with torch.inference_mode():
        own = seeing.model(**inputs).logits[0].float()
        with torch.autocast("cpu", torch.bfloat16):
            hidden, *_ = train.forward(seeing.model, [sequence])
            trained = seeing.model.lm_head(hidden)[0, :length].float()
    assert PSEUDO_NAMES.labels == NAMES
    assert (own[-1] - trained[-1]).abs().max() < 0.05 * (own[-1].max() - own[-1].min())
