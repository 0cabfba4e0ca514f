"""Compare two influence records over the contexts that both contain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, JsonValue
from scipy.special import bdtr

from leakbound.attribution.record import CONFIDENCE, Attribution, InfluenceRecord, statistics
from leakbound.errors import UsageError

Floats = npt.NDArray[np.float64]
CAVEATS = (
    "Influence is in nats per token of the response. Unless a response was given, each model "
    "answers in its own words, so a difference is due to model and response together.",
    "An interval that contains 0 does not show that two models use their context alike.",
    "The intervals are valid for contexts that were drawn independently.",
)


class InfluenceDifference(BaseModel):
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

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="strings")
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


class InfluenceComparison(BaseModel):
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

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="strings")
    schema_version: Literal[1] = 1
    kind: Literal["influences"] = "influences"
    confidence: float
    models: tuple[str, str]
    differing_settings: dict[str, tuple[JsonValue, JsonValue]]
    differences: tuple[InfluenceDifference, ...]
    unmatched: tuple[int, int]
    caveats: tuple[str, ...] = CAVEATS

    def to_json(self) -> str:
        """The comparison as stable text.

        Returns:
            JSON; equal comparisons give equal bytes.
        """
        return self.model_dump_json(indent=2) + "\n"


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
    """Compare how much two models, or two settings, use the same contexts.

    Args:
        first: A record (PRIVATE).
        second: Another record, over some of the same contexts and queries.
        confidence: Confidence with which all intervals hold simultaneously (Bonferroni), in (0, 1).

    Raises:
        UsageError: If they share no context or no measure.
    """
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
    """An interval for the median of any distribution.

    Reference: The sign test inverted: H. A. David, Order Statistics, section 7.1.
    """
    ordered, n = np.sort(values), len(values)
    below = bdtr(np.arange(n), n, 0.5)  # P(at most this many of n are below the median)
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
