"""Audits of a service over several queries:

what a server with a ledger gives away before it refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from leakbound._check import count
from leakbound.attacks import Attack
from leakbound.auditing.design import design
from leakbound.errors import BudgetExhausted
from leakbound.privacy import ApproxDP, Guarantee
from leakbound.stats import EProcess, Estimate
from leakbound.tasks import Context, Query, Task, parse_answer

__all__ = ["Service", "ServiceAudit", "audit_service"]


class Service(Protocol):
    """Answers one query over the context that it was made for; refuses with BudgetExhausted."""

    def __call__(self, query: Query, /) -> str: ...


@dataclass(frozen=True, slots=True)
class ServiceAudit:
    """refuted: the bound exceeds the total; bound:

    epsilon at the total's delta; answers: mean number before refusal.
    """

    rejected: bool
    rejected_at: int | None
    bound: Estimate
    pairs: int
    answers: float


def audit_service(
    make: Callable[[Context], Service],
    total: Guarantee,
    rows: Context,
    task: Task,
    attack: Attack,
    pairs: int = 60,
    shots: int = 20,
    queries: int = 8,
    delta: float = 1e-5,
    seed: int = 0,
    confidence: float = 0.95,
) -> ServiceAudit:
    """Ask a fresh service for each world the same audit query up to `queries` times, until it
    refuses; bet against its total.

    make: a service over a context, with a ledger of its own (a world is a context that never was).
    total: what the service promises
    for all its answers together. A trial's score is the share of its answers that speak for a
    member; a service that refuses at
    once scores one half. Anytime-valid: ends at the pair that refutes.
    """
    levels = (np.arange(count("queries", queries)) + 0.5) / queries
    process, asked = EProcess(total, confidence, deltas=(delta,)), 0
    for pair in design(rows, task, attack, pairs, shots, seed):
        scores = []
        for job in (pair.member, pair.nonmember):
            said = _ask(make(job.context), job.query, queries)
            answers = task.answers(job.query)
            member = [
                parse_answer(text, answers) == answers.index(pair.asked.member) for text in said
            ]
            scores.append(float(np.mean(member)) if member else 0.5)
            asked += len(said)
        process.update(*(np.asarray(score >= levels, float) for score in scores))
        if process.rejected and _bound(process, total, delta).epsilon > total.epsilon(delta):  # type: ignore[operator]
            break
    bound = _bound(process, total, delta)
    rejected = (bound.epsilon or 0.0) > total.epsilon(delta)
    return ServiceAudit(
        rejected,
        process.pairs if rejected else None,
        bound,
        process.pairs,
        asked / (2 * process.pairs),
    )


def _bound(process: EProcess, total: Guarantee, delta: float) -> Estimate:
    return process.epsilon_lower_bound(total.delta if isinstance(total, ApproxDP) else delta)


def _ask(service: Service, query: Query, times: int) -> list[str]:
    """Answers until the service refuses."""
    said: list[str] = []
    for _ in range(times):
        try:
            said.append(service(query))
        except BudgetExhausted:
            break
    return said
