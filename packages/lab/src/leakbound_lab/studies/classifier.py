"""A sequence classifier over pairs of texts, from a folder or a hub id, such as FactKB."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, PreTrainedModel
from transformers.utils.logging import disable_progress_bar

from leakbound.errors import TargetError
from leakbound.models.local.hugging_face import Tokenizer, first_line

BATCH = 8  # pairs per pass: on a CPU, a full window of each needs a few hundred MB


class Classifier:
    """Probabilities of classes for pairs of texts; of a long pair, the longer text is truncated."""

    def __init__(self, model: PreTrainedModel, tokenizer: Tokenizer, name: str) -> None:
        self.model, self.tokenizer, self.name = model, tokenizer, name
        # positions of these models start after padding
        extra = 2 if model.config.model_type in ("roberta", "xlm-roberta", "camembert") else 0
        self.window = int(getattr(model.config, "max_position_embeddings", 512)) - extra

    def probabilities(self, pairs: Sequence[tuple[str, str]]) -> npt.NDArray[np.float64]:
        found = [self._batch(pairs[at : at + BATCH]) for at in range(0, len(pairs), BATCH)]
        empty = np.zeros((0, int(self.model.config.num_labels or 0)))
        return np.concatenate([empty, *found])

    def _batch(self, pairs: Sequence[tuple[str, str]]) -> npt.NDArray[np.float64]:
        first, second = ([pair[i] for pair in pairs] for i in (0, 1))
        how = {"return_tensors": "pt", "padding": True, "truncation": True}
        tokens = self.tokenizer(first, second, max_length=self.window, **how)
        with torch.inference_mode():
            logits = self.model(**tokens.to(self.model.device)).logits
        return np.asarray(torch.softmax(logits.double(), -1).cpu().numpy())


def load_classifier(address: str) -> Classifier:
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
    return Classifier(model.eval(), cast(Tokenizer, tokenizer), address)
