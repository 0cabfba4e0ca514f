"""Attribute a response to its context in one call:

tokenize, sample or take the response, measure, record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from leakbound._check import positive
from leakbound.attribution.bounded import BoundedLaw
from leakbound.attribution.cases import Case
from leakbound.attribution.measure import Law, Measured, forget, measure, sample
from leakbound.attribution.record import (
    BOUNDED_PROMISE,
    PROMISE,
    Attribution,
    Grid,
    InfluenceRecord,
    Reading,
    expected,
    provenance,
)
from leakbound.attribution.spans import TEMPLATE, Ids, Parts, Span, blocks, locate, sizes
from leakbound.errors import TargetError, UsageError
from leakbound.mechanisms.tokens import finite, find_tokenizer
from leakbound.models import Model, NextLogits

__all__ = ["Settings", "attribute", "attribution", "context_influence", "words_of"]

DIGITS = 9
Each = Callable[[Sequence[int]], Iterable[tuple[int, Attribution]]]


@dataclass(frozen=True, slots=True)
class Settings:
    """What is measured, and how responses are drawn.

    ngrams: span sizes in tokens (the whole context is always added); stride: None for disjoint
    blocks; lams: one reading each;
    bounded: None, or the epsilon of a whole response drawn from bounded CID, shared evenly by
    max_tokens; each lam is then the largest;
    max_tokens, min_tokens: length of a sampled response, end tokens being banned before the least;
    banned: token ids never drawn;
    stop: a text that ends a response; seed: of the draws.
    """

    ngrams: tuple[int, ...] = (1, 8)
    stride: int | None = None
    lams: tuple[float, ...] = (1.0,)
    bounded: float | None = None
    temperature: float = 1.0
    max_tokens: int = 48
    min_tokens: int = 0
    banned: tuple[int, ...] = ()
    stop: str = "\n"
    template: str = TEMPLATE
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.lams:
            raise UsageError("lams must hold at least one number, such as --lam 1.")
        if self.bounded is not None:
            positive("bounded", self.bounded)

    def laws(self, ends: Sequence[int]) -> tuple[Law, ...]:
        """One for each lambda; `ends` are the model's end tokens."""
        same = (self.temperature, self.banned, tuple(sorted(ends)), self.min_tokens)
        if self.bounded is None:
            return tuple(Law(lam, *same) for lam in self.lams)
        return tuple(
            BoundedLaw(lam, *same, self.bounded / self.max_tokens / 2) for lam in self.lams
        )


def context_influence(
    context: str,
    query: str,
    model: Model,
    response: str | None = None,
    settings: Settings | None = None,
) -> InfluenceRecord:
    """Influence of every span of a context (PRIVATE) on one response: given, or sampled for each
    lambda.

    Raises UsageError or TargetError with a sentence, before the first pass where that is possible.
    """
    return attribute([Case(context, query, response)], model, settings or Settings())


def attribute(
    cases: Sequence[Case],
    model: Model,
    settings: Settings,
    keep: Callable[[int, Attribution], None] = lambda number, one: None,
    finished: Mapping[int, Attribution] = MappingProxyType({}),
    each: Each | None = None,
) -> InfluenceRecord:
    """The same for a data set, with expected influence.

    finished: attributions of the same cases, by number, that are not measured again; keep: is given
    each new one as it is done.
    each: who does `attribution` for the numbers that are missing, in any order; None: this process,
    one after the other.
    """
    if not cases:
        raise UsageError("there is no context; give at least one.")
    words = words_of(model)
    places = [locate(words, case.context, case.query, settings.template) for case in cases]
    model.check(
        [
            _longest(words, case, place.parts, settings)
            for case, place in zip(cases, places, strict=True)
        ]
    )
    done, missing = (
        dict(finished),
        [number for number in range(len(cases)) if number not in finished],
    )
    for number, one in (each or _in_turn(cases, settings, model))(missing):
        done[number] = one
        keep(number, one)
    attributions = tuple(done[number] for number in range(len(cases)))
    return InfluenceRecord(
        model=model.name, settings=_shown(settings), attributions=attributions, expected=expected(attributions),
        promise=PROMISE if settings.bounded is None else (*PROMISE, *BOUNDED_PROMISE),
        provenance=provenance(model=model.name, fingerprint=model.fingerprint),
    )  # fmt: skip


def attribution(
    cases: Sequence[Case], settings: Settings, model: Model, number: int
) -> Attribution:
    """Of one case of a data set.

    A local engine starts it without memory, so it depends on no other case.
    """
    forget(model)
    case, words = cases[number], words_of(model)
    place = locate(words, case.context, case.query, settings.template)
    readings = _readings(model, words, case, place.parts, settings, number)
    return Attribution(
        context=case.context, query=case.query, bounds=place.bounds, readings=readings
    )


def _in_turn(cases: Sequence[Case], settings: Settings, model: Model) -> Each:
    return lambda missing: (
        (number, attribution(cases, settings, model, number)) for number in missing
    )


def words_of(model: Model) -> Any:
    """The model behind all wrappers, which shows its tokens.

    Raises TargetError if there is none.
    """
    try:
        return find_tokenizer(model)
    except TargetError:
        raise TargetError(
            f"{model.name} shows no tokens, and influence takes spans out of the token ids of the "
            "prompt; use a local model "
            "(pocket or hf/...)."
        ) from None


def _longest(words: Any, case: Case, parts: Parts, settings: Settings) -> NextLogits:
    """The longest ask of a case: what does not fit is refused before the first pass."""
    given = case.response is not None
    return NextLogits(
        parts.without(),
        tuple(words.encode_response(case.response)) if given else (0,) * settings.max_tokens,
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
        _check_share(ids, settings)
        return tuple(_read(model, words, parts, ids, laws, settings, sampled=False))
    found: list[Reading] = []
    for at, law in enumerate(laws):
        rng = np.random.default_rng([settings.seed, number, at])
        ids = sample(model, words, parts, law, settings.max_tokens, rng, settings.stop)
        found += _read(model, words, parts, ids, (law,), settings, sampled=True)
    return tuple(found)


def _check_share(ids: Ids, settings: Settings) -> None:
    if settings.bounded is not None and len(ids) > settings.max_tokens:
        raise UsageError(
            f"the response has {len(ids)} tokens, and the bound is shared by "
            f"{settings.max_tokens}; a response that bounded CID can "
            f"draw has no more. Raise --max-tokens to {len(ids)}."
        )


def _read(
    model: Model,
    words: Any,
    parts: Parts,
    ids: Ids,
    laws: tuple[Law, ...],
    settings: Settings,
    sampled: bool,
) -> list[Reading]:
    cuts = {
        n: blocks(len(parts.context), n, _stride(settings, n))
        for n in sizes(len(parts.context), settings.ngrams)
    }
    spans = [span for group in cuts.values() for span in group]
    every = (*laws, Law())
    found = (
        measure(model, parts, ids, spans, every)
        if ids or not sampled
        else _silent(len(every), len(spans))
    )
    own = found.full[-1] - found.prior[-1]  # the last law is the model's own
    return [
        Reading(
            lam=law.lam, temperature=law.temperature, sampled=sampled, text=words.text(ids), token_ids=ids,
            tokens=_pieces(words, ids), log_p=_floats(found.full[at]), prior_log_p=_floats(found.prior[at]), pmi=_floats(own),
            floor=float(found.floor[at]), grids=_grids(found, at, cuts, settings), lams=_lams(model, parts, ids, law),
            epsilon=settings.bounded,
        )
        for at, law in enumerate(laws)
    ]  # fmt: skip


def _silent(laws: int, spans: int) -> Measured:
    """A response that ended at once has no token that a span could have moved."""
    none = np.zeros((laws, 0))
    return Measured(none, none, np.zeros((laws, spans, 0)), np.zeros(laws))


def _lams(model: Model, parts: Parts, ids: Ids, law: Law) -> tuple[float, ...]:
    """Lambda of every token under bounded CID, with the whole context; empty where one lambda
    serves all.
    """
    if not isinstance(law, BoundedLaw):
        return ()
    requests = [NextLogits(prompt, ids) for prompt in (parts.without(), parts.without(parts.whole))]
    with_context, without = (finite(logits[:-1]) for logits in model.answer(requests))
    return _floats(law.lams(with_context, without))


def _stride(settings: Settings, n: int) -> int | None:
    return None if settings.stride is None else min(settings.stride, n)


def _grids(
    found: Measured, law: int, cuts: dict[int, tuple[Span, ...]], settings: Settings
) -> tuple[Grid, ...]:
    rows = iter(found.signed[law])
    return tuple(
        Grid(
            n=n,
            stride=_stride(settings, n) or n,
            spans=spans,
            signed=tuple(_floats(next(rows)) for _ in spans),
        )
        for n, spans in cuts.items()
    )


def _pieces(words: Any, ids: Ids) -> tuple[str, ...]:
    """The text that each token adds to the response."""
    ends = [len(words.text(ids[: at + 1])) for at in range(len(ids))]
    text = words.text(ids)
    return tuple(text[a:b] for a, b in zip([0, *ends], ends, strict=False))


def _floats(values: Any) -> tuple[float, ...]:
    return tuple(round(float(v), DIGITS) + 0.0 for v in values)
