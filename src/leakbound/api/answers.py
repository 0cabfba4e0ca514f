"""`answer`: one private answer, paid for in a ledger."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from leakbound.auditing.rows import task_of
from leakbound.mechanisms import MECHANISMS
from leakbound.models import Model, Scripted, open_model
from leakbound.serving import Answer, PrivateICL
from leakbound.serving.ledger import DATASET, Ledger
from leakbound.tasks import Example, Mechanism, Task, as_context

__all__ = ["answer"]


def answer(
    query: str,
    rows: Iterable[Example | tuple[str, str]],
    *,
    mechanism: Mechanism | str = "report_noisy_max",
    epsilon: float = 1.0,
    delta: float = 1e-5,
    task: Task | None = None,
    model: Model | str = "pocket",
    budget: float | None = None,
    ledger: Ledger | str | Path = "leakbound-ledger.sqlite",
    dataset: str = DATASET,
    record_ids: Sequence[str] | None = None,
) -> Answer:
    """Answer one query from private rows, within a budget that is spent before the model is asked.

    Args:
        query: What is asked (public).
        rows: Examples or (input, label) pairs (PRIVATE).
        mechanism: A mechanism, or its name, calibrated to epsilon and delta for one answer.
        epsilon: What a mechanism given by name is calibrated to.
        delta: Of the calibration and of the budget.
        task: How rows and query become prompts; None: inferred from the rows.
        model: A model, or its address.
        budget: Total epsilon of all answers; None: epsilon, which is one answer.
        ledger: A ledger, or the file or PostgreSQL address that keeps what was spent.
        dataset: Name of the data set; the budget is for all answers from it.
        record_ids: An id for each row (PRIVATE), which its account belongs to; None: its content.

    Returns:
        The text, and what was spent and remains.

    Raises:
        BudgetExhausted: If the budget does not allow another answer; nothing is released.
        LeakboundError: With a sentence for whatever cannot be used.

    Guarantee:
        That of the mechanism, under its relation; see `Answer.spent`.
    """
    context = as_context(rows)
    made = build(mechanism, epsilon, delta) if isinstance(mechanism, str) else mechanism
    opened = Scripted(name=made.name) if not made.needs else model
    opened = open_model(opened) if isinstance(opened, str) else opened
    total = epsilon if budget is None else budget
    book = ledger if isinstance(ledger, Ledger) else Ledger(ledger, total, delta)
    return PrivateICL(made, context, task or task_of(context, None), opened, book,
                      dataset=dataset, record_ids=record_ids).answer(query)  # fmt: skip


def build(name: str, epsilon: float, delta: float) -> Mechanism:
    """A mechanism by name, calibrated for one answer."""
    made: Mechanism = MECHANISMS[name].for_claim(epsilon, delta)
    return made
