"""Mechanisms: how an answer is made from a private context. `MECHANISMS` maps names to classes.

An option outside its stated range raises `UsageError`.
"""

from leakbound.mechanisms.baselines import (
    AnswerProbabilities,
    FewShot,
    JudgeDefense,
    PromptDefense,
    ZeroShot,
)
from leakbound.mechanisms.catalogue import (
    MECHANISMS,
    build_mechanism,
    option_names,
    service_options,
)
from leakbound.mechanisms.dp_fusion import DPFusion
from leakbound.mechanisms.embedding_mean import EmbeddingMean
from leakbound.mechanisms.influence_decoding import BoundedCID, ContextInfluenceDecoding
from leakbound.mechanisms.invisible_ink import InvisibleInk
from leakbound.mechanisms.keyword_mean import KeywordMean
from leakbound.mechanisms.parts.base import CalibratedMechanism, MechanismBase, PublicFacts
from leakbound.mechanisms.parts.total_calls import answer_total
from leakbound.mechanisms.product_of_experts import ProductOfExperts
from leakbound.mechanisms.report_noisy_max import ReportNoisyMax
from leakbound.mechanisms.subsample_average import SubsampleAverage
from leakbound.mechanisms.synthetic_shots import SyntheticShots
from leakbound.tasks import Mechanism

__all__ = [
    "MECHANISMS", "AnswerProbabilities", "BoundedCID", "CalibratedMechanism",
    "ContextInfluenceDecoding", "DPFusion", "EmbeddingMean", "FewShot", "InvisibleInk",
    "JudgeDefense", "KeywordMean", "Mechanism", "MechanismBase", "ProductOfExperts",
    "PromptDefense", "PublicFacts", "ReportNoisyMax", "SubsampleAverage", "SyntheticShots",
    "ZeroShot", "answer_total", "build_mechanism", "option_names", "service_options",
]  # fmt: skip
