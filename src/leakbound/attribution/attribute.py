"""Attribute a response to its context in one call: tokenize, sample, measure, record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from types import MappingProxyType
from typing import cast

import numpy as np
import numpy.typing as npt

from leakbound.attribution.ablation_sets import Solved, plan_sets
from leakbound.attribution.bounded import BoundedTokenDistribution
from leakbound.attribution.cases import Case
from leakbound.attribution.measure import (
    Removed,
    ResponseLogProbs,
    TokenDistribution,
    forget,
    measure,
    measure_sets,
    sample,
)
from leakbound.attribution.record import (
    BOUNDED_NOTES,
    CONFIDENCE,
    NOTES,
    Attribution,
    InfluenceRecord,
    Reading,
    SpanGrid,
    UnmeasuredUnits,
    expected,
    provenance,
)
from leakbound.attribution.settings import InfluenceSettings
from leakbound.attribution.spans import (
    Ids,
    LocatedContext,
    PromptParts,
    Span,
    TokenModel,
    blocks,
    locate,
    span_sizes,
)
from leakbound.attribution.units import (
    DOCUMENT,
    MESSAGE,
    TextUnit,
    UnitKind,
    find_units,
    unit_spans,
)
from leakbound.errors import TargetError, UsageError
from leakbound.mechanisms.parts.tokens import find_tokenizer, finite
from leakbound.models import Model, NextLogits
from leakbound.models.model import computation_of

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
        removed = [_remove(units, row) for row in plan.kept]
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


def _remove(units: Sequence[Located], kept: Iterable[np.bool_]) -> Removed:
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


CaseRunner = Callable[[Sequence[int]], Iterable[tuple[int, Attribution]]]


def context_influence(
    context: str,
    query: str,
    model: Model,
    response: str | None = None,
    settings: InfluenceSettings | None = None,
) -> InfluenceRecord:
    """Influence of every span of a context on one response.

    Args:
        context: The text that the model is shown (PRIVATE).
        query: The query about it.
        model: A local model.
        response: The response to attribute; None to sample one for each lambda.
        settings: What to measure; None for the defaults.

    Returns:
        The record.

    Raises:
        LeakboundError: If the inputs cannot be used; before the first pass where possible.
    """
    return attribute([Case(context, query, response)], model, settings or InfluenceSettings())


def attribute(
    cases: Sequence[Case],
    model: Model,
    settings: InfluenceSettings,
    keep: Callable[[int, Attribution], None] = lambda number, one: None,
    finished: Mapping[int, Attribution] = MappingProxyType({}),
    each: CaseRunner | None = None,
) -> InfluenceRecord:
    """Influence of every span of many contexts, with expected influence.

    Args:
        cases: Contexts with their queries (PRIVATE), at least one.
        model: A local model.
        settings: What to measure.
        keep: Called with the number and attribution of each new case when it is done.
        finished: Attributions of the same cases by number. They are not measured again.
        each: Runs `attribution` for the missing numbers, in any order; None for this process, one
            after the other.

    Returns:
        The record.

    Raises:
        UsageError: If there is no case, or a context or the template cannot be used.
        TargetError: If the model cannot show its tokens, or a prompt does not fit it.
    """
    if not cases:
        raise UsageError("there is no context; give at least one.")
    tokens = token_model(model)
    located = [locate(tokens, case, settings.template, settings.system) for case in cases]
    model.check([_longest(one, settings) for one in located])
    _check_units(cases, settings)
    done = dict(finished)
    missing = [number for number in range(len(cases)) if number not in finished]
    for number, one in (each or _in_turn(cases, settings, model))(missing):
        done[number] = one
        keep(number, one)
    attributions = tuple(done[number] for number in range(len(cases)))
    return InfluenceRecord(
        model=model.name,
        settings=_plain(settings),
        attributions=attributions,
        expected=expected(attributions),
        notes=NOTES if settings.bounded is None else (*NOTES, *BOUNDED_NOTES),
        provenance=provenance(
            model=model.name, fingerprint=model.fingerprint, **computation_of(model)
        ),
    )


def attribution(
    cases: Sequence[Case], settings: InfluenceSettings, model: Model, number: int
) -> Attribution:
    """Influence of every span of one context of a data set.

    A local engine starts with an empty memory, so the result depends on no other case.
    """
    forget(model)
    case, tokens = cases[number], token_model(model)
    located = locate(tokens, case, settings.template, settings.system)
    readings = _readings(model, tokens, case, located, settings, number)
    return Attribution(
        context=case.context, query=case.query, bounds=located.bounds, readings=readings
    )


def _in_turn(cases: Sequence[Case], settings: InfluenceSettings, model: Model) -> CaseRunner:
    return lambda missing: (
        (number, attribution(cases, settings, model, number)) for number in missing
    )


def token_model(model: Model) -> TokenModel:
    """The local model inside all wrappers, which shows its tokens."""
    try:
        return cast(TokenModel, find_tokenizer(model))
    except TargetError:
        raise TargetError(
            f"{model.name} shows no tokens, and influence takes spans out of the token ids of the "
            "prompt; use a local model (pocket or hf/...)."
        ) from None


def _check_units(cases: Sequence[Case], settings: InfluenceSettings) -> None:
    """Refuse units that a context does not have, before the first pass."""
    for kind in settings.unit_kinds:
        for case in cases:
            is_other = kind.name == MESSAGE and not case.roles
            find_units(case.context, kind, () if is_other else case.sources)


def _longest(located: LocatedContext, settings: InfluenceSettings) -> NextLogits:
    """The longest request of a case. If it does not fit, it is refused before the first pass."""
    sampled = (0,) * settings.max_tokens
    response = sampled if located.response is None else located.response
    return NextLogits(located.parts.without(), response)


def _plain(settings: InfluenceSettings) -> dict[str, object]:
    found = asdict(settings)
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in found.items()
    }


def _readings(
    model: Model,
    tokens: TokenModel,
    case: Case,
    located: LocatedContext,
    settings: InfluenceSettings,
    number: int,
) -> tuple[Reading, ...]:
    """Read a given response under all distributions at once, and a sampled one under its own."""
    distributions, parts = settings.distributions(tokens.end_ids()), located.parts
    meter = partial(UnitMeter, model, case, located, settings=settings, number=number)
    if (ids := located.response) is not None:
        _check_share(ids, settings)
        return tuple(_read(tokens, meter(ids, distributions), settings, sampled=False))
    found: list[Reading] = []
    for at, distribution in enumerate(distributions):
        rng = np.random.default_rng([settings.seed, number, at])
        ids = sample(model, tokens, parts, distribution, settings.max_tokens, rng, settings.stop)
        found += _read(tokens, meter(ids, (distribution,)), settings, sampled=True)
    return tuple(found)


def _check_share(ids: Ids, settings: InfluenceSettings) -> None:
    if settings.bounded is not None and len(ids) > settings.max_tokens:
        raise UsageError(
            f"the response has {len(ids)} tokens, and the bound is shared by "
            f"{settings.max_tokens}; a response that bounded CID can draw has no more. Raise "
            f"--max-tokens to {len(ids)}."
        )


def _read(
    tokens: TokenModel, meter: UnitMeter, settings: InfluenceSettings, sampled: bool
) -> list[Reading]:
    model, parts, ids = meter.model, meter.located.parts, meter.response
    spans = cuts(len(parts.context), settings)
    every = (*meter.distributions, TokenDistribution())  # the last is the model's own
    if ids or not sampled:
        group = [span for of_size in spans.values() for span in of_size]
        found = measure(model, parts, ids, group, every)
    else:
        found = _empty(len(every), sum(map(len, spans.values())))
    own, units = found.full[-1] - found.prior[-1], meter.grids()
    return [
        Reading(
            lam=distribution.lam,
            temperature=distribution.temperature,
            sampled=sampled,
            text=tokens.text(ids),
            token_ids=ids,
            tokens=_pieces(tokens, ids),
            log_p=floats(found.full[at]),
            prior_log_p=floats(found.prior[at]),
            pmi=floats(own),
            tolerance=float(found.tolerance[at]),
            grids=_with_units(token_grids(found, at, spans, settings), units[at]),
            lams=_lambdas(model, parts, ids, distribution),
            epsilon=settings.bounded,
            entropy=_entropies(model, parts, ids, distribution) if settings.entropy else (),
        )
        for at, distribution in enumerate(meter.distributions)
    ]


def _with_units(sizes: tuple[SpanGrid, ...], units: tuple[SpanGrid, ...]) -> tuple[SpanGrid, ...]:
    """Spans of n tokens first, then units of the text, and the whole context last."""
    return (*sizes[:-1], *units, sizes[-1])


def _empty(distributions: int, spans: int) -> ResponseLogProbs:
    """An empty measurement, for a response that ended at once and has no token to influence."""
    none = np.zeros((distributions, 0))
    return ResponseLogProbs(
        none, none, np.zeros((distributions, spans, 0)), np.zeros(distributions)
    )


def _lambdas(
    model: Model, parts: PromptParts, ids: Ids, distribution: TokenDistribution
) -> tuple[float, ...]:
    """Lambda of each token under bounded CID; empty if one lambda applies to all tokens."""
    if not isinstance(distribution, BoundedTokenDistribution):
        return ()
    requests = [NextLogits(prompt, ids) for prompt in (parts.without(), parts.without(parts.whole))]
    with_context, without = (finite(logits[:-1]) for logits in model.answer(requests))
    return floats(distribution.lambdas(with_context, without))


def _entropies(
    model: Model, parts: PromptParts, ids: Ids, distribution: TokenDistribution
) -> tuple[float, ...]:
    """Entropy of the distribution of each token without the context."""
    if not ids:
        return ()
    logits = finite(model.answer([NextLogits(parts.without(parts.whole), ids)])[0][:-1])
    log_p = distribution.log_probs(logits, logits)
    return floats(-np.where(np.isneginf(log_p), 0.0, np.exp(log_p) * log_p).sum(1))


def _pieces(tokens: TokenModel, ids: Ids) -> tuple[str, ...]:
    """The text that each token adds to the response."""
    ends = [len(tokens.text(ids[: at + 1])) for at in range(len(ids))]
    text = tokens.text(ids)
    return tuple(text[a:b] for a, b in zip([0, *ends], ends, strict=False))
