"""The ledger of private answers: an account for each record, and a budget that is never exceeded.

A spend is one exclusive transaction: the data set's answers are compared with the budget (public
facts), each record's account decides alone whether the record takes part, all of it is written
down, and only then the answer is made. A crash in between loses budget and never privacy. Many
processes may share a ledger, and many hosts one on PostgreSQL.
"""

from leakbound.serving.ledger.book import DATASET, BudgetState, Ledger, PossiblySpent, Spend
from leakbound.serving.ledger.keys import record_names
from leakbound.serving.ledger.units import affordable_answers

__all__ = [
    "DATASET",
    "BudgetState",
    "Ledger",
    "PossiblySpent",
    "Spend",
    "affordable_answers",
    "record_names",
]
