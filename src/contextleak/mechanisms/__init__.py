"""Mechanisms: how an answer is made from a private context. `MECHANISMS` is the catalogue by name."""

from __future__ import annotations

from typing import Any

from contextleak.icl import Mechanism
from contextleak.mechanisms.embedding_mean import EmbeddingMean
from contextleak.mechanisms.few_shot import FewShot, ZeroShot
from contextleak.mechanisms.influence_decoding import BoundedCID, ContextInfluenceDecoding
from contextleak.mechanisms.judge_defense import JudgeDefense
from contextleak.mechanisms.keyword_mean import KeywordMean
from contextleak.mechanisms.load import load_system
from contextleak.mechanisms.product_of_experts import ProductOfExperts
from contextleak.mechanisms.prompt_defense import PromptDefense
from contextleak.mechanisms.report_noisy_max import ReportNoisyMax
from contextleak.mechanisms.subsample_average import SubsampleAverage
from contextleak.mechanisms.synthetic_shots import SyntheticShots
from contextleak.mechanisms.user import UserSystem, answerer

__all__ = [
    "MECHANISMS", "BoundedCID", "ContextInfluenceDecoding", "EmbeddingMean", "FewShot", "JudgeDefense", "KeywordMean",
    "Mechanism", "ProductOfExperts", "PromptDefense", "ReportNoisyMax", "SubsampleAverage", "SyntheticShots", "UserSystem",
    "ZeroShot", "answerer", "load_system",
]  # fmt: skip

MECHANISMS: dict[str, Any] = {
    kind.name: kind
    for kind in (
        ZeroShot, FewShot, PromptDefense, JudgeDefense, ReportNoisyMax, EmbeddingMean, KeywordMean, ProductOfExperts,
        SubsampleAverage, SyntheticShots, ContextInfluenceDecoding, BoundedCID,
    )
}  # fmt: skip
