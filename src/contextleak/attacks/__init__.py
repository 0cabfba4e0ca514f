"""Attacks: small values that combine freely. Each catalogue is a dict by name."""

from contextleak.attacks.attack import Attack, Insertion
from contextleak.attacks.canaries import CANARIES, Canary, Given, Hex, Natural
from contextleak.attacks.queries import QUERIES, Asked, AuditQuery, IfThenExplicit, InputOutput, Inquiry
from contextleak.attacks.scores import SCORES, LabelMargin, SaidMember, Score

__all__ = [
    "CANARIES", "QUERIES", "SCORES", "Asked", "Attack", "AuditQuery", "Canary", "Given", "Hex", "IfThenExplicit",
    "InputOutput", "Inquiry", "Insertion", "LabelMargin", "Natural", "SaidMember", "Score",
]  # fmt: skip
