"""Figures of a record as inline SVG, in the page's own text colour, so they read in light and dark."""

from __future__ import annotations

import html
import io
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from leakbound.privacy import ApproxDP, gdp_trade_off, trade_off

if TYPE_CHECKING:
    from leakbound.auditing import AuditResult

__all__ = ["histogram_figure", "profile_figure", "roc_figure", "wealth_figure"]

INK = "#010203"  # stands for the page's text colour until the SVG is written
MEMBER, NONMEMBER, CLAIM = "#d55e00", "#0072b2", "#8a6d00"


def roc_figure(record: AuditResult) -> str:
    """Observed ROC of the simulated releases, the most that the claim allows, and the error limits
    of the bound.
    """
    figure, axes = _canvas("false-positive rate", "true-positive rate")
    x = np.concatenate([[0.0], np.logspace(-6, -2, 60), np.linspace(0.01, 1, 200)])
    claim = ApproxDP(record.claim.epsilon, record.claim.delta)
    axes.plot(
        x,
        trade_off(claim, x),
        color=CLAIM,
        ls="--",
        lw=1.6,
        label=f"claim: ε={claim.value:g}, δ={claim.delta:g}",
    )
    if record.guarantee.mu is not None:
        axes.plot(
            x,
            gdp_trade_off(x, record.guarantee.mu),
            color=INK,
            ls=":",
            lw=1.6,
            label=f"guarantee: μ={record.guarantee.mu:.3g}",
        )
    axes.plot(
        record.curves.fpr,
        record.curves.tpr,
        color=MEMBER,
        lw=2,
        label=f"observed (AUROC {record.curves.auroc:.3f})",
    )
    for limits in [
        e.details for e in record.estimates if e.method == "clopper_pearson" and e.confidence
    ]:
        at = [limits["fpr_upper"]], [1 - limits["fnr_upper"]]
        axes.plot(*at, "o", color=INK, ms=5, label="Clopper-Pearson limits")
    axes.plot([0, 1], [0, 1], color=INK, lw=0.6, alpha=0.5)
    axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))
    axes.legend(fontsize=8, frameon=False, labelcolor=INK, loc="lower right")
    return _svg(figure, f"ROC curve of the attack on {record.attack['mechanism']}")


def histogram_figure(record: AuditResult) -> str:
    """Share of releases per score, both worlds."""
    figure, axes = _canvas(f"score: {record.attack['score']}", "share of releases")
    edges = record.curves.edges
    for shares, color, name in (
        (record.curves.nonmember, NONMEMBER, "canary out"),
        (record.curves.member, MEMBER, "canary in"),
    ):
        axes.stairs(shares, edges, fill=True, alpha=0.35, color=color)
        axes.stairs(shares, edges, color=color, lw=1.4, label=name)
    if len(edges) == 3:
        axes.set_xticks([(edges[0] + edges[1]) / 2, (edges[1] + edges[2]) / 2], ["0", "1"])
    axes.legend(fontsize=8, frameon=False, labelcolor=INK)
    return _svg(figure, f"score histograms of both worlds for {record.attack['mechanism']}")


def wealth_figure(record: AuditResult) -> str:
    """ln of the wealth of the bet against the promise, pair by pair, and the level that refutes it."""
    wealth = record.wealth
    assert wealth is not None
    figure, axes = _canvas("pairs", "ln of the wealth of the bet")
    axes.plot((0, *wealth.pairs), (0.0, *wealth.log_wealth), color=MEMBER, lw=2, label="wealth")
    axes.axhline(
        wealth.level, color=CLAIM, ls="--", lw=1.6, label=f"refuted above {wealth.level:.3g}"
    )
    axes.axhline(0, color=INK, lw=0.6, alpha=0.5)
    axes.legend(fontsize=8, frameon=False, labelcolor=INK)
    return _svg(
        figure, f"wealth of the e-process against the promise of {record.attack['mechanism']}"
    )


def profile_figure(record: AuditResult) -> str:
    """Exact delta(epsilon) of the pairs, mean and worst, with the claim as a point."""
    profile = record.profile
    assert profile is not None
    figure, axes = _canvas("ε", "δ(ε) of the pair")
    for values, color, name in (
        (profile.worst, MEMBER, "worst pair"),
        (profile.mean, NONMEMBER, "mean of the pairs"),
    ):
        axes.plot(profile.epsilon, np.maximum(values, 1e-12), color=color, lw=2, label=name)
    axes.plot(
        [record.claim.epsilon],
        [max(record.claim.delta, 1e-12)],
        "D",
        color=CLAIM,
        ms=6,
        label="claim",
    )
    axes.set(yscale="log", ylim=(1e-12, 2))
    axes.legend(fontsize=8, frameon=False, labelcolor=INK)
    return _svg(figure, f"exact privacy profile of the pairs of {record.attack['mechanism']}")


def _canvas(x: str, y: str) -> tuple[Any, Any]:
    import matplotlib
    from matplotlib.figure import Figure

    style: Any = dict.fromkeys(
        ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK
    )
    with matplotlib.rc_context(
        {**style, "svg.fonttype": "none", "svg.hashsalt": "leakbound", "font.size": 9}
    ):
        figure = Figure(figsize=(4.6, 3.4), layout="constrained")
        axes = figure.add_subplot()
        axes.set(xlabel=x, ylabel=y)
        axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _svg(figure: Any, title: str) -> str:
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "leakbound"}):
        figure.savefig(
            buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None}
        )
    text = buffer.getvalue()
    text = text[text.index("<svg") :].replace(INK, "currentColor")
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    return text.replace("<svg", f'<svg role="img" aria-label="{html.escape(title)}"', 1)
