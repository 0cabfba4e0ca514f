"""The figures of an audit: ROC curve, histograms, e-value, privacy profile."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from leakbound.privacy import ApproxDP, gdp_trade_off, trade_off
from leakbound.report.figures import CLAIM, INK, MEMBER, NONMEMBER, canvas, legend, svg

if TYPE_CHECKING:
    from leakbound.auditing import AuditResult
    from leakbound.auditing.result.curves import EValuePath
    from leakbound.estimators.exact import Profile

LEAST_DELTA = 1e-12  # where the logarithmic axis of delta ends
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def roc_figure(result: AuditResult) -> str:
    """The ROC curve of simulated outputs, the highest that the claim allows, and error limits."""
    figure, axes = canvas("false-positive rate", "true-positive rate")
    x = np.concatenate([[0.0], np.logspace(-6, -2, 60), np.linspace(0.01, 1, 200)])
    claim, mu = ApproxDP(result.claim.epsilon, result.claim.delta), result.guarantee.mu
    name = f"claim: ε={claim.value:g}, δ={claim.delta:g}"
    axes.plot(x, trade_off(claim, x), color=CLAIM, ls="--", lw=1.6, label=name)
    if mu is not None:
        y = gdp_trade_off(x, mu)
        axes.plot(x, y, color=INK, ls=":", lw=1.6, label=f"guarantee: μ={mu:.3g}")
    observed = f"observed (AUROC {result.curves.auroc:.3f})"
    axes.plot(result.curves.fpr, result.curves.tpr, color=MEMBER, lw=2, label=observed)
    for estimate in result.estimates:
        if estimate.method == "clopper_pearson" and estimate.confidence:
            limits = estimate.details
            at = [limits["fpr_upper"]], [1 - limits["fnr_upper"]]
            axes.plot(*at, "o", color=INK, ms=5, label="Clopper-Pearson limits")
    axes.plot([0, 1], [0, 1], color=INK, lw=0.6, alpha=0.5)
    axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))
    legend(axes, "lower right")
    return svg(figure, f"ROC curve of the attack on {result.attack['mechanism']}")


def histogram_figure(result: AuditResult) -> str:
    """The share of outputs by score, with the canary in the context and without it."""
    figure, axes = canvas(f"score: {result.attack['score']}", "share of outputs")
    curves = result.curves
    for shares, color, name in (
        (curves.nonmember, NONMEMBER, "canary out"),
        (curves.member, MEMBER, "canary in"),
    ):
        axes.stairs(shares, curves.edges, fill=True, alpha=0.35, color=color)
        axes.stairs(shares, curves.edges, color=color, lw=1.4, label=name)
    if len(curves.edges) == 3:
        middle = [(a + b) / 2 for a, b in zip(curves.edges, curves.edges[1:], strict=False)]
        axes.set_xticks(middle, ["0", "1"])
    legend(axes)
    return svg(figure, f"score histograms of both contexts for {result.attack['mechanism']}")


def e_value_figure(path: EValuePath, mechanism: str) -> str:
    """ln of the e-value, pair by pair, and the level that rejects."""
    figure, axes = canvas("paired trials", "ln of the e-value")
    axes.plot((0, *path.pairs), (0.0, *path.log_e_values), color=MEMBER, lw=2, label="e-value")
    level = f"rejected above {path.level:.3g}"
    axes.axhline(path.level, color=CLAIM, ls="--", lw=1.6, label=level)
    axes.axhline(0, color=INK, lw=0.6, alpha=0.5)
    legend(axes)
    return svg(figure, f"e-value of the test of {mechanism}")


def profile_figure(profile: Profile, result: AuditResult) -> str:
    """The exact δ(ε) of the paired trials, mean and worst, with the claim as a point."""
    figure, axes = canvas("ε", "δ(ε) of the pair")
    for values, color, name in (
        (profile.worst, MEMBER, "worst pair"),
        (profile.mean, NONMEMBER, "mean of the pairs"),
    ):
        axes.plot(profile.epsilon, np.maximum(values, LEAST_DELTA), color=color, lw=2, label=name)
    claim = [result.claim.epsilon], [max(result.claim.delta, LEAST_DELTA)]
    axes.plot(*claim, "D", color=CLAIM, ms=6, label="claim")
    axes.set(yscale="log", ylim=(LEAST_DELTA, 2))
    axes.yaxis.set_major_formatter(_power_of_ten)
    legend(axes)
    return svg(figure, f"exact privacy profile of the pairs of {result.attack['mechanism']}")


def _power_of_ten(value: float, _place: float | None) -> str:
    """As 10⁻⁵. The labels of matplotlib are TeX, whose parser takes longer than the figure."""
    return "10" + f"{math.log10(value):.0f}".translate(SUPERSCRIPTS)
