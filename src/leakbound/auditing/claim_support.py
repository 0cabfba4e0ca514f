"""Whether what a mechanism guarantees supports what is claimed of it, before any trial."""

from __future__ import annotations

from leakbound.auditing.spec import AuditSpec
from leakbound.estimators.base import ROUNDING
from leakbound.privacy import Gaussian, Guarantee, NonPrivate


def unsupported_claim(spec: AuditSpec, cost: Guarantee) -> tuple[str, ...]:
    """What the accountant knows of a claim."""
    epsilon, delta = spec.decision.each
    guaranteed = cost.epsilon(delta)
    if isinstance(cost, NonPrivate) or guaranteed <= epsilon * (1 + ROUNDING):
        return ()
    if spec.decision.claim is not None:
        return (
            f"{cost.describe()} limits by how much outputs may differ with and without a record, "
            "and does not promise that they are the same: random guessing is not what this "
            "mechanism guarantees. Audit what it does with --epsilon in place of --claim.",
        )
    if isinstance(cost, Gaussian):
        return (
            f"the noise in force gives epsilon {guaranteed:.3g} at delta {delta:g}, not the "
            f"claimed {epsilon:g}: the claim is wrong before any trial (the classical formula does "
            "not hold for every epsilon above 1).",
        )
    return (
        f"the declared guarantee, {cost.describe()}, gives epsilon {guaranteed:.3g} at delta "
        f"{delta:g}, which does not support the claimed {epsilon:g}.",
    )
