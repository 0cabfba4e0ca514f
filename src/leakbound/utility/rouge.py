"""ROUGE-1 and ROUGE-L, by the rouge-score package which needs no download."""

from __future__ import annotations

import functools
import importlib.util
from dataclasses import dataclass
from typing import Any

from leakbound.errors import UsageError

__all__ = ["Rouge", "rouge"]


@dataclass(frozen=True, slots=True)
class Rouge:
    """Share of the response's units found in the reference (precision), of the reference's in the
    response (recall), and F1.
    """

    precision: float
    recall: float
    f1: float


def rouge(reference: str, response: str, stem: bool = True) -> dict[str, Rouge]:
    """`rouge1` (words) and `rougeL` (longest common subsequence of words); both texts may be
    private. stem: compare word stems.

    Raises UsageError if rouge-score is not installed. An empty text scores 0.
    """
    found = _scorer(stem).score(reference, response)
    return {name: Rouge(*(float(value) for value in found[name])) for name in ("rouge1", "rougeL")}


@functools.cache
def _scorer(stem: bool) -> Any:
    if importlib.util.find_spec("rouge_score") is None:
        raise UsageError(
            "ROUGE needs the package rouge-score; install it with: pip install "
            "'leakbound[utility]'."
        )
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(["rouge1", "rougeL"], use_stemmer=stem)
