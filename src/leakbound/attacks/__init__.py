"""Attacks: small values that combine freely. Each catalogue holds its classes by name.

A class that inherits from `Canary`, `AuditQuery` or `Score` gets the defaults shown; one that does
not must have every member.
"""

from leakbound.attacks.canaries import (
    CANARIES,
    Coded,
    FalseFact,
    Given,
    Hex,
    Marked,
    Mislabeled,
    Natural,
    Patchwork,
    Unigram,
)
from leakbound.attacks.protocols import (
    Attack,
    AuditQuery,
    Canary,
    Insertion,
    RenderedQuery,
    Score,
    ScoredAttack,
)
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
    Lookup,
    Membership,
    Recall,
    Repeat,
    SignalPair,
    ZeroShotSignals,
)
from leakbound.attacks.retrieval import (
    Differential,
    DocumentAttack,
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
    DocumentScore,
    LabelMargin,
    Overlap,
    PredictedMember,
    ReferenceDirection,
    ScoreMargin,
    Unanswered,
)

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
