"""The shipped model does what it is shipped for, on fresh episodes; and the training pass equals
the model.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from leakbound.models import Model, open_model  # noqa: E402
from leakbound.models.pocket import FOLDER  # noqa: E402
from leakbound.tasks.synthetic import HELP_DESK, help_desk  # noqa: E402

TRAINING = Path(__file__).parents[2] / "pocket_training"
sys.path.insert(0, str(TRAINING))
evaluate = pytest.importorskip("evaluate")
measures = pytest.importorskip("measures")

pytestmark = pytest.mark.torch


def shares(lines: list[str]) -> dict[str, float]:
    """What lines of a table measure, by name."""
    cells = [line.strip("| ").split("|") for line in lines]
    return {name.strip(): float(value.split("±")[0]) for name, value, *_ in cells}


def test_it_is_small_and_complete() -> None:
    sizes = {p.name: p.stat().st_size for p in FOLDER.iterdir()}
    assert {"config.json", "tokenizer.json", "model.safetensors"} <= set(sizes)
    assert sum(sizes.values()) < 8 << 20


def test_any_text_has_a_lossless_encoding(pocket: Model) -> None:
    for text in ("plain words", "naïve café — 東京 🙂", "\tint x = 0;\n\n}", "0f3a9c"):
        ids = pocket.encode(text)  # type: ignore[attr-defined]
        assert pocket.tokenizer.decode(ids[1:]) == text  # type: ignore[attr-defined]


@pytest.mark.slow
def test_presence_if_then_and_label_copying(pocket: Model) -> None:
    data = help_desk(300, np.random.default_rng(77))
    cells = evaluate.presence(pocket, data, HELP_DESK, 20, 2)
    right = {name: hits / n for name, (hits, n) in cells.items()}
    assert right["membership member"] >= 0.9
    assert right["membership non-member"] >= 0.9
    assert right["if-then"] >= 0.85
    assert right["label copying"] >= 0.85


@pytest.mark.slow
def test_few_shot_learns_what_zero_shot_cannot(pocket: Model) -> None:
    few, zero = (float(line.split("|")[2].split("±")[0]) for line in evaluate.synthetic(pocket, 60))
    assert few >= 0.8
    assert zero <= 0.45


@pytest.mark.slow
def test_its_first_half_routes_as_well_and_finds_nothing(pocket: Model) -> None:
    half = open_model("pocket-half")
    assert half.fingerprint == f"{pocket.fingerprint}-3-layers"
    few, whole = (shares(evaluate.synthetic(one, 30)[:1]) for one in (half, pocket))
    assert min(few.values()) >= min(whole.values()) - 0.1
    cells = evaluate.presence(half, help_desk(300, np.random.default_rng(77)), HELP_DESK, 30, 3)
    right = {name: hits / n for name, (hits, n) in cells.items()}
    told_apart = right["membership member"] + right["membership non-member"] - 1
    assert abs(told_apart) <= 0.2, right


@pytest.mark.slow
def test_documents_and_signals(pocket: Model) -> None:
    *lines, first = evaluate.documents(pocket, 8) + evaluate.signals(pocket, 16)
    for line in lines:
        assert float(line.split("|")[2].split("±")[0]) >= 0.7, line
    assert "first of the two" in first
    assert 0.25 <= float(first.split("|")[2].split("±")[0]) <= 0.75, first


@pytest.mark.slow
def test_instructions_stop_open_questions_and_no_questions_about_random_strings(
    pocket: Model,
) -> None:
    """The first weights obeyed no instruction: all of these told all contexts apart."""
    right = shares(measures.instructions(pocket, 12))
    for level in ("L1", "L2"):
        assert right[f"instruction {level}, membership, natural canary"] <= 0.6, right
        assert right[f"instruction {level}, if_then_explicit, hex canary"] >= 0.85, right
        assert right[f"instruction {level}, ordinary queries"] >= 0.9, right
    assert right["instruction none, membership, natural canary"] >= 0.9, right


@pytest.mark.slow
def test_it_judges_answers_and_answers_about_two_texts(pocket: Model) -> None:
    for name, right in shares(measures.judgements(pocket, 20)).items():
        assert right >= 0.9, name
    for name, right in shares(measures.two_texts(pocket, 20)).items():
        assert right >= 0.9, name


@pytest.mark.slow
def test_most_near_misses_are_no_members(pocket: Model) -> None:
    rows = help_desk(300, np.random.default_rng(78))
    near = evaluate.near_misses(pocket, rows, HELP_DESK, 60, 3)
    for name, (right, n) in near.items():
        assert right / n >= 0.7, (name, right)


def test_the_training_pass_equals_the_model() -> None:
    train = pytest.importorskip("train")
    from forward import hidden_states
    from transformers import LlamaForCausalLM

    torch.manual_seed(0)
    model = LlamaForCausalLM(train.config(2048))
    for parameter in model.parameters():
        parameter.data.normal_(0, 0.1)
    ids = np.random.default_rng(0).integers(3, 2048, 40).tolist()
    with torch.inference_mode():
        mask = train.mask_of(torch.zeros(40, dtype=torch.long)).float()
        got = hidden_states(model, torch.tensor(ids), torch.arange(40), [40], [mask], torch.float32)
        want = model.model(torch.tensor([ids])).last_hidden_state[0]
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-4)
