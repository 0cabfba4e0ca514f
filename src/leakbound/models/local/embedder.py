"""Sentence embeddings of a sentence-transformers model, by id or folder: the extra `embed`."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from transformers.utils.logging import disable_progress_bar

from leakbound._install import install_hint
from leakbound.errors import TargetError
from leakbound.models.request import Embed, Request

__all__ = ["SentenceEmbedder", "load_embedder"]

R = TypeVar("R")


class SentenceEmbedder:
    """Answers `Embed` alone, in one batch, with embeddings of norm 1."""

    supports: frozenset[type[Request[Any]]] = frozenset({Embed})

    def __init__(self, encoder: Any, name: str, fingerprint: str) -> None:
        self.encoder, self.name, self.fingerprint = encoder, name, fingerprint

    def check(self, requests: Sequence[Request[Any]], /) -> None:
        """Refuse other kinds of asks."""
        for ask in requests:
            if not isinstance(ask, Embed):
                raise TargetError(f"{self.name} answers Embed only, not {type(ask).__name__}.")

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        """(dim,) float32 of norm 1 for each text."""
        self.check(requests)
        texts = [ask.text for ask in requests]  # type: ignore[attr-defined]
        rows = self.encoder.encode(
            texts, normalize_embeddings=True, show_progress_bar=False, convert_to_numpy=True
        )
        return list(np.asarray(rows, np.float32))


def load_embedder(address: str) -> SentenceEmbedder:
    """A sentence-transformers model, or a plain transformer with mean pooling; a folder never
    touches the network.
    """
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise TargetError(
            "sentence embeddings need sentence-transformers; install it with: "
            f"{install_hint('embed')}."
        ) from None
    local = Path(address).exists()
    try:
        disable_progress_bar()  # type: ignore[no-untyped-call]
        encoder = SentenceTransformer(
            address,
            local_files_only=local,
            model_kwargs={"dtype": torch.float32, "use_safetensors": True},
        )
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TargetError(
            f"the embedding model {address!r} could not be loaded: {reason}"
        ) from None
    return SentenceEmbedder(
        encoder, f"st/{address}", hashlib.sha256(_identity(address, encoder)).hexdigest()[:16]
    )


def _identity(address: str, encoder: Any) -> bytes:
    """Of the embedding of a fixed text:

    it changes whenever the weights do in a way that matters.
    """
    probe = np.asarray(encoder.encode(["one fixed text"], convert_to_numpy=True), np.float32)
    return f"{address} {np.round(probe, 4).tolist()}".encode()
