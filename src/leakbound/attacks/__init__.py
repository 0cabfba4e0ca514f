"""Attacks: small values that combine freely. Each catalogue is a dict by name."""

from leakbound.attacks.attack import Attack, Insertion
from leakbound.attacks.canaries import (
    CANARIES,
    Canary,
    FalseFact,
    Given,
    Hex,
    Mislabeled,
    Natural,
    Unigram,
)
from leakbound.attacks.image_canaries import Marked, Patchwork
from leakbound.attacks.queries import (
    QUERIES,
    Asked,
    AuditQuery,
    Brainwash,
    Gap,
    GivenQuery,
    IfThenExplicit,
    IfThenImplicit,
    Injection,
    InputOutput,
    Membership,
    Repeat,
    SignalPair,
)
from leakbound.attacks.scores import (
    SCORES,
    ContainsCanary,
    DistanceGap,
    LabelMargin,
    Overlap,
    PredictedMember,
    ReferenceDirection,
    Score,
    ScoreMargin,
)

__all__ = [
    "CANARIES", "QUERIES", "SCORES", "Asked", "Attack", "AuditQuery", "Brainwash", "Canary", "ContainsCanary", "DistanceGap",
    "FalseFact", "Gap", "Given", "GivenQuery", "Hex", "IfThenExplicit", "IfThenImplicit", "Injection", "InputOutput", "Membership",
    "Insertion", "LabelMargin", "Marked", "Mislabeled", "Natural", "Overlap", "Patchwork", "ReferenceDirection", "Repeat", "PredictedMember", "Score", "ScoreMargin",
    "SignalPair", "Unigram",
]  # fmt: skip
