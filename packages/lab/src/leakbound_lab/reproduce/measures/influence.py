"""Measures of Context Influence, and the studies that they run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np

from leakbound.attribution import Case, InfluenceRecord, InfluenceSettings, attribute, load_cases
from leakbound.errors import UsageError
from leakbound_lab.reproduce.context import RecipeContext
from leakbound_lab.reproduce.values import MeasuredValue, Quantity, Sample
from leakbound_lab.studies.bundled import notes, notes_to_summarize
from leakbound_lab.studies.record import Mean, StudyRecord, StudyRow, Utility
from leakbound_lab.studies.run import Run, run_study, runs_of, truncate
from leakbound_lab.studies.utility import Judges

WORD = re.compile(r"\w+")
CONTEXTS = ("own context", "another context")
TEMPERATURE = 0.8  # the paper's
REPEATED_WORDS = 25  # the authors' program counts a response as repeated above this many words


@dataclass(frozen=True, slots=True)
class _ResponseLimits:
    """The largest values that responses allow, whatever the context did to them."""

    influence: float
    long: int

    @classmethod
    def of(cls, record: InfluenceRecord) -> _ResponseLimits:
        readings = [one.readings[0] for one in record.attributions]
        words = [len(set(reading.text.split())) for reading in readings]
        return cls(
            sum(-sum(reading.prior_log_p) for reading in readings) / len(readings),
            sum(number > REPEATED_WORDS for number in words),
        )


def influence_settings(context: RecipeContext) -> InfluenceSettings:
    """The paper's temperature, with responses as long as the scale allows."""
    return InfluenceSettings(
        ngrams=(), temperature=TEMPERATURE, max_tokens=context.scale.tokens, seed=context.seed
    )


def cases_of(context: RecipeContext, summaries: bool = False) -> list[Case]:
    """The first contexts of the data, or of the bundled notes."""
    if set(context.source) - {"data"}:
        raise UsageError(
            "influence takes contexts from a .jsonl, .csv or text file; give it with --data, "
            "without --labels and --task."
        )
    if context.source:
        return list(islice(load_cases(Path(context.source["data"])), context.scale.contexts))
    return (notes_to_summarize if summaries else notes)(context.scale.contexts, context.seed)


@dataclass(frozen=True, slots=True)
class _Studied:
    """A study, the limits of each run, and how far its responses are made of their contexts."""

    record: StudyRecord
    limits: Mapping[str, _ResponseLimits]
    words: Sequence[tuple[Sequence[float], Sequence[float]]]

    def values(self, rows: Iterable[StudyRow], prefix: str = "") -> Iterator[MeasuredValue]:
        """The words taken from the contexts, then influence of each row, and utility."""
        if self.words:
            for setting, shares in zip(CONTEXTS, zip(*self.words, strict=True), strict=True):
                each = np.mean(shares, axis=0).tolist()
                sample = Sample(tuple(each), "context", "contexts of the data", ceiling=100.0)
                shown = f"{sample.mean:.0f}"
                yield MeasuredValue(
                    prefix + setting, Quantity.WORDS_TAKEN, sample.mean, shown, sample, 100.0
                )
        yield from study_values(rows, prefix, self.limits)


def _words_taken(
    cases: Sequence[Case], record: InfluenceRecord
) -> tuple[Sequence[float], Sequence[float]]:
    """Percent of the words of each response that stand in its context, and in the next one's."""
    texts = [frozenset(WORD.findall(case.context)) for case in cases]
    said = [set(WORD.findall(one.readings[0].text)) for one in record.attributions]
    return tuple(
        [100 * len(one & texts[(at + away) % len(texts)]) / max(1, len(one))
         for at, one in enumerate(said)]
        for away in (0, 1)
    )  # type: ignore[return-value]  # fmt: skip


def run_factor_study(
    context: RecipeContext,
    study: str,
    values: Sequence[float] = (),
    models: Sequence[str] = (),
    summaries: bool = False,
) -> _Studied:
    limits: dict[str, _ResponseLimits] = {}
    words: list[tuple[Sequence[float], Sequence[float]]] = []
    cases = cases_of(context, summaries)
    runs = runs_of(study, models or context.models[:1], influence_settings(context), values)

    def attributed(run: Run) -> InfluenceRecord:
        context.report(f"{study}: {run.name}, {len(cases)} contexts")
        model = context.model(run.model)
        template = run.settings.template
        found = attribute(truncate(cases, run.tokens, model, template), model, run.settings)
        limits[run.name] = _ResponseLimits.of(found)
        words.append(_words_taken(cases, found))
        return found

    record = run_study(study, runs, cases, attributed, Judges())
    return _Studied(record, limits, words)


def study_values(
    rows: Iterable[StudyRow],
    prefix: str = "",
    responses: Mapping[str, _ResponseLimits] | None = None,
) -> Iterator[MeasuredValue]:
    """Influence of each row, and utility for settings."""
    for row in rows:
        setting, mean = prefix + row.setting, row.influence
        limits = (responses or {}).get(row.setting)
        shown, most = _with_interval(mean, 2), None if limits is None else limits.influence
        sample = _sample(mean, ceiling=most)
        yield MeasuredValue(setting, Quantity.INFLUENCE, mean.mean, shown, sample, most)
        if row.utility is not None:
            yield from _utility_values(setting, row.utility, mean.count, limits)


def _sample(mean: Mean, scale: float = 1.0, ceiling: float | None = None) -> Sample | None:
    if not mean.values:
        return None
    values = tuple(scale * value for value in mean.values)
    return Sample(values, "context", "contexts of the data", "", ceiling, mean.contexts)


def _utility_values(
    setting: str, utility: Utility, contexts: int, limits: _ResponseLimits | None
) -> Iterator[MeasuredValue]:
    if (score := utility.rouge_l) is not None:
        shown, sample = _with_interval(score, 1, 100), _sample(score, 100, 100.0)
        yield MeasuredValue(setting, Quantity.ROUGE_L, 100 * score.mean, shown, sample, 100.0)
    counts = {
        Quantity.REPEAT_PROGRAM: utility.repeat_program, Quantity.REPEAT_TEXT: utility.repeat_text,
        Quantity.ROUGE_PROGRAM: utility.rouge_program, Quantity.ROUGE_TEXT: utility.rouge_text,
    }  # fmt: skip
    for quantity, count in counts.items():
        if count is not None:
            most = contexts
            if quantity == Quantity.REPEAT_PROGRAM and limits is not None:
                most = limits.long
            sample = _count(setting, count, contexts, most)
            shown = f"{count} of {contexts}"
            yield MeasuredValue(setting, quantity, count, shown, sample, float(most))


def _count(setting: str, count: int, contexts: int, most: int) -> Sample:
    """A count of responses as ones and zeros that belong to no particular context."""
    values = (1.0,) * count + (0.0,) * (contexts - count)
    drawn = f"responses at {setting}"
    return Sample(values, "response", drawn, "share of responses", most / contexts)


def _with_interval(mean: Mean, digits: int, scale: float = 1.0) -> str:
    low, high = (f"{scale * end:.{digits}f}" for end in (mean.low, mean.high))
    return f"{scale * mean.mean:.{digits}f}" + (f" [{low}, {high}]" if mean.count > 1 else "")


def top_tokens(context: RecipeContext) -> Iterator[MeasuredValue]:
    """Where the influence is in each context. Yields no text, since it may be private.

    Yields: The position of the top-attributed token and the influence of the median token. Then how
    often the top-attributed token occurs in the response, compared with any context token.
    """
    settings = replace(influence_settings(context), ngrams=(1,))
    record = attribute(cases_of(context), context.model(), settings)
    repeated: list[tuple[bool, float]] = []
    for number, one in enumerate(record.attributions, 1):
        spans, *_, whole = one.readings[0].grids
        totals = spans.totals
        top = int(totals.argmax())
        share = 100 * totals[top] / max(float(totals.sum()), 1e-12)
        shown = f"token {top + 1} of {len(totals)}: {totals[top]:.2f}, {share:.0f} % of all"
        yield MeasuredValue(f"context {number}", Quantity.TOP_TOKEN, top + 1, shown, exact=True)
        median = float(np.median(totals))
        shown = f"{median:.3f}; the whole context {whole.totals[0]:.2f}"
        yield MeasuredValue(f"context {number}", Quantity.MEDIAN_TOKEN, median, shown)
        response = one.readings[0].text
        stands = [(word := one.words(span).strip()) and word in response for span in spans.spans]
        repeated.append((bool(stands[top]), float(np.mean([bool(found) for found in stands]))))
    for setting, values in zip(
        ("all contexts", "chance"), zip(*repeated, strict=True), strict=True
    ):
        sample = Sample(tuple(100.0 * value for value in values), "context", "contexts of the data")
        shown = f"{sample.mean:.0f} of 100"
        yield MeasuredValue(setting, Quantity.TOP_REPEATED, sample.mean, shown, sample, 100.0)


def settings_of_study(
    context: RecipeContext, study: str, values: Sequence[float], summaries: bool = False
) -> Iterator[MeasuredValue]:
    """The results of a study at each value of its factor.

    study: Name of the study. values: Values of the factor. summaries: Whether queries about bundled
    notes ask for summaries of 20 to 40 words.
    Yields: Influence and utility of each setting.
    """
    found = run_factor_study(context, study, values, summaries=summaries)
    yield from found.values(row for row in found.record.rows if row.utility is not None)


def positions_of_study(
    context: RecipeContext, study: str, values: Sequence[float]
) -> Iterator[MeasuredValue]:
    """The results of a study at each position.

    study: Name of the study. values: Values of the factor.
    Yields: Influence at each position.
    """
    yield from _positions(run_factor_study(context, study, values))


def positions_by_model(
    context: RecipeContext, study: str, values: Sequence[float]
) -> Iterator[MeasuredValue]:
    """The results of a study at each position, for each model.

    study: Name of the study. values: Values of the factor.
    Yields: Influence at each position, model after model.
    """
    for address in context.models:
        found = run_factor_study(context, study, values, (address,))
        yield from _positions(found, f"{address}, " if len(context.models) > 1 else "")


def models_sizes_and_positions(
    context: RecipeContext, sizes: Sequence[float]
) -> Iterator[MeasuredValue]:
    """Three studies in one figure: models, context sizes, response positions.

    sizes: Maximum numbers of context tokens.
    Yields: Influence in each panel.
    """
    models = run_factor_study(context, "models", models=context.models)
    yield from study_values(models.record.rows, "(a) ")
    by_size = run_factor_study(context, "context-size", sizes)
    yield from by_size.values(by_size.record.rows, "(b) ")
    yield from _positions(run_factor_study(context, "response-position"), "(c) ")


def _positions(found: _Studied, prefix: str = "") -> Iterator[MeasuredValue]:
    yield from found.values((row for row in found.record.rows if row.utility is None), prefix)
