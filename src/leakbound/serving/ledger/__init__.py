"""The ledger of private answers: an account for each record, and a budget that is never exceeded.

A spend is one exclusive transaction. It compares the answers from the data set with the budget
(public facts), decides from each record's own account whether the record takes part, and writes
everything down. Only then is the answer made, so a crash in between loses budget and never privacy.
Many processes can share a ledger, and many hosts can share one on PostgreSQL.
"""

from leakbound.serving.ledger.ledger import DATASET, BudgetState, Ledger, PossiblySpent, Spend
from leakbound.serving.ledger.storage import RecordName, record_names
from leakbound.serving.ledger.units import affordable_answers

__all__ = [
    "DATASET", "BudgetState", "Ledger", "PossiblySpent", "RecordName", "Spend",
    "affordable_answers", "record_names",
]  # fmt: skip
