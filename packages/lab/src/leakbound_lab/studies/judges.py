"""Judges of responses: BERTScore, and classifiers over pairs of texts such as FactKB."""

from __future__ import annotations

import functools
import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from leakbound._install import install_hint
from leakbound.errors import TargetError, UsageError
from leakbound.stats.arrays import Floats

if TYPE_CHECKING:
    from bert_score import BERTScorer
    from transformers import PreTrainedModel

    from leakbound.models.local.hugging_face import Tokenizer


def bertscore_f1(
    folder: str | Path, references: Sequence[str], responses: Sequence[str]
) -> list[float]:
    """F1 of each response against its reference, not rescaled, without idf weights; 0 where a text
    is blank.

    The layer of the encoder is the one that bert-score names for a model of the folder's name, such
    as 17 for `roberta-large`, else the last one (Zhang et al., "BERTScore", ICLR 2020).
    """
    scorer = _scorer(str(folder))
    every = [*zip(responses, references, strict=True)]
    pairs = [pair for pair in every if all(text.strip() for text in pair)]
    scores = iter(
        scorer.score(*(list(texts) for texts in zip(*pairs, strict=True)))[2].tolist()
        if pairs
        else ()
    )
    return [float(next(scores)) if all(text.strip() for text in pair) else 0.0 for pair in every]


@functools.cache
def _scorer(folder: str) -> BERTScorer:
    if importlib.util.find_spec("bert_score") is None:
        raise UsageError(
            f"BERTScore needs the package bert-score; install it with: {install_hint('bertscore')}."
        )
    config = _config(Path(folder))
    from bert_score import BERTScorer
    from bert_score.utils import model2layers

    layers = model2layers.get(Path(folder).name, config["num_hidden_layers"])
    try:
        scorer = BERTScorer(model_type=folder, num_layers=layers, use_fast_tokenizer=True)
    except (OSError, ValueError, RuntimeError, KeyError, AssertionError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TargetError(
            f"the encoder {folder!r} could not be loaded for BERTScore: {reason}"
        ) from None
    # bert-score asks for the prefix space in a way that transformers 5 no longer heeds
    if hasattr(scorer._tokenizer, "add_prefix_space"):
        scorer._tokenizer = type(scorer._tokenizer).from_pretrained(folder, add_prefix_space=True)
    # bert-score cuts texts there; two positions are those of the special tokens
    scorer._tokenizer.model_max_length = config["max_position_embeddings"] - 2
    return scorer


def _config(folder: Path) -> dict[str, int]:
    try:
        found = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        return {key: int(found[key]) for key in ("num_hidden_layers", "max_position_embeddings")}
    except (OSError, ValueError, KeyError, TypeError):
        raise TargetError(
            f"the folder {str(folder)!r} holds no encoder for BERTScore; give a folder of BERT or "
            "RoBERTa, saved with save_pretrained."
        ) from None


BATCH = 8  # pairs per pass: on a CPU, a full window of each needs a few hundred MB


class _Classifier:
    """Probabilities of classes for pairs of texts; of a long pair, the longer text is truncated."""

    def __init__(self, model: PreTrainedModel, tokenizer: Tokenizer, name: str) -> None:
        self.model, self.tokenizer, self.name = model, tokenizer, name
        # positions of these models start after padding
        extra = 2 if model.config.model_type in ("roberta", "xlm-roberta", "camembert") else 0
        self.window = int(getattr(model.config, "max_position_embeddings", 512)) - extra

    def probabilities(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        found = [self._batch(pairs[at : at + BATCH]) for at in range(0, len(pairs), BATCH)]
        empty = np.zeros((0, int(self.model.config.num_labels or 0)))
        return np.concatenate([empty, *found])

    def _batch(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        import torch

        first, second = ([pair[i] for pair in pairs] for i in (0, 1))
        how = {"return_tensors": "pt", "padding": True, "truncation": True}
        tokens = self.tokenizer(first, second, max_length=self.window, **how)
        with torch.inference_mode():
            logits = self.model(**tokens.to(self.model.device)).logits
        return np.asarray(torch.softmax(logits.double(), -1).cpu().numpy())


@functools.cache
def _classifier(address: str) -> _Classifier:
    if any(importlib.util.find_spec(name) is None for name in ("torch", "transformers")):
        raise TargetError(
            f"FactKB needs torch and transformers; install them with: {install_hint('local')}."
        )
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer
    from transformers.utils.logging import disable_progress_bar

    from leakbound.models.local.hugging_face import first_line

    local = Path(address).exists()
    if not local and address.startswith((".", "/", "~")):
        raise TargetError(
            f"the folder {address!r} does not exist; give one with config.json, tokenizer and "
            "weights of a classifier."
        )
    disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        tokenizer = AutoTokenizer.from_pretrained(address, local_files_only=local)
        model = AutoModelForSequenceClassification.from_pretrained(address, local_files_only=local)
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        reason = first_line(error).rstrip(".:")
        raise TargetError(
            f"the classifier {address!r} could not be loaded ({reason}); give a "
            "folder with config.json, tokenizer and weights of a classifier."
        ) from None
    model.to(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    return _Classifier(model.eval(), cast("Tokenizer", tokenizer), address)


def factkb(folder: str, contexts: Sequence[str], responses: Sequence[str]) -> list[float]:
    """Probability of class 1 (faithful) of each response, by a sequence classifier of two classes.

    It reads `response </s> context`; a pair longer than its window loses the end of its longer text
    (Feng et al., "FactKB", EMNLP 2023).
    """
    classifier = _classifier(folder)
    found = classifier.probabilities(list(zip(responses, contexts, strict=True)))
    if found.shape[1] != 2:
        raise TargetError(
            f"the classifier {folder!r} has {found.shape[1]} classes; FactKB has two, unfaithful "
            "and faithful."
        )
    return [float(value) for value in found[:, 1]]
