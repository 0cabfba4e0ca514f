"""Answers for real users within a privacy budget, and an HTTP application over them."""

from leakbound.serving.http import ChatReply, application, chat, is_local
from leakbound.serving.ledger import BudgetState, Ledger
from leakbound.serving.private import Answer, AnswerLost, PrivateICL

__all__ = [
    "Answer",
    "AnswerLost",
    "BudgetState",
    "ChatReply",
    "Ledger",
    "PrivateICL",
    "application",
    "chat",
    "is_local",
]
