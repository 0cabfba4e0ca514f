"""FactKB (Feng et al.):

is a response faithful to its context, by a sequence classifier over both.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Sequence
from typing import Any

from leakbound.errors import TargetError

__all__ = ["factkb"]


def factkb(folder: str, contexts: Sequence[str], responses: Sequence[str]) -> list[float]:
    """Probability of class 1 (faithful) of each pair `response </s> context`, in [0, 1]; both texts
    are private.

    folder: a sequence classifier of two classes with its tokenizer, such as FactKB. A pair longer
    than its window loses the end of
    its longer text. Raises TargetError with what is missing.
    """
    classifier = _classifier(folder)
    found = classifier.probabilities(list(zip(responses, contexts, strict=True)))
    if found.shape[1] != 2:
        raise TargetError(
            f"the classifier {folder!r} has {found.shape[1]} classes; FactKB has two, unfaithful "
            "and faithful."
        )
    return [float(value) for value in found[:, 1]]


@functools.cache
def _classifier(folder: str) -> Any:
    if (
        importlib.util.find_spec("torch") is None
        or importlib.util.find_spec("transformers") is None
    ):
        raise TargetError(
            "FactKB needs torch and transformers; install them with: pip install "
            "'leakbound[local]'."
        )
    from leakbound.models.local.classifier import load_classifier

    return load_classifier(folder)
