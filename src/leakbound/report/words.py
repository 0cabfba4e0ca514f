"""The sentences that a record is told in, shared by terminal and page.

A number is never told without its kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leakbound.stats import cut

if TYPE_CHECKING:
    from leakbound.auditing import AuditResult
    from leakbound.stats import Estimate

__all__ = ["LIMITS", "bound_sentence", "estimate_row", "system_name", "tried"]

LIMITS = (
    "A bound is a lower bound: the true leakage is at least that, and may be more.",
    "“Consistent” means that this attack did not refute the claim. It is no proof that the claim "
    "is true: a stronger "
    "attack, another canary or another query may refute it.",
    "The bound speaks of one answer to one query over one context. Several answers leak more.",
    "The model is part of the system: another model, temperature or wording can leak more or less.",
    "Bounds assume that trials are independent within each world, as the design draws them.",
)

KINDS = {
    "lower_bound": "lower bound",
    "point_estimate": "point estimate, decides nothing",
    "credible": "credible bound",
}


def system_name(record: AuditResult) -> str:
    """The system under audit, with what tells it from its siblings."""
    name, options = record.attack["mechanism"], record.spec["mechanism"]
    if name == "prompt_defense":
        return f"{name} L{options.get('level', 1)}"
    if name == "report_noisy_max":
        return f"{name} T={options.get('partitions', 10)}"
    return name


def bound_sentence(record: AuditResult) -> str:
    """The one sentence of an audit: the bound beside the claim."""
    bound, claim = record.bound, record.claim
    text = f"ε(δ={claim.delta:g}) ≥ {cut(bound.epsilon)} with {bound.confidence:.0%} confidence; claimed: {claim.epsilon:g}"
    if record.guarantee.mu is not None:
        text += f". μ ≥ {cut(record.mu_bound.mu, 3)}; guaranteed: {record.guarantee.mu:.3f}"
    return text + "."


def tried(record: AuditResult) -> str:
    """What was tried, in one sentence."""
    a, counts = record.attack, record.counts
    return (
        f"{counts['pairs']} pairs of contexts with {record.spec['shots']} examples, one with a "
        f"{a['canary']} canary in it and "
        f"one without; audit query {a['query']}, score {a['score']} "
        f"({a['access'].replace('_', ' ')}); "
        f"{counts['model_calls']} model calls."
    )


def estimate_row(estimate: Estimate) -> tuple[str, ...]:
    """method, epsilon, mu, kind, delta, confidence, counts, threshold, assumptions."""
    implied = estimate.method in ("gdp", "e_process_mu")  # by mu: no bound of its own
    value = estimate.details.get("implied_epsilon", estimate.epsilon) if implied else estimate.epsilon
    epsilon = cut(value) + (" if Gaussian" if implied else "")
    return (
        estimate.method, epsilon, cut(estimate.mu, 3), KINDS[estimate.kind], f"{estimate.delta:g}",
        f"{estimate.confidence:.0%}" if estimate.confidence else "none",
        ", ".join(f"{key} {value}" for key, value in estimate.counts.items()), estimate.threshold,
        "; ".join(estimate.assumptions),
    )  # fmt: skip
