"""Attribute a response to its context in one call: tokenize, sample, measure, record."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from leakbound._version import __version__
from leakbound.attribution.ablation_sets import (
    METHODS,
    Opened,
    limit_unopened,
    open_units,
    plan_sets,
)
from leakbound.attribution.cases import Case
from leakbound.attribution.measure import (
    InfluenceSettings,
    Removed,
    ResponseLogProbs,
    ResponseReader,
    TokenDistribution,
    forget,
    measure,
    sample,
)
from leakbound.attribution.record import (
    BOUNDED_NOTES,
    NOTES,
    Attribution,
    InfluenceRecord,
    Reading,
    SpanGrid,
    means_over_contexts,
    provenance,
)
from leakbound.attribution.spans import (
    MESSAGE,
    Ids,
    Span,
    TextUnit,
    UnitKind,
    blocks,
    find_units,
    locate,
    span_sizes,
    unit_spans,
)
from leakbound.errors import StoreError, TargetError, UsageError, reason_of
from leakbound.mechanisms.parts.tokens import find_tokenizer
from leakbound.models import Model, NextLogits
from leakbound.models.model import computation_of

if TYPE_CHECKING:
    from leakbound.models.local import TransformersModel


class Finished:
    """A file with one line for each finished context, after a line that identifies the inputs.

    The file is PRIVATE and readable only by its owner. Lines from another model, version, settings
    or contexts are not used. Each line is on disk before the next context begins, and a context
    whose line was cut off is measured again.

    Args:
        path: The file.
        model: The model.
        settings: What to measure.
        cases: The contexts (PRIVATE).
        redact: Store no letter of the contexts, like the record.

    Attributes:
        found: Attributions in the file, by number.
    """

    def __init__(
        self,
        path: Path,
        model: Model,
        settings: InfluenceSettings,
        cases: Sequence[Case],
        redact: bool,
    ) -> None:
        self.path, self.redact = path, redact
        known = [
            __version__,
            model.name,
            model.fingerprint,
            astuple(settings),
            [astuple(case) for case in cases],
            redact,
        ]
        self._name = json.dumps({"inputs": hashlib.sha256(json.dumps(known).encode()).hexdigest()})
        self.found = self._read()
        self._whole = False  # whether the file holds complete lines of these inputs and no others

    def _read(self) -> dict[int, Attribution]:
        try:
            text = self.path.read_text(encoding="utf-8")
            lines = text.split("\n")[:-1]  # text after the last line break was cut off
        except (OSError, UnicodeDecodeError):
            lines = []
        found: dict[int, Attribution] = {}
        for line in lines[1:] if lines[:1] == [self._name] else []:
            try:
                number, _, one = line.partition(" ")
                found[int(number)] = Attribution.model_validate_json(one)
            except (ValueError, ValidationError):
                break
        return found

    def add(self, number: int, one: Attribution) -> None:
        """Store a finished context.

        The first call rewrites the file, which drops incomplete and foreign lines.
        """
        self.found[number] = one.redacted() if self.redact else one
        try:
            if self._whole:
                self._append(self.path, [_line(number, self.found[number])])
            else:
                self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                new = self.path.with_name(f".{self.path.name}")
                new.unlink(missing_ok=True)
                self._append(new, [self._name, *(_line(*item) for item in self.found.items())])
                new.replace(self.path)
                self._whole = True
        except OSError as error:
            raise StoreError(
                f"{str(self.path)!r} cannot be written ({reason_of(error)}); choose another folder."
            ) from None

    def _append(self, path: Path, lines: Sequence[str]) -> None:
        with os.fdopen(
            os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "w", encoding="utf-8"
        ) as file:
            file.write("".join(f"{line}\n" for line in lines))
            file.flush()
            os.fsync(file.fileno())

    def drop(self) -> None:
        """Delete the file once its contexts are in a record."""
        self.path.unlink(missing_ok=True)


def _line(number: int, one: Attribution) -> str:
    return f"{number} {one.model_dump_json()}"


Floats = npt.NDArray[np.float64]
Located = tuple[TextUnit, Span]
T = TypeVar("T")
DIGITS = 9  # of a stored log-probability: far finer than any numerical tolerance, stable as text
SETS_STREAM = 1 << 20  # seeds of ablation sets, beyond those of sampled responses
SHORT = 4  # tokens: no screen sees the influence of shorter spans, and all of them are measured
DRAW_STREAM = 1 << 21  # seeds of units that are drawn, beyond those of ablation sets


def floats(values: npt.ArrayLike) -> tuple[float, ...]:
    """Numbers as they are stored."""
    return tuple(round(float(v), DIGITS) + 0.0 for v in np.asarray(values))


@dataclass(frozen=True, slots=True, repr=False)
class _UnitMeter:
    """Measures the units of one context for one response."""

    reader: Callable[[], ResponseReader]  # a new one for each kind asks for the prior anew
    tokens: TransformersModel
    case: Case
    bounds: Ids
    settings: InfluenceSettings
    number: int
    known: dict[Removed, Floats]  # what a search has measured, under all distributions and the own

    def every(self) -> ResponseReader:
        """A reader under all distributions and, as the last, the model's own."""
        one = self.reader()
        own = TokenDistribution()
        return ResponseReader(one.model, one.parts, one.response, (*one.distributions, own))

    def grids(self) -> list[tuple[SpanGrid, ...]]:
        """The grids of all kinds, for each distribution."""
        case = self.case
        found: list[list[SpanGrid]] = [[] for _ in self.reader().distributions]
        for stream, kind in enumerate(self.settings.unit_kinds):
            units = unit_spans(
                find_units(case.context, kind, case.sources), case.context, self.bounds
            )
            opened = self.opened([span for _, span in units], SETS_STREAM + stream)
            measured = self._measure(kind, pick(units, opened), stream)
            for grids, grid in zip(found, measured, strict=True):
                grids.append(self.with_unopened(grid, opened, len(units)))
        return [tuple(grids) for grids in found]

    def opened(self, spans: Sequence[Span], stream: int) -> Opened | None:
        settings, length = self.settings, np.mean([end - first for first, end in spans] or [0])
        usable = settings.method == METHODS[0] and self.reader().response and self.tokens.masks
        if not usable or length < SHORT or settings.top is None:
            return None
        starts = [first for first, _ in spans]
        apart = max(1.0, (starts[-1] - starts[0]) / max(1, len(spans) - 1))
        step = max(1, int(length / 2 / apart))  # two windows that share half of their tokens
        rng = self._rng(stream)
        screen, exact = partial(self._hidden, spans), partial(self._exact, spans, self.every())
        return open_units(len(spans), settings.top, settings.draw, step, screen, exact, rng)

    def _exact(self, spans: Sequence[Span], reader: ResponseReader, some: Sequence[int]) -> Floats:
        """Influence of some spans under the first distribution; what was measured is kept."""
        removed: list[Removed] = [(), *((spans[at],) for at in some)]
        rows = reader.ablated(removed, self.known)
        self.known.update(zip(removed, rows.swapaxes(0, 1), strict=True))
        return np.asarray(np.abs(rows[0, 1:] - rows[0, 0]).sum(1))

    def _hidden(self, spans: Sequence[Span], some: Sequence[int]) -> Floats:
        """Change of ln p where the tokens of some spans are hidden from the query and response."""
        reader = self.reader()
        prompt, response, places = reader.parts.without(), reader.response, reader.parts.places
        hidden = [(places[first], places[end - 1] + 1) for first, end in (spans[at] for at in some)]
        found = self.tokens.masked_log_probs(prompt, response, [(0, 0), *hidden], places[-1] + 1)
        return np.asarray(np.abs(np.array(found[1:]) - found[0]).sum(1))

    def _measure(self, kind: UnitKind, units: Sequence[Located], stream: int) -> list[SpanGrid]:
        method = self.settings.method
        plan = plan_sets(method, len(units), self.settings.sets, self._rng(stream))
        removed = [
            tuple(span for (_, span), keep in zip(units, kept, strict=True) if not keep)
            for kept in plan.kept
        ]
        known = {one: rows[:-1] for one, rows in self.known.items()}
        return [
            SpanGrid(
                n=0,
                stride=0,
                spans=tuple(span for _, span in units),
                signed=tuple(floats(row) for row in solved.signed),
                unit=str(kind),
                names=tuple(unit.name for unit, _ in units),
                characters=tuple(unit.characters for unit, _ in units),
                method=method,
                sets=len(set(removed)),
                errors=() if solved.errors is None else floats(solved.errors),
                share_errors=() if solved.share_errors is None else floats(solved.share_errors),
                parts=solved.parts,
            )
            for solved in map(plan.solve, self.reader().ablated(removed, known))
        ]

    def with_unopened(self, grid: SpanGrid, opened: Opened | None, units: int) -> SpanGrid:
        if opened is None or self.settings.top is None:
            return grid
        found = limit_unopened(opened, units, self.settings.top, grid.totals)
        return grid.model_copy(update={"unopened": found})

    def _rng(self, stream: int) -> np.random.Generator:
        return np.random.default_rng([self.settings.seed, self.number, SETS_STREAM + stream])


def pick(units: Sequence[T], opened: Opened | None) -> Sequence[T]:
    return units if opened is None else [units[at] for at in np.sort(np.concatenate(opened))]


CaseRunner = Callable[[Sequence[int]], Iterable[tuple[int, Attribution]]]


def context_influence(
    context: str,
    query: str,
    model: Model,
    response: str | None = None,
    settings: InfluenceSettings | None = None,
) -> InfluenceRecord:
    """Influence of every span of a context on one response."""
    return attribute([Case(context, query, response)], model, settings or InfluenceSettings())


def attribute(
    cases: Sequence[Case],
    model: Model,
    settings: InfluenceSettings,
    keep: Callable[[int, Attribution], None] = lambda number, one: None,
    finished: Mapping[int, Attribution] = MappingProxyType({}),
    each: CaseRunner | None = None,
) -> InfluenceRecord:
    """Influence of every span of many contexts, with expected influence."""
    if not cases:
        raise UsageError("there is no context; give at least one.")
    tokens, longest = token_model(model), []
    for case in cases:
        located = locate(tokens, case, settings.template, settings.system)
        sampled = (0,) * settings.max_tokens
        response = sampled if located.response is None else located.response
        longest.append(NextLogits(located.parts.without(), response))
    model.check(longest)
    for kind in settings.unit_kinds:
        for case in cases:
            is_other = kind.name == MESSAGE and not case.roles
            find_units(case.context, kind, () if is_other else case.sources)
    done = dict(finished)
    missing = [number for number in range(len(cases)) if number not in finished]
    in_turn = ((number, attribution(cases, settings, model, number)) for number in missing)
    for number, one in in_turn if each is None else each(missing):
        done[number] = one
        keep(number, one)
    attributions = tuple(done[number] for number in range(len(cases)))
    return InfluenceRecord(
        model=model.name,
        settings={
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(settings).items()
        },
        attributions=attributions,
        expected=means_over_contexts(attributions),
        notes=NOTES if settings.bounded is None else (*NOTES, *BOUNDED_NOTES),
        provenance=provenance(
            model=model.name, fingerprint=model.fingerprint, **computation_of(model)
        ),
    )


def attribution(
    cases: Sequence[Case], settings: InfluenceSettings, model: Model, number: int
) -> Attribution:
    """Influence of every span of one context of a data set."""
    forget(model)
    case, tokens = cases[number], token_model(model)
    located = locate(tokens, case, settings.template, settings.system)
    distributions = settings.distributions(tokens.end_ids())
    readings: list[Reading] = []
    if (ids := located.response) is not None:
        # a given response is read under all distributions at once
        if settings.bounded is not None and len(ids) > settings.max_tokens:
            raise UsageError(
                f"the response has {len(ids)} tokens, and the bound is shared by "
                f"{settings.max_tokens}; a response that bounded CID can draw has no more. Raise "
                f"--max-tokens to {len(ids)}."
            )
        reader = partial(ResponseReader, model, located.parts, ids, distributions)
        meter = _UnitMeter(reader, tokens, case, located.bounds, settings, number, {})
        readings += _readings(meter, sampled=False)
    for at, distribution in enumerate(distributions if located.response is None else ()):
        rng = np.random.default_rng([settings.seed, number, at])
        ids = sample(
            model, tokens, located.parts, distribution, settings.max_tokens, rng, settings.stop
        )
        reader = partial(ResponseReader, model, located.parts, ids, (distribution,))
        meter = _UnitMeter(reader, tokens, case, located.bounds, settings, number, {})
        readings += _readings(meter, sampled=True)
    return Attribution(
        context=case.context, query=case.query, bounds=located.bounds, readings=tuple(readings)
    )


def token_model(model: Model) -> TransformersModel:
    """The local model inside all wrappers, which shows its tokens."""
    try:
        return cast("TransformersModel", find_tokenizer(model))
    except TargetError:
        raise TargetError(
            f"{model.name} shows no tokens, and influence takes spans out of the token ids of the "
            "prompt; use a local model (pocket or hf/...)."
        ) from None


def _readings(meter: _UnitMeter, sampled: bool) -> list[Reading]:
    settings, reader, tokens = meter.settings, meter.reader(), meter.tokens
    model, parts, ids = reader.model, reader.parts, reader.response
    length, stride = len(parts.context), settings.stride
    strides = {
        n: None if stride is None else min(stride, n)
        for n in span_sizes(length, settings.span_sizes)
    }
    every_span = {n: blocks(length, n, step) for n, step in strides.items()}
    opened = {n: meter.opened(of_size, DRAW_STREAM + n) for n, of_size in every_span.items()}
    spans = {n: tuple(pick(of_size, opened[n])) for n, of_size in every_span.items()}
    every = meter.every().distributions
    group = [span for of_size in spans.values() for span in of_size]
    if ids or not sampled:
        found = measure(model, parts, ids, group, every, True, tokens.rounding, meter.known)
    else:  # a response that ended at once has no token to influence
        none = np.zeros((len(every), 0))
        ablated = np.zeros((len(every), len(group), 0))
        found = ResponseLogProbs(none, none, ablated, np.zeros(len(every)))
    own, units = found.full[-1] - found.prior[-1], meter.grids()
    text = tokens.text(ids)
    ends = [len(tokens.text(ids[: at + 1])) for at in range(len(ids))]
    readings = []
    for at, distribution in enumerate(reader.distributions):
        rows = iter(found.signed[at])
        made = (
            SpanGrid(
                n=n,
                stride=strides[n] or n,
                spans=of_size,
                signed=tuple(floats(next(rows)) for _ in of_size),
            )
            for n, of_size in spans.items()
        )
        *sizes, whole = (
            meter.with_unopened(grid, opened[grid.n], len(every_span[grid.n])) for grid in made
        )
        readings.append(
            Reading(
                lam=distribution.lam,
                temperature=distribution.temperature,
                sampled=sampled,
                text=text,
                token_ids=ids,
                tokens=tuple(text[a:b] for a, b in zip([0, *ends], ends, strict=False)),
                log_p=floats(found.full[at]),
                prior_log_p=floats(found.prior[at]),
                pmi=floats(own),
                tolerance=float(found.tolerance[at]),
                grids=(*sizes, *units[at], whole),
                lams=floats(reader.lambdas(distribution)),
                epsilon=settings.bounded,
                entropy=floats(reader.entropies(distribution)) if settings.entropy else (),
            )
        )
    return readings
