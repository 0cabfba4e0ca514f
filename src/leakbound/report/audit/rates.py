"""The figures that say a verdict at a glance: both rates of a binary score, and several systems
beside each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from leakbound.auditing.subject import system_name
from leakbound.gating.rates import rates_of
from leakbound.privacy import ApproxDP, gdp_trade_off, trade_off
from leakbound.report.bounds_figure import SystemBounds, bounds_figure
from leakbound.report.figures import CLAIM, INK, MEMBER, canvas, legend, svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from leakbound.auditing import AuditResult

BINARY = 3  # edges of the histogram of scores that are 0 or 1
GRID = np.concatenate([[0.0], np.logspace(-6, -2, 60), np.linspace(0.01, 1, 200)])


def is_binary(result: AuditResult) -> bool:
    """Whether the attack says yes or no, so that a ROC curve would be three points."""
    return len(result.curves.edges) == BINARY and bool(rates_of(result, 0.05))


def rates_figure(result: AuditResult) -> str:
    """Both rates of the attack with their intervals, and the region that the claim allows."""
    figure, axes = canvas("said “canary” where it was not", "said “canary” where it was")
    _draw_allowed(axes, result)
    rates = rates_of(result, 1 - (result.bound.confidence or 0.95))
    hit, alarm = rates["tpr"], rates["fpr"]
    low, high = hit.limits
    left, right = alarm.limits
    axes.fill_between([left, right], low, high, color=MEMBER, alpha=0.3, lw=0)
    axes.plot([alarm.share], [hit.share], "o", color=MEMBER, ms=7, label="observed, with intervals")
    axes.plot([0, 1], [0, 1], color=INK, lw=0.6, alpha=0.5)
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    legend(axes, "lower right")
    return svg(figure, f"rates of the attack on {result.attack['mechanism']}")


def _draw_allowed(axes: Axes, result: AuditResult) -> None:
    """Pairs of rates that a system within the claim can show, and what is guaranteed."""
    claim = ApproxDP(result.claim.epsilon, result.claim.delta)
    top = trade_off(claim, GRID)
    bottom = 1 - trade_off(claim, 1 - GRID)
    axes.fill_between(GRID, bottom, top, color=CLAIM, alpha=0.18, lw=0)
    axes.plot(
        GRID, top, color=CLAIM, ls="--", lw=1.6, label=f"allowed by the claim ε={claim.value:g}"
    )
    if result.guarantee.mu is not None:
        mu = result.guarantee.mu
        axes.plot(GRID, gdp_trade_off(GRID, mu), color=INK, ls=":", lw=1.6,
                  label=f"guarantee: μ={mu:.3g}")  # fmt: skip


def systems_figure(results: Sequence[AuditResult]) -> str:
    """Bound, claim and guarantee of several systems side by side."""
    return bounds_figure([
        SystemBounds(system_name(one), one.bound.epsilon or 0.0, one.claim.epsilon,
                     one.guarantee.epsilon)
        for one in results
    ])  # fmt: skip
