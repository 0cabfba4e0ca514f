"""Attacks: small values that combine freely. Each catalogue is a dict by name."""

from contextleak.attacks.attack import Attack, Insertion
from contextleak.attacks.canaries import CANARIES, Canary, FalseFact, Given, Hex, Mislabeled, Natural, Unigram
from contextleak.attacks.image_canaries import Marked, Patchwork
from contextleak.attacks.queries import (
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
    Inquiry,
    Repeat,
    SignalPair,
)
from contextleak.attacks.scores import (
    SCORES,
    ContainsCanary,
    DistanceGap,
    LabelMargin,
    Overlap,
    ReferenceDirection,
    SaidMember,
    Score,
    ScoreMargin,
)

__all__ = [
    "CANARIES", "QUERIES", "SCORES", "Asked", "Attack", "AuditQuery", "Brainwash", "Canary", "ContainsCanary", "DistanceGap",
    "FalseFact", "Gap", "Given", "GivenQuery", "Hex", "IfThenExplicit", "IfThenImplicit", "Injection", "InputOutput", "Inquiry",
    "Insertion", "LabelMargin", "Marked", "Mislabeled", "Natural", "Overlap", "Patchwork", "ReferenceDirection", "Repeat", "SaidMember", "Score", "ScoreMargin",
    "SignalPair", "Unigram",
]  # fmt: skip
