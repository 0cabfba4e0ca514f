"""Sentence embeddings with sentence-transformers, by id or folder: the extra `embed`."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from transformers.utils.logging import disable_progress_bar

from leakbound._install import install_hint
from leakbound.errors import TargetError
from leakbound.models.local.hugging_face import Tokenizer, first_line
from leakbound.models.request import Embed, Request

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

BATCH = 32  # texts per pass

R = TypeVar("R")


class SentenceEmbedder:
    """Answers `Embed` only, in one batch, with embeddings of norm 1."""

    may_change: ClassVar[bool] = False
    supports: frozenset[type[Request[object]]] = frozenset({Embed})

    def __init__(self, encoder: SentenceTransformer, name: str, fingerprint: str) -> None:
        self.encoder, self.name, self.fingerprint = encoder, name, fingerprint

    def check(self, requests: Sequence[Request[object]], /) -> None:
        for request in requests:
            if not isinstance(request, Embed):
                raise TargetError(f"{self.name} answers Embed only, not {type(request).__name__}.")

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        self.check(requests)
        texts = [request.text for request in requests]  # type: ignore[attr-defined]
        alone = any(request.alone for request in requests)  # type: ignore[attr-defined]
        rows = self.encoder.encode(
            texts,
            batch_size=1 if alone else BATCH,
            normalize_embeddings=True,
            show_progress_bar=False,
            convert_to_numpy=True,
        )
        return list(np.asarray(rows, np.float32))


def load_embedder(address: str) -> SentenceEmbedder:
    """Load a sentence-transformers model, or a plain transformer with mean pooling."""
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise TargetError(
            "sentence embeddings need sentence-transformers; install it with: "
            f"{install_hint('embed')}."
        ) from None
    local = Path(address).exists()
    if not local and address.startswith((".", "/", "~")):
        raise TargetError(
            f"the folder {address!r} of the embedding model does not exist; give one saved "
            "with sentence-transformers."
        )
    try:
        disable_progress_bar()  # type: ignore[no-untyped-call]
        encoder = SentenceTransformer(
            address,
            local_files_only=local,
            model_kwargs={"dtype": torch.float32, "use_safetensors": True},
        )
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise TargetError(
            f"the embedding model {address!r} could not be loaded: {first_line(error)}"
        ) from None
    # the embedding of a fixed text changes if the weights do noticeably
    probe = np.asarray(encoder.encode(["one fixed text"], convert_to_numpy=True), np.float32)
    identity = f"{address} {np.round(probe, 4).tolist()}".encode()
    return SentenceEmbedder(encoder, f"st/{address}", hashlib.sha256(identity).hexdigest()[:16])


BATCH = 8  # pairs per pass: on a CPU, a full window of each needs a few hundred MB


class Classifier:
    """Probabilities of classes for pairs of texts; of a long pair, the longer text is truncated."""

    def __init__(self, model: Any, tokenizer: Tokenizer, name: str) -> None:
        self.model, self.tokenizer, self.name = model, tokenizer, name
        # positions of these models start after padding
        extra = 2 if model.config.model_type in ("roberta", "xlm-roberta", "camembert") else 0
        self.window = int(getattr(model.config, "max_position_embeddings", 512)) - extra

    def probabilities(self, pairs: Sequence[tuple[str, str]]) -> npt.NDArray[np.float64]:
        found = [self._batch(pairs[at : at + BATCH]) for at in range(0, len(pairs), BATCH)]
        return np.concatenate(found) if found else np.zeros((0, self.model.config.num_labels))

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
