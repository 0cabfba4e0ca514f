"""What influence records decide alone: whether two of them differ over the contexts that both
contain, and whether a source has more than its allowed share of the influence on an answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy
from pydantic import JsonValue

from leakbound._check import within
from leakbound._records import Frozen, JsonRecord
from leakbound.attribution.record import (
    CONFIDENCE,
    Attribution,
    InfluenceRecord,
    Reading,
    ShareLimit,
    SpanGrid,
    statistics,
)
from leakbound.attribution.spans import DOCUMENT
from leakbound.errors import UsageError

Floats = npt.NDArray[np.float64]
CAVEATS = (
    "Influence is in nats per token of the response. Unless a response was given, each model "
    "answers in its own words, so a difference is due to model and response together.",
    "An interval that contains 0 does not show that two models use their context alike.",
    "The intervals are valid for contexts that were drawn independently.",
)


class InfluenceDifference(Frozen):
    """The difference of one measure of influence, over the contexts that two records share.

    Attributes:
        lam: Weight of the context (lambda).
        temperature: Temperature.
        of: `context` (all of it), `span` (mean of its spans) or `top_attributed` (the largest one).
        n: Size of the spans; 0 for whole contexts and for units.
        unit: What the spans are; "" for spans of n tokens.
        contexts: Number of contexts.
        larger: Number of contexts in which the second record has the larger influence.
        smaller: Number of contexts in which it has the smaller influence.
        median: Median of the differences, second minus first, in nats per token.
        low: Lower end of an interval for the median; minus infinity with too few contexts.
        high: Upper end. All intervals of a comparison hold simultaneously.
    """

    lam: float
    temperature: float
    of: str
    n: int
    unit: str
    contexts: int
    larger: int
    smaller: int
    median: float
    low: float
    high: float

    @property
    def significant(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low > 0 or self.high < 0


class InfluenceComparison(JsonRecord):
    """A comparison of two influence records. Holds no text of a context or a response.

    Attributes:
        schema_version: 1.
        kind: Always `influences`.
        confidence: Confidence with which all intervals hold simultaneously.
        models: Name of the model of each record.
        differing_settings: Settings that differ between the records.
        differences: One for each measure that both records contain.
        unmatched: Number of contexts in each record that the other lacks.
        caveats: What a comparison does not show.
    """

    schema_version: Literal[1] = 1
    kind: Literal["influences"] = "influences"
    confidence: float
    models: tuple[str, str]
    differing_settings: dict[str, tuple[JsonValue, JsonValue]]
    differences: tuple[InfluenceDifference, ...]
    unmatched: tuple[int, int]
    caveats: tuple[str, ...] = CAVEATS


class _Measure(NamedTuple):
    lam: float
    temperature: float
    of: str
    n: int
    unit: str


_Case = tuple[str, str, int]
_Values = Mapping[_Measure, float]


def compare_influences(
    first: InfluenceRecord, second: InfluenceRecord, confidence: float = CONFIDENCE
) -> InfluenceComparison:
    """Compare how much two models, or two settings, use the same contexts."""
    one, other = _cases(first.attributions), _cases(second.attributions)
    common = [case for case in one if case in other]
    pairs = [(_measure(one[case]), _measure(other[case])) for case in common]
    shared = pairs[0][0] if pairs else {}
    measures = [key for key in shared if all(key in a and key in b for a, b in pairs)]
    if not measures:
        raise UsageError(
            f"the two influence records share {len(common)} contexts, and no lambda, temperature "
            "and spans that could be compared; measure the same contexts, queries and spans."
        )
    alpha = (1 - confidence) / len(measures)
    return InfluenceComparison(
        confidence=confidence, models=(first.model, second.model),
        differing_settings=_unequal(first.settings, second.settings),
        differences=tuple(
            _difference(key, np.array([b[key] - a[key] for a, b in pairs]), alpha)
            for key in measures
        ),
        unmatched=(len(one) - len(common), len(other) - len(common)),
    )  # fmt: skip


def median_interval(values: Floats, alpha: float) -> tuple[float, float]:
    """An interval for the median of any distribution: the sign test inverted (David 7.1)."""
    ordered, n = np.sort(values), len(values)
    # P(at most this many of n are below the median)
    below = scipy.special.bdtr(np.arange(n), n, 0.5)
    rank = int((below <= alpha / 2).sum())
    if rank == 0:
        return -np.inf, np.inf
    return float(ordered[rank - 1]), float(ordered[n - rank])


def _cases(attributions: Sequence[Attribution]) -> Mapping[_Case, Attribution]:
    """Attributions by context and query; equal ones are numbered."""
    seen: Counter[tuple[str, str]] = Counter()
    found = {}
    for one in attributions:
        key = one.context, one.query
        found[*key, seen[key]] = one
        seen[key] += 1
    return found


def _measure(one: Attribution) -> _Values:
    return {
        _Measure(reading.lam, reading.temperature, of, n, unit): value
        for reading in one.readings
        for of, n, unit, value in statistics(reading, max(1, len(reading.log_p)))
    }


def _difference(key: _Measure, values: Floats, alpha: float) -> InfluenceDifference:
    low, high = median_interval(values, alpha)
    return InfluenceDifference(
        **key._asdict(), contexts=len(values), larger=int((values > 0).sum()),
        smaller=int((values < 0).sum()), median=float(np.median(values)), low=low, high=high,
    )  # fmt: skip


def _unequal(
    one: Mapping[str, object], other: Mapping[str, object]
) -> dict[str, tuple[JsonValue, JsonValue]]:
    return {
        key: (_plain(one.get(key)), _plain(other.get(key)))
        for key in {**one, **other}
        if one.get(key) != other.get(key)
    }


def _plain(value: object) -> JsonValue:
    return value if isinstance(value, str | int | float | None) else str(value)


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
    units = [grid for grid in reading.grids if grid.unit]
    if any(grid.unopened for grid in units):
        raise UsageError(
            "not all units were measured, so that none has a share of them; leave --top out."
        )
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
    degrees = grid.parts - 1
    wide = float(scipy.special.stdtrit(degrees, (1 + confidence) / 2)) if degrees > 0 else 0.0
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
