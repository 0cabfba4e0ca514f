"""Attacks: small values that combine freely. Each catalogue holds its classes by name."""

from leakbound.attacks.attack import Attack, Insertion, ScoredAttack
from leakbound.attacks.canaries import (
    CANARIES,
    FalseFact,
    Given,
    Hex,
    Mislabeled,
    Natural,
    Unigram,
)
from leakbound.attacks.image_canaries import Marked, Patchwork
from leakbound.attacks.protocols import AuditQuery, Canary, RenderedQuery, Score
from leakbound.attacks.queries import (
    QUERIES,
    Brainwash,
    EitherText,
    Gap,
    GivenQuery,
    IfThenExplicit,
    IfThenImplicit,
    Injection,
    InputOutput,
    Membership,
    Repeat,
    SignalPair,
    ZeroShotSignals,
)
from leakbound.attacks.retrieval import (
    Differential,
    DocumentAttack,
    DocumentScore,
    Extraction,
    GrowingPrefixes,
    Interrogation,
    MaskedWords,
    Question,
    SecondHalf,
)
from leakbound.attacks.scores import (
    SCORES,
    ContainsCanary,
    DistanceGap,
    LabelMargin,
    Overlap,
    PredictedMember,
    ReferenceDirection,
    ScoreMargin,
    Unanswered,
)
from leakbound.attacks.store_attacks import Coded, Lookup, Recall

__all__ = [
    "CANARIES", "QUERIES", "SCORES", "Attack", "AuditQuery", "Brainwash", "Canary", "Coded",
    "ContainsCanary", "Differential", "DistanceGap", "DocumentAttack", "DocumentScore",
    "EitherText", "Extraction", "FalseFact", "Gap", "Given", "GivenQuery", "GrowingPrefixes",
    "Hex", "IfThenExplicit", "IfThenImplicit", "Injection", "InputOutput", "Insertion",
    "Interrogation", "LabelMargin", "Lookup", "Marked", "MaskedWords", "Membership",
    "Mislabeled", "Natural", "Overlap", "Patchwork", "PredictedMember", "Question", "Recall",
    "ReferenceDirection", "RenderedQuery", "Repeat", "Score", "ScoreMargin", "ScoredAttack",
    "SecondHalf", "SignalPair", "Unanswered", "Unigram", "ZeroShotSignals",
]  # fmt: skip
