"""Mechanisms: how an answer is made from a private context.

`MECHANISMS` is the catalogue by name.
"""

from __future__ import annotations

from typing import Any

from leakbound._catalogue import Catalogue
from leakbound.mechanisms.embedding_mean import EmbeddingMean
from leakbound.mechanisms.few_shot import FewShot, ZeroShot
from leakbound.mechanisms.influence_decoding import BoundedCID, ContextInfluenceDecoding
from leakbound.mechanisms.judge_defense import JudgeDefense
from leakbound.mechanisms.keyword_mean import KeywordMean
from leakbound.mechanisms.product_of_experts import ProductOfExperts
from leakbound.mechanisms.prompt_defense import PromptDefense
from leakbound.mechanisms.report_noisy_max import ReportNoisyMax
from leakbound.mechanisms.subsample_average import SubsampleAverage
from leakbound.mechanisms.synthetic_shots import SyntheticShots
from leakbound.tasks import Mechanism

__all__ = [
    "MECHANISMS", "BoundedCID", "ContextInfluenceDecoding", "EmbeddingMean", "FewShot", "JudgeDefense", "KeywordMean",
    "Mechanism", "ProductOfExperts", "PromptDefense", "ReportNoisyMax", "SubsampleAverage", "SyntheticShots",
    "ZeroShot",
]  # fmt: skip

MECHANISMS: Catalogue[Any] = Catalogue(
    "the mechanism",
    "leakbound.mechanisms",
    (
        ZeroShot, FewShot, PromptDefense, JudgeDefense, ReportNoisyMax, EmbeddingMean, KeywordMean,
        ProductOfExperts, SubsampleAverage, SyntheticShots, ContextInfluenceDecoding, BoundedCID,
    ),
)  # fmt: skip
