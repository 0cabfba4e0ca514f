"""Attribute a response to its context in one call: tokenize, sample or take the response, measure, record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from contextleak.errors import UsageError
from contextleak.influence.measure import Law, Measured, measure, sample
from contextleak.influence.record import Attribution, Grid, InfluenceRecord, Reading, expected, provenance
from contextleak.influence.spans import TEMPLATE, Ids, Parts, Span, blocks, locate, sizes
from contextleak.mechanisms.tokens import tokenizing
from contextleak.models import Model, NextLogits

__all__ = ["Case", "Settings", "attribute", "context_influence"]

DIGITS = 9


@dataclass(frozen=True, slots=True, repr=False)
class Case:
    """A context (PRIVATE), a query about it, and a response, or None to sample one."""

    context: str
    query: str
    response: str | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """What is measured, and how responses are drawn.

    ngrams: span sizes in tokens (the whole context is always added); stride: None for disjoint blocks; lams: one reading each;
    max_tokens, min_tokens: length of a sampled response, end tokens being banned before the least; banned: token ids never drawn;
    stop: a text that ends a response; seed: of the draws.
    """

    ngrams: tuple[int, ...] = (1, 8)
    stride: int | None = None
    lams: tuple[float, ...] = (1.0,)
    temperature: float = 1.0
    max_tokens: int = 48
    min_tokens: int = 0
    banned: tuple[int, ...] = ()
    stop: str = "\n"
    template: str = TEMPLATE
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.ngrams or not self.lams:
            raise UsageError("ngrams and lams must each hold at least one number, such as --ngram 1,8 --lam 1.")

    def laws(self, ends: Sequence[int]) -> tuple[Law, ...]:
        """One for each lambda; `ends` are the model's end tokens."""
        return tuple(Law(lam, self.temperature, self.banned, tuple(sorted(ends)), self.min_tokens) for lam in self.lams)


def context_influence(
    context: str, query: str, model: Model, response: str | None = None, settings: Settings | None = None
) -> InfluenceRecord:
    """Influence of every span of a context (PRIVATE) on one response: given, or sampled for each lambda.

    Raises UsageError or TargetError with a sentence, before the first pass where that is possible.
    """
    return attribute([Case(context, query, response)], model, settings or Settings())


def attribute(
    cases: Sequence[Case], model: Model, settings: Settings, show: Callable[[int], None] = lambda done: None
) -> InfluenceRecord:
    """The same for a data set, with expected influence; `show` is told how many contexts are done."""
    if not cases:
        raise UsageError("there is no context; give at least one.")
    words = tokenizing(model)
    places = [locate(words, case.context, case.query, settings.template) for case in cases]
    model.check([_longest(words, case, place.parts, settings) for case, place in zip(cases, places, strict=True)])
    done = []
    for number, (case, place) in enumerate(zip(cases, places, strict=True)):
        readings = _readings(model, words, case, place.parts, settings, number)
        done.append(Attribution(context=case.context, query=case.query, bounds=place.bounds, readings=readings))
        show(number + 1)
    return InfluenceRecord(
        model=model.name, settings=_shown(settings), attributions=tuple(done), expected=expected(done),
        provenance=provenance(model=model.name, fingerprint=model.fingerprint),
    )  # fmt: skip


def _longest(words: Any, case: Case, parts: Parts, settings: Settings) -> NextLogits:
    """The longest ask of a case: what does not fit is refused before the first pass."""
    given = case.response is not None
    return NextLogits(
        parts.without(), tuple(words.encode_response(case.response)) if given else (0,) * settings.max_tokens
    )


def _shown(settings: Settings) -> dict[str, Any]:
    plain = ((name, getattr(settings, name)) for name in Settings.__slots__)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in plain}


def _readings(
    model: Model, words: Any, case: Case, parts: Parts, settings: Settings, number: int
) -> tuple[Reading, ...]:
    """A given response is read under all laws at once; a sampled one under the law that drew it."""
    laws = settings.laws(words.end_ids())
    if case.response is not None:
        ids = tuple(words.encode_response(case.response))
        return tuple(_read(model, words, parts, ids, laws, settings, sampled=False))
    found: list[Reading] = []
    for at, law in enumerate(laws):
        rng = np.random.default_rng([settings.seed, number, at])
        ids = sample(model, words, parts, law, settings.max_tokens, rng, settings.stop)
        found += _read(model, words, parts, ids, (law,), settings, sampled=True)
    return tuple(found)


def _read(
    model: Model, words: Any, parts: Parts, ids: Ids, laws: tuple[Law, ...], settings: Settings, sampled: bool
) -> list[Reading]:
    cuts = {n: blocks(len(parts.context), n, _stride(settings, n)) for n in sizes(len(parts.context), settings.ngrams)}
    spans = [span for group in cuts.values() for span in group]
    found = measure(model, parts, ids, spans, (*laws, Law()))
    own = found.full[-1] - found.prior[-1]  # the last law is the model's own
    return [
        Reading(
            lam=law.lam, temperature=law.temperature, sampled=sampled, text=words.text(ids), token_ids=ids,
            tokens=_pieces(words, ids), log_p=_floats(found.full[at]), prior_log_p=_floats(found.prior[at]), pmi=_floats(own),
            floor=float(found.floor[at]), grids=_grids(found, at, cuts, settings),
        )
        for at, law in enumerate(laws)
    ]  # fmt: skip


def _stride(settings: Settings, n: int) -> int | None:
    return None if settings.stride is None else min(settings.stride, n)


def _grids(found: Measured, law: int, cuts: dict[int, tuple[Span, ...]], settings: Settings) -> tuple[Grid, ...]:
    rows = iter(found.signed[law])
    return tuple(
        Grid(n=n, stride=_stride(settings, n) or n, spans=spans, signed=tuple(_floats(next(rows)) for _ in spans))
        for n, spans in cuts.items()
    )


def _pieces(words: Any, ids: Ids) -> tuple[str, ...]:
    """The text that each token adds to the response."""
    ends = [len(words.text(ids[: at + 1])) for at in range(len(ids))]
    text = words.text(ids)
    return tuple(text[a:b] for a, b in zip([0, *ends], ends, strict=False))


def _floats(values: Any) -> tuple[float, ...]:
    return tuple(round(float(v), DIGITS) + 0.0 for v in values)
