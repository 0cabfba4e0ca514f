"""ROUGE-1 and ROUGE-L, by the rouge-score package which needs no download."""

from __future__ import annotations

import functools
import importlib.util
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leakbound._install import install_hint
from leakbound.errors import UsageError

if TYPE_CHECKING:
    from rouge_score.rouge_scorer import RougeScorer


@dataclass(frozen=True, slots=True)
class Rouge:
    """ROUGE of one response.

    Attributes:
        precision: Share of the response's units that are found in the reference.
        recall: Share of the reference's units that are found in the response.
        f1: Their harmonic mean.
    """

    precision: float
    recall: float
    f1: float


def rouge(reference: str, response: str, stem: bool = True) -> dict[str, Rouge]:
    """ROUGE-1 and ROUGE-L of a response.

    Args:
        reference: The reference text (may be private).
        response: The response (may be private).
        stem: Whether to compare word stems.

    Returns:
        `rouge1` (words) and `rougeL` (longest common subsequence of words); an empty text scores 0.

    Raises:
        UsageError: If rouge-score is not installed.

    Reference:
        Lin, "ROUGE: a package for automatic evaluation of summaries" (2004).
    """
    found = _scorer(stem).score(reference, response)
    return {name: Rouge(*(float(value) for value in found[name])) for name in ("rouge1", "rougeL")}


@functools.cache
def _scorer(stem: bool) -> RougeScorer:
    if importlib.util.find_spec("rouge_score") is None:
        raise UsageError(
            f"ROUGE needs the package rouge-score; install it with: {install_hint('utility')}."
        )
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(["rouge1", "rougeL"], use_stemmer=stem)
