"""A comparison of runs, in a terminal and as one HTML page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leakbound.gating.compare import RATES
from leakbound.report.pages import render
from leakbound.report.text import aligned
from leakbound.report.words import rate_text, sentence, verdict_text
from leakbound.stats import cut

if TYPE_CHECKING:
    from leakbound.gating.compare import ComparedRun, Comparison, Contrast

__all__ = ["comparison_page", "comparison_text"]

HEAD = (
    "", "system", "verdict", "claim ε", "ε ≥", "μ ≥", "by", *map(str.upper, RATES), "pairs",
    "model calls",
)  # fmt: skip


def comparison_text(found: Comparison) -> str:
    """A comparison in a terminal.

    Args:
        found: Compared runs.

    Returns:
        A line for each run, the settings that differ, and what is known of differences.
    """
    parts = [
        aligned(HEAD, *map(_cells, found.runs)), _settings(found),
        *map(_contrast_sentence, found.contrasts),
    ]  # fmt: skip
    parts += [f"Not compared: {reason}" for reason in found.not_compared]
    return "\n".join([*parts, *(f"Note: {caveat}" for caveat in found.caveats)])


def _cells(run: ComparedRun) -> tuple[str, ...]:
    return (
        run.letter, run.system, verdict_text(run.verdict), f"{run.claim:g}",
        f"{cut(run.epsilon)} at δ {run.delta:g}", cut(run.mu, 3),
        f"{run.method}, {run.confidence:.0%}", *(rate_text(run.rates.get(name)) for name in RATES),
        str(run.pairs), str(run.model_calls),
    )  # fmt: skip


def _settings(found: Comparison) -> str:
    if not found.differing_settings:
        return "No setting differs."
    rows = [(key, *map(_value, values)) for key, values in found.differing_settings.items()]
    return aligned(("differs in", *(run.letter for run in found.runs)), *rows)


def _value(value: object) -> str:
    return "–" if value in (None, "", {}) else str(value)


def _contrast_sentence(one: Contrast) -> str:
    """What a contrast shows; its limits are rounded outwards."""
    limits = f"[{cut(one.low, 3)}, {cut(one.high + 1e-3, 3)}]"
    shown = "significant" if one.significant else "not significant"
    what = f"{RATES[one.rate]}, {one.second} minus {one.first}"
    return f"{what}: {one.difference:+.3f} {limits}, {shown}."


def comparison_page(found: Comparison) -> str:
    """A comparison as one HTML page.

    Args:
        found: Compared runs.

    Returns:
        HTML that opens from disk and makes no request; all text is escaped.
    """
    return render(
        "comparison.html.j2",
        title=f"{len(found.runs)} runs compared",
        found=found,
        head=HEAD,
        runs=[(run, _cells(run)) for run in found.runs],
        settings={key: tuple(map(_value, row)) for key, row in found.differing_settings.items()},
        contrasts=[sentence(_contrast_sentence(one)) for one in found.contrasts],
    )
