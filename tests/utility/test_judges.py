"""BERTScore and FactKB through real encoders of random weights, saved to folders by the test."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from leakbound_lab.studies.judges import bertscore_f1, factkb

from leakbound._install import install_hint
from leakbound.errors import TargetError, UsageError

torch = pytest.importorskip("torch")
import transformers  # noqa: E402
from tokenizers.pre_tokenizers import ByteLevel  # noqa: E402

pytestmark = pytest.mark.torch

TEXTS = ["The cat sat on the mat.", "A dog slept beside the warm oven.", "Nothing of that kind"]


def roberta(folder: Path, kind: Any, labels: int = 2, words: int = 66) -> str:
    """A RoBERTa of 16 dimensions whose tokens are bytes."""
    torch.manual_seed(3)
    marks = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *sorted(ByteLevel.alphabet())]
    tokenizer = transformers.RobertaTokenizer(
        vocab={mark: i for i, mark in enumerate(marks)}, merges=[]
    )
    config = transformers.RobertaConfig(
        vocab_size=len(marks), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=words, pad_token_id=1, bos_token_id=0,
        eos_token_id=2, num_labels=labels, initializer_range=0.5,
    )  # fmt: skip
    kind.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return roberta(tmp_path_factory.mktemp("encoder"), transformers.AutoModel)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> str:
    return roberta(
        tmp_path_factory.mktemp("classifier"), transformers.AutoModelForSequenceClassification
    )


def test_bertscore_of_a_text_with_itself_is_one(encoder: str) -> None:
    pytest.importorskip("bert_score")
    assert bertscore_f1(encoder, TEXTS, TEXTS) == pytest.approx([1, 1, 1], abs=1e-5)
    there, back = (
        bertscore_f1(encoder, TEXTS[:2], TEXTS[1::-1]),
        bertscore_f1(encoder, TEXTS[1::-1], TEXTS[:2]),
    )
    assert there == pytest.approx(back, abs=1e-5)  # F1 is symmetric
    assert max(there) < 0.999


def test_bertscore_by_hand(encoder: str) -> None:
    """Greedy matching of the last layer's unit vectors, special tokens matched but not in the
    means, as bert-score does.
    """
    pytest.importorskip("bert_score")
    model = transformers.AutoModel.from_pretrained(encoder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(encoder)
    rows = []
    for text in TEXTS[:2]:
        ids = tokenizer(" " + text, return_tensors="pt")
        with torch.inference_mode():
            found = model(**ids).last_hidden_state[0]
        rows.append(found / found.norm(dim=-1, keepdim=True))
    alike = rows[1] @ rows[0].T
    precision, recall = (float(alike.max(axis).values[1:-1].mean()) for axis in (1, 0))
    (got,) = bertscore_f1(encoder, TEXTS[:1], TEXTS[1:2])
    assert got == pytest.approx(2 * precision * recall / (precision + recall), abs=1e-4)


def test_bertscore_takes_blank_and_long_texts(encoder: str) -> None:
    pytest.importorskip("bert_score")
    blank, long, word = bertscore_f1(
        encoder, ["a cat", "word " * 100, "x"], [" ", "other " * 100, "x"]
    )
    assert blank == 0
    assert 0 < long < 1
    assert word == pytest.approx(1, abs=1e-5)
    assert bertscore_f1(encoder, [], []) == []


def test_factkb_is_class_one_of_response_and_context(classifier: str) -> None:
    contexts, responses = (
        ["A cat.", "Snow fell on the old bridge." * 20, "A dog slept."],
        ["Cat.", "Snow.", ""],
    )
    found = factkb(classifier, contexts, responses)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(classifier).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(classifier)
    for value, response, context in zip(found, responses, contexts, strict=True):
        ids = tokenizer(response, context, return_tensors="pt", truncation=True, max_length=64)
        with torch.inference_mode():
            want = torch.softmax(model(**ids).logits[0], -1)[1].item()
        assert value == pytest.approx(want, abs=1e-5)  # padding beside longer pairs changes nothing
    assert len({round(value, 6) for value in found}) == 3
    assert tokenizer("Cat.", "A cat.")["input_ids"].count(2) == 3  # response </s></s> context </s>


def test_many_pairs_keep_their_order(classifier: str) -> None:
    texts = [f"{i} cats" for i in range(20)]
    np.testing.assert_allclose(
        factkb(classifier, texts, texts),
        [factkb(classifier, [text], [text])[0] for text in texts],
        atol=1e-5,
    )


def test_folders_that_do_not_serve_get_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    three = roberta(tmp_path / "three", transformers.AutoModelForSequenceClassification, labels=3)
    with pytest.raises(TargetError, match="has 3 classes; FactKB has two"):
        factkb(three, [], [])
    (tmp_path / "empty").mkdir()
    with pytest.raises(TargetError, match="could not be loaded"):
        factkb(str(tmp_path / "empty"), ["a"], ["b"])
    with pytest.raises(TargetError, match="does not exist"):
        factkb(str(tmp_path / "nowhere"), ["a"], ["b"])
    with pytest.raises(TargetError, match="holds no encoder for BERTScore"):
        bertscore_f1(tmp_path / "empty", ["a"], ["b"])
    monkeypatch.setitem(sys.modules, "bert_score", None)
    with pytest.raises(UsageError, match=re.escape(install_hint("bertscore"))):
        bertscore_f1(tmp_path / "other", ["a"], ["b"])
