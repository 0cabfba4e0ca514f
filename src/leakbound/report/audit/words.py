"""The sentences of an audit's report, shared by terminal, page and notebook.

A number never stands without its kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leakbound.report.words import KINDS
from leakbound.stats import cut

if TYPE_CHECKING:
    from leakbound.auditing import AuditResult
    from leakbound.stats import Estimate

__all__ = ["ESTIMATE_HEAD", "bound_sentence", "estimate_row", "setup_sentence"]

ESTIMATE_HEAD = (
    "Method", "ε", "μ", "Kind", "δ", "Confidence", "Counts", "Threshold", "Assumptions",
)  # fmt: skip
IMPLIED = "implied_epsilon"  # of an estimate of mu: no bound of its own


def bound_sentence(result: AuditResult) -> str:
    """The bound beside the claim.

    Args:
        result: A finished audit.

    Returns:
        One sentence; a second one where the mechanism guarantees a mu.
    """
    bound, claim = result.bound, result.claim
    text = (
        f"ε(δ={claim.delta:g}) ≥ {cut(bound.epsilon)} with {bound.confidence:.0%} confidence; "
        f"claimed: {claim.epsilon:g}"
    )
    if result.guarantee.mu is not None:
        text += f". μ ≥ {cut(result.mu_bound.mu, 3)}; guaranteed: {result.guarantee.mu:.3f}"
    return text + "."


def setup_sentence(result: AuditResult) -> str:
    """What was tried.

    Args:
        result: A finished audit.

    Returns:
        One sentence.
    """
    attack, counts = result.attack, result.counts
    return (
        f"{counts['pairs']} paired trials with {result.spec['shots']} examples a context and a "
        f"{attack['canary']} canary; query {attack['query']}, score {attack['score']} "
        f"({attack['access'].replace('_', ' ')}); {counts['model_calls']} model calls."
    )


def estimate_row(estimate: Estimate) -> tuple[str, ...]:
    """An estimate as cells under ESTIMATE_HEAD.

    Args:
        estimate: One estimate of an audit.

    Returns:
        Texts.
    """
    implied = estimate.epsilon is None and IMPLIED in estimate.details
    epsilon = estimate.details[IMPLIED] if implied else estimate.epsilon
    return (
        estimate.method,
        cut(epsilon) + (" if Gaussian" if implied else ""),
        cut(estimate.mu, 3),
        KINDS[estimate.kind],
        f"{estimate.delta:g}",
        f"{estimate.confidence:.0%}" if estimate.confidence else "none",
        ", ".join(f"{key} {value}" for key, value in estimate.counts.items()),
        estimate.threshold,
        "; ".join(estimate.assumptions),
    )
