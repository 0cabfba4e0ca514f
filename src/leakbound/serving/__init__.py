"""Answers for real users within a privacy budget, and an HTTP application over them."""

from leakbound.serving.http import (
    ServiceState,
    Tenant,
    Tenants,
    application,
    is_local,
    load_tenants,
)
from leakbound.serving.ledger import BudgetState, Ledger
from leakbound.serving.private import Answer, AnswerLost, PrivateICL

__all__ = [
    "Answer", "AnswerLost", "BudgetState", "Ledger", "PrivateICL", "ServiceState", "Tenant",
    "Tenants", "application", "is_local", "load_tenants",
]  # fmt: skip
