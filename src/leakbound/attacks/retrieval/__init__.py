"""Attacks on stores about one document: questions about it, and one number for all replies."""

from leakbound.attacks.retrieval.attack import DocumentAttack, DocumentQuery, Question
from leakbound.attacks.retrieval.differential import Differential
from leakbound.attacks.retrieval.extraction import Extraction
from leakbound.attacks.retrieval.interrogation import Interrogation
from leakbound.attacks.retrieval.masked_words import MaskedWords
from leakbound.attacks.retrieval.prefixes import GrowingPrefixes
from leakbound.attacks.retrieval.score import DocumentScore
from leakbound.attacks.retrieval.second_half import SecondHalf

__all__ = [
    "Differential", "DocumentAttack", "DocumentQuery", "DocumentScore", "Extraction",
    "GrowingPrefixes", "Interrogation", "MaskedWords", "Question", "SecondHalf",
]  # fmt: skip
