"""FactKB: is a response faithful to its context, by a sequence classifier over both."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Sequence
from typing import TYPE_CHECKING

from leakbound._install import install_hint
from leakbound.errors import TargetError

if TYPE_CHECKING:
    from leakbound.models.local.encoders import Classifier


def factkb(folder: str, contexts: Sequence[str], responses: Sequence[str]) -> list[float]:
    """Probability that each response is faithful to its context.

    Args:
        folder: A sequence classifier of two classes with its tokenizer, such as FactKB. It reads
            `response </s> context`; a pair longer than its window loses the end of its longer text.
        contexts: Contexts (PRIVATE).
        responses: As many responses (PRIVATE).

    Returns:
        The probability of class 1 (faithful) of each, in [0, 1].

    Raises:
        TargetError: If torch or transformers are not installed, or the folder holds no such
            classifier.

    Reference:
        Feng et al., "FactKB" (EMNLP 2023).
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
def _classifier(folder: str) -> Classifier:
    if (
        importlib.util.find_spec("torch") is None
        or importlib.util.find_spec("transformers") is None
    ):
        raise TargetError(
            f"FactKB needs torch and transformers; install them with: {install_hint('local')}."
        )
    from leakbound.models.local.encoders import load_classifier

    return load_classifier(folder)
