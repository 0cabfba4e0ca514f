"""Grids of influence: spans of n tokens, and units of the text by ablating sets of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from leakbound.attribution.ablation_sets import Solved, plan_sets
from leakbound.attribution.cases import Case
from leakbound.attribution.measure import (
    Removed,
    ResponseLogProbs,
    TokenDistribution,
    measure_sets,
)
from leakbound.attribution.record import CONFIDENCE, SpanGrid, UnmeasuredUnits
from leakbound.attribution.settings import InfluenceSettings
from leakbound.attribution.spans import Ids, LocatedContext, Span, blocks, span_sizes
from leakbound.attribution.units import DOCUMENT, TextUnit, UnitKind, find_units, unit_spans
from leakbound.models import Model

Floats = npt.NDArray[np.float64]
Located = tuple[TextUnit, Span]
DIGITS = 9  # of a stored log-probability: far finer than any numerical tolerance, stable as text
SETS_STREAM = 1 << 20  # seeds of ablation sets, beyond those of sampled responses
PROBES = 20  # units outside the opened documents: at 95 %, at most 14 % can exceed all of them


def cuts(length: int, settings: InfluenceSettings) -> dict[int, tuple[Span, ...]]:
    """The spans of each size."""
    sizes = span_sizes(length, settings.span_sizes)
    return {n: blocks(length, n, _stride(settings, n)) for n in sizes}


def token_grids(
    found: ResponseLogProbs,
    at: int,
    spans: dict[int, tuple[Span, ...]],
    settings: InfluenceSettings,
) -> tuple[SpanGrid, ...]:
    """The grids of all sizes under one distribution."""
    rows = iter(found.signed[at])
    return tuple(
        SpanGrid(
            n=n,
            stride=_stride(settings, n) or n,
            spans=group,
            signed=tuple(floats(next(rows)) for _ in group),
        )
        for n, group in spans.items()
    )


def _stride(settings: InfluenceSettings, n: int) -> int | None:
    return None if settings.stride is None else min(settings.stride, n)


def floats(values: npt.ArrayLike) -> tuple[float, ...]:
    """Numbers as they are stored."""
    return tuple(round(float(v), DIGITS) + 0.0 for v in np.asarray(values))


@dataclass(frozen=True, slots=True, repr=False)
class UnitMeter:
    """Measures the units of one context for one response."""

    model: Model
    case: Case
    located: LocatedContext
    response: Ids
    distributions: Sequence[TokenDistribution]
    settings: InfluenceSettings
    number: int

    def grids(self) -> list[tuple[SpanGrid, ...]]:
        """The grids of all kinds, for each distribution."""
        found: list[list[SpanGrid]] = [[] for _ in self.distributions]
        opened: frozenset[int | None] | None = None
        documents: tuple[Located, ...] = ()
        for stream, kind in enumerate(self.settings.unit_kinds):
            units = self._units(kind)
            chosen = [one for one in units if opened is None or one[0].source in opened]
            made = self._kind(kind, chosen, stream)
            if opened is not None:
                rest = [one for one in units if one[0].source not in opened]
                closed = [one for one in documents if one[0].source not in opened]
                made = self._with_unopened(made, rest, closed, stream)
            if kind.name == DOCUMENT and self.settings.top_documents is not None:
                documents, opened = units, self._top(units, made, self.settings.top_documents)
            for grids, grid in zip(found, made, strict=True):
                grids.append(grid)
        return [tuple(grids) for grids in found]

    def _units(self, kind: UnitKind) -> tuple[Located, ...]:
        units = find_units(self.case.context, kind, self.case.sources)
        return unit_spans(units, self.case.context, self.located.bounds)

    def _kind(self, kind: UnitKind, units: Sequence[Located], stream: int) -> list[SpanGrid]:
        """One grid for each distribution."""
        settings, rng = self.settings, self._rng(stream)
        plan = plan_sets(settings.method, len(units), settings.sets, rng)
        removed = [_removed(units, row) for row in plan.kept]
        return [
            _grid(kind, units, settings.method, len(set(removed)), plan.solve(values))
            for values in self._values(removed)
        ]

    def _values(self, removed: Sequence[Removed]) -> Floats:
        """(distributions, sets, tokens) ln p. A response that ended at once has no tokens."""
        if not self.response:
            return np.zeros((len(self.distributions), len(removed), 0))
        parts, response = self.located.parts, self.response
        return measure_sets(self.model, parts, response, removed, self.distributions)

    def _top(
        self, units: Sequence[Located], grids: Sequence[SpanGrid], count: int
    ) -> frozenset[int | None]:
        """The sources with the largest influence under any distribution."""
        orders = [np.argsort(-grid.totals, kind="stable")[:count] for grid in grids]
        return frozenset(units[int(at)][0].source for order in orders for at in order)

    def _with_unopened(
        self,
        grids: Sequence[SpanGrid],
        rest: Sequence[Located],
        documents: Sequence[Located],
        stream: int,
    ) -> list[SpanGrid]:
        """The same grids, with what is known about the units that were not measured."""
        if not rest:
            return list(grids)
        rng = self._rng(SETS_STREAM + stream)
        probed = rng.choice(len(rest), min(PROBES, len(rest)), replace=False)
        sets: list[Removed] = [(), tuple(span for _, span in documents)]
        sets += [(span,) for _, span in documents]
        sets += [(rest[int(at)][1],) for at in probed]
        every = self._values(sets)
        return [
            grid.model_copy(update={"unopened": _unopened(values, len(documents), len(rest))})
            for grid, values in zip(grids, every, strict=True)
        ]

    def _rng(self, stream: int) -> np.random.Generator:
        return np.random.default_rng([self.settings.seed, self.number, SETS_STREAM + stream])


def _removed(units: Sequence[Located], kept: Iterable[np.bool_]) -> Removed:
    return tuple(span for (_, span), keep in zip(units, kept, strict=True) if not keep)


def _grid(
    kind: UnitKind, units: Sequence[Located], method: str, sets: int, solved: Solved
) -> SpanGrid:
    return SpanGrid(
        n=0,
        stride=0,
        spans=tuple(span for _, span in units),
        signed=tuple(floats(row) for row in solved.signed),
        unit=str(kind),
        names=tuple(unit.name for unit, _ in units),
        characters=tuple(unit.characters for unit, _ in units),
        method=method,
        sets=sets,
        errors=() if solved.errors is None else floats(solved.errors),
        share_errors=() if solved.share_errors is None else floats(solved.share_errors),
        parts=solved.parts,
    )


def _unopened(values: Floats, documents: int, units: int) -> UnmeasuredUnits:
    """From (2 + documents + probes, tokens): all kept, all closed, each closed, and the probes."""
    totals = np.abs(values[0] - values[1:]).sum(1)
    probes = totals[1 + documents :]
    least = 1 - CONFIDENCE
    return UnmeasuredUnits(
        documents=documents,
        units=units,
        joint=floats(totals[:1])[0],
        bounded=bool((totals[1:] <= totals[0]).all()),
        probed=len(probes),
        largest=floats([probes.max(initial=0.0)])[0],
        share=0.0 if len(probes) == units else 1 - least ** (1 / len(probes)),
    )
