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
    "ContainsCanary", "DistanceGap", "EitherText", "FalseFact", "Gap", "Given", "GivenQuery",
    "Hex", "IfThenExplicit", "IfThenImplicit", "Injection", "InputOutput", "Insertion",
    "LabelMargin", "Lookup", "Marked", "Membership", "Mislabeled", "Natural", "Overlap",
    "Patchwork", "PredictedMember", "Recall", "ReferenceDirection", "RenderedQuery", "Repeat",
    "Score", "ScoreMargin", "ScoredAttack", "SignalPair", "Unanswered",
    "Unigram",
]  # fmt: skip
