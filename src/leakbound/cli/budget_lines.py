"""What a privacy budget buys in answers, in words."""

from __future__ import annotations

from leakbound.privacy import Guarantee, NonPrivate, Subsampled, leaves
from leakbound.serving.ledger import affordable_answers

TIMES = (1, 2, 4, 8, 16)  # budgets, in units of the claimed epsilon
# Of guarantees whose composition takes seconds, and of none at all, nothing is said.
UNSAID = (NonPrivate, Subsampled)


def budget_line(cost: Guarantee, epsilon: float, delta: float) -> str | None:
    """How many answers of a mechanism budgets buy, where it is served.

    Examples:
        >>> from leakbound.privacy import PureDP
        >>> budget_line(PureDP(0.5), 1.0, 1e-5)
        'served, a budget of ε = 1, 2, 4, 8, 16 at δ = 1e-05 buys 2, 4, 8, 16, 32 answers'
    """
    if any(isinstance(part, UNSAID) for part in leaves(cost)):
        return None
    budgets = [times * epsilon for times in TIMES]
    bought = [affordable_answers(cost, budget, delta) for budget in budgets]
    if None in bought:
        return None
    shown, counts = ", ".join(f"{one:g}" for one in budgets), ", ".join(map(str, bought))
    return f"served, a budget of ε = {shown} at δ = {delta:g} buys {counts} answers"
