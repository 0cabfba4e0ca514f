"""A limit on one source's share of the influence on an answer, decided from a record alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import stdtrit

from leakbound._check import within
from leakbound.attribution.record import InfluenceRecord, Reading, ShareLimit, SpanGrid
from leakbound.attribution.spans import DOCUMENT
from leakbound.errors import UsageError

REDUNDANT = 0.5  # leave-one-out that explains less of the whole context than this misses copies


SourceShare = tuple[ShareLimit, str]  # of one source in one reading, and why the shares say nothing


def limit_shares(
    record: InfluenceRecord,
    max_share: float,
    source: str | None = None,
    names: Sequence[str | None] = (),
) -> InfluenceRecord:
    """Decide whether a source has more than its allowed share of the influence on an answer.

    The share of a source is its influence on the response divided by the sum over all sources. If
    the share was estimated, its interval decides, at the confidence of the record.

    Args:
        record: Contexts with their readings, by unit.
        max_share: The largest share allowed, from 0 to 1.
        source: Name of the source that the limit applies to; None for every source of every
            context.
        names: The name of `source` in each context of a record with redacted names; empty for
            `source` itself.

    Returns:
        The same record with `share_limit`: `violation` if a share is above the limit,
        `inconclusive` if a share may be above it or nothing can be said about the shares, otherwise
        `passed`.

    Raises:
        UsageError: If the limit is not a share, nothing was measured by unit, or no context has
            this source.
    """
    within("max_share", max_share, 0.0, 1.0)
    wanted = names or [source] * len(record.attributions)
    found = [
        one
        for at, (attribution, name) in enumerate(zip(record.attributions, wanted, strict=True))
        for reading in attribution.readings
        for one in _shares(at, reading, name, record.confidence, max_share, source)
    ]
    if not found:
        raise UsageError(f"no context has a source {source!r}; use a name from the data.")
    return record.model_copy(update={"share_limit": _decide(found)})


def share_grid(reading: Reading) -> SpanGrid:
    """The grid whose units have the shares: documents, or the first kind of units."""
    units = [grid for grid in reading.grids if grid.unit and grid.unopened is None]
    if not units:
        raise UsageError(
            "nothing was measured by unit, so no source has a share; give --by, such as --by "
            "document."
        )
    return next((grid for grid in units if grid.unit == DOCUMENT), units[0])


def explains_too_little(grid: SpanGrid, whole: float) -> bool:
    """Whether leave-one-out misses most of the influence, as it does if a text occurs twice."""
    return grid.method == "leave-one-out" and float(grid.totals.sum()) < REDUNDANT * whole


def _shares(
    context: int, reading: Reading, name: str | None, confidence: float, limit: float,
    source: str | None,
) -> list[SourceShare]:  # fmt: skip
    """A share for each name, or for `name` alone; units with the same name are added up."""
    grid = share_grid(reading)
    obstacle, shares = _obstacle(reading, grid), grid.shares
    errors = np.asarray(grid.share_errors or np.zeros(len(shares)))
    wide = float(stdtrit(grid.parts - 1, (1 + confidence) / 2)) if grid.parts > 1 else 0.0
    found = []
    for one in dict.fromkeys(grid.names):
        mine = [at for at, other in enumerate(grid.names) if other == one]
        if name is None or one == name:
            share, half = float(shares[mine].sum()), wide * float(errors[mine].sum())
            low, high = max(0.0, share - half), min(1.0, share + half)
            passed = ShareLimit(
                max_share=limit, source=source, outcome="passed", sentence="", context=context,
                name=one, share=share, low=low, high=high,
            )  # fmt: skip
            found.append((passed, obstacle))
    return found


def _obstacle(reading: Reading, grid: SpanGrid) -> str:
    """Why the shares say nothing; "" if they do say something."""
    total, whole = float(grid.totals.sum()), float(reading.grids[-1].totals[0])
    noise = np.nan_to_num(reading.tolerance) * max(1, len(reading.tokens)) * len(grid.spans)
    if total <= noise:
        return (
            f"no source has an influence above the numerical tolerance (their sum is {total:.3g} "
            "nats), so there is nothing to share; ask about the context, or give a response that "
            "comes from it."
        )
    if explains_too_little(grid, whole):
        return (
            f"leave-one-out explains {total:.3g} of the {whole:.3g} nats of the whole context, as "
            "it does when a part occurs twice; use --method shapley."
        )
    return ""


def _decide(found: Sequence[SourceShare]) -> ShareLimit:
    """The clearest violation, or else an obstacle, or else the source closest to the limit."""
    limit = found[0][0].max_share
    clear = [one for one, obstacle in found if not obstacle]
    above = [one for one in clear if one.low > limit]
    unsure = [one for one in clear if one.high > limit]
    if above:
        worst = max(above, key=lambda one: one.share)
        update = {"outcome": "violation", "sentence": _sentence(worst, "above")}
        return worst.model_copy(update=update)
    for one, obstacle in found:
        if obstacle:
            why = f"In context {one.context + 1} {obstacle}"
            return one.model_copy(update={"outcome": "inconclusive", "sentence": why})
    worst = max(unsure or clear, key=lambda one: one.high)
    if unsure:
        why = f"{_sentence(worst, 'not clearly on either side of')} Raise --sets."
        return worst.model_copy(update={"outcome": "inconclusive", "sentence": why})
    return worst.model_copy(update={"sentence": _sentence(worst, "at most")})


def _sentence(one: ShareLimit, side: str) -> str:
    interval = f" ({one.low:.3f} to {one.high:.3f})" if one.high > one.low else ""
    return (
        f"The share of {one.name!r} in the influence on the answer to context {one.context + 1} is "
        f"{one.share:.3f}{interval}, which is {side} the limit of {one.max_share:g}."
    )
