"""BERTScore (Zhang et al.):

how alike two texts are to an encoder, by the bert-score package over a local model folder.
"""

from __future__ import annotations

import functools
import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from leakbound.errors import TargetError, UsageError

__all__ = ["bertscore_f1"]


def bertscore_f1(
    folder: str | Path, references: Sequence[str], responses: Sequence[str]
) -> list[float]:
    """F1 of each response against its reference (both may be private), not rescaled, without idf
    weights.

    folder: an encoder saved with save_pretrained. Its layer is the one that bert-score names for a
    model of the folder's name, such
    as 17 for `roberta-large`, else the last one. A blank text scores 0. Raises UsageError without
    the package, TargetError without
    a usable folder.
    """
    scorer = _scorer(str(folder))
    there = [bool(a.strip() and b.strip()) for a, b in zip(references, responses, strict=True)]
    pairs = [
        pair
        for pair, used in zip(zip(responses, references, strict=True), there, strict=True)
        if used
    ]
    found = iter(
        scorer.score(*(list(texts) for texts in zip(*pairs, strict=True)))[2].tolist()
        if pairs
        else ()
    )
    return [float(next(found)) if used else 0.0 for used in there]


@functools.cache
def _scorer(folder: str) -> Any:
    if importlib.util.find_spec("bert_score") is None:
        raise UsageError(
            "BERTScore needs the package bert-score; install it with: pip install "
            "'leakbound[bertscore]'."
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
    if hasattr(
        scorer._tokenizer, "add_prefix_space"
    ):  # bert-score asks for it in a way that transformers 5 no longer heeds
        scorer._tokenizer = type(scorer._tokenizer).from_pretrained(folder, add_prefix_space=True)
    scorer._tokenizer.model_max_length = (
        config["max_position_embeddings"] - 2
    )  # bert-score cuts there
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
