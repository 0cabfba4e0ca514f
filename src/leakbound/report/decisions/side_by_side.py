"""Comparisons of two sweeps, or of two influence records, in a terminal."""

from __future__ import annotations

import math

from leakbound.attribution import InfluenceComparison, InfluenceDifference
from leakbound.auditing.result.sentences import first_line
from leakbound.gating.compare import CAVEATS, RATES, Comparison
from leakbound.models.address import model_names
from leakbound.report.words import align, verdict_text
from leakbound.stats import cut
from leakbound.sweeping import SweepComparison, describe

MEASURES = {
    "context": "the whole context", "span": "a span, mean", "top_attributed": "the top span",
}  # fmt: skip


def sweeps_text(found: SweepComparison) -> str:
    """Two sweeps in a terminal."""
    head = ("point", "seed", "A", "B", "ε ≥ A", "ε ≥ B", *(f"{name}, B − A" for name in RATES))
    rows = [
        (describe(point.changes), str(point.seed), *_cells(point.comparison))
        for point in found.points
    ]
    shared = dict.fromkeys(key for p in found.points for key in p.comparison.differing_settings)
    subjects = [run.subject for point in found.points for run in point.comparison.runs]
    lines = [
        first_line("SWEEPS COMPARED", subjects),
        align(head, *rows),
        f"Settings that differ: {', '.join(shared) or 'none'}.",
        f"All intervals hold together with {found.confidence:.0%}; * excludes 0.",
    ]
    for name, points in (("A", found.only_first), ("B", found.only_second)):
        lines += [f"Only in {name}: {'; '.join(points)}."] if points else []
    reasons = dict.fromkeys(why for p in found.points for why in p.comparison.not_compared)
    lines += [f"Not compared: {reason}" for reason in reasons]
    return "\n".join([*lines, *(f"Note: {caveat}" for caveat in CAVEATS)])


def _cells(found: Comparison) -> tuple[str, ...]:
    one, other = found.runs
    by_rate = {contrast.rate: contrast for contrast in found.contrasts}
    return (
        verdict_text(one.verdict), verdict_text(other.verdict), cut(one.epsilon),
        cut(other.epsilon),
        *(
            _interval(by_rate[name].difference, by_rate[name].low, by_rate[name].high)
            if name in by_rate
            else "–"
            for name in RATES
        ),
    )  # fmt: skip


def _interval(middle: float, low: float, high: float) -> str:
    """Limits are rounded outwards."""
    if math.isinf(low):
        return f"{middle:+.3f} (too few contexts)"
    mark = " *" if low > 0 or high < 0 else ""
    limits = (math.floor(low * 1e3) / 1e3, math.ceil(high * 1e3) / 1e3)
    return f"{middle:+.3f} [{limits[0]:.3f}, {limits[1]:.3f}]{mark}"


def influences_text(found: InfluenceComparison) -> str:
    """Two influence records in a terminal."""
    head = ("influence of", "λ", "temperature", "contexts", "B larger", "B smaller",
            "median of B − A, nats a token")  # fmt: skip
    first, second = (model_names([model]) for model in found.models)
    differing = ", ".join(f"{k}: {a} | {b}" for k, (a, b) in found.differing_settings.items())
    lines = [
        f"A: {first}", f"B: {second}", align(head, *map(_measure, found.differences)),
        f"Settings that differ: {differing or 'none'}.",
        f"All intervals hold together with {found.confidence:.0%}; * excludes 0.",
    ]  # fmt: skip
    if any(found.unmatched):
        only = "{} contexts of A and {} of B stand in one record only.".format(*found.unmatched)
        lines.append(only)
    return "\n".join([*lines, *(f"Note: {caveat}" for caveat in found.caveats)])


def _measure(one: InfluenceDifference) -> tuple[str, ...]:
    size = one.unit or (f"{one.n} tokens" if one.n else "")
    return (
        f"{MEASURES[one.of]}{f' ({size})' if size else ''}", f"{one.lam:g}", f"{one.temperature:g}",
        str(one.contexts), str(one.larger), str(one.smaller),
        _interval(one.median, one.low, one.high),
    )  # fmt: skip
