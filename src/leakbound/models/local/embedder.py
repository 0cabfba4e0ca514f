"""Sentence embeddings with sentence-transformers, by id or folder: the extra `embed`."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np
import torch
from transformers.utils.logging import disable_progress_bar

from leakbound._install import install_hint
from leakbound.errors import TargetError
from leakbound.models.local.hugging_face import first_line
from leakbound.models.request import Embed, Request

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

BATCH = 32  # texts per pass

R = TypeVar("R")


class _SentenceEmbedder:
    """Answers `Embed` only, in one batch, with embeddings of norm 1."""

    limits: ClassVar[tuple[str, ...]] = ()
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


def load_embedder(address: str) -> _SentenceEmbedder:
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
    return _SentenceEmbedder(encoder, f"st/{address}", hashlib.sha256(identity).hexdigest()[:16])
