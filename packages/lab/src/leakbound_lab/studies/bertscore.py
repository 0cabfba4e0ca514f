"""BERTScore: how alike two texts are to an encoder, by bert-score over a local model folder."""

from __future__ import annotations

import functools
import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from leakbound._install import install_hint
from leakbound.errors import TargetError, UsageError

if TYPE_CHECKING:
    from bert_score import BERTScorer


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
