"""Measures of Context Influence, with the studies of leakbound.attribution."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from leakbound.attribution import attribute
from leakbound_lab.reproduce.context import RecipeContext
from leakbound_lab.reproduce.studies import (
    ResponseLimits,
    cases_of,
    influence_settings,
    run_factor_study,
    study_values,
)
from leakbound_lab.reproduce.values import MeasuredValue, Quantity, Sample
from leakbound_lab.studies.record import StudyRecord


def top_tokens(context: RecipeContext) -> Iterator[MeasuredValue]:
    """Where the influence is in each context. Yields no text, since it may be private.

    Args:
        context: Model, contexts and scale.

    Yields:
        The position of the top-attributed token and the influence of the median token. Then how
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

    Args:
        context: Model, contexts and scale.
        study: Name of the study.
        values: Values of the factor.
        summaries: Whether queries about bundled notes ask for summaries of 20 to 40 words.

    Yields:
        Influence and utility of each setting.
    """
    limits: dict[str, ResponseLimits] = {}
    record = run_factor_study(context, study, values, responses=limits, summaries=summaries)
    yield from study_values(
        (row for row in record.rows if row.utility is not None), responses=limits
    )


def positions_of_study(
    context: RecipeContext, study: str, values: Sequence[float]
) -> Iterator[MeasuredValue]:
    """The results of a study at each position.

    Args:
        context: Model, contexts and scale.
        study: Name of the study.
        values: Values of the factor.

    Yields:
        Influence at each position.
    """
    yield from _positions(run_factor_study(context, study, values))


def positions_by_model(
    context: RecipeContext, study: str, values: Sequence[float]
) -> Iterator[MeasuredValue]:
    """The results of a study at each position, for each model.

    Args:
        context: Models, contexts and scale.
        study: Name of the study.
        values: Values of the factor.

    Yields:
        Influence at each position, model after model.
    """
    for address in context.models:
        record = run_factor_study(context, study, values, (address,))
        yield from _positions(record, f"{address}, " if len(context.models) > 1 else "")


def models_sizes_and_positions(
    context: RecipeContext, sizes: Sequence[float]
) -> Iterator[MeasuredValue]:
    """Three studies in one figure: models, context sizes, response positions.

    Args:
        context: Models, contexts and scale.
        sizes: Maximum numbers of context tokens.

    Yields:
        Influence in each panel.
    """
    models = run_factor_study(context, "models", models=context.models)
    yield from study_values(models.rows, "(a) ")
    yield from study_values(run_factor_study(context, "context-size", sizes).rows, "(b) ")
    yield from _positions(run_factor_study(context, "response-position"), "(c) ")


def _positions(record: StudyRecord, prefix: str = "") -> Iterator[MeasuredValue]:
    yield from study_values((row for row in record.rows if row.utility is None), prefix)
