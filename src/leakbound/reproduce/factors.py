"""The influence studies of the paper, as rows: means over contexts with their intervals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from leakbound.attribution import Case, InfluenceRecord, Settings, attribute, read_cases
from leakbound.attribution.bundled import notes
from leakbound.attribution.studies import Run, run_study, runs_of, truncated
from leakbound.attribution.study_record import Mean, Row, StudyRecord
from leakbound.attribution.study_utility import Judges
from leakbound.errors import UsageError
from leakbound.reproduce.context import RecipeContext
from leakbound.reproduce.recipe import Measured

__all__ = ["INFLUENCE", "REPEATED", "ROUGE_L", "cases_of", "factor", "rows_of", "settings_of"]

INFLUENCE, ROUGE_L = "influence on a response", "ROUGE-L F1, %"
REPEATED = {
    "repeat_program": "repeat prompts, by the program", "repeat_text": "repeat prompts, by the text",
    "rouge_program": "rouge prompts, by the program", "rouge_text": "rouge prompts, by the text",
}  # fmt: skip
TEMPERATURE = 0.8  # the paper's


def settings_of(lab: RecipeContext) -> Settings:
    """The paper's temperature and lambda, with responses as long as the lab allows."""
    return Settings(ngrams=(), temperature=TEMPERATURE, max_tokens=lab.sizes.tokens)


def cases_of(lab: RecipeContext) -> list[Case]:
    """The first contexts of the data, or bundled notes.

    Raises UsageError for rows that are no contexts.
    """
    if set(lab.source) - {"data"}:
        raise UsageError(
            "influence takes contexts from a .jsonl, .csv or text file; give it with --data, "
            "without --task."
        )
    if lab.source:
        return list(islice(read_cases(Path(lab.source["data"])), lab.sizes.contexts))
    return notes(lab.sizes.contexts)


def factor(
    lab: RecipeContext, study: str, values: Sequence[float] = (), models: Sequence[str] = ()
) -> StudyRecord:
    """A study over the lab's contexts and its first model, or over `models`."""
    cases = cases_of(lab)
    runs = runs_of(study, models or lab.models[:1], settings_of(lab), values)

    def attributed(run: Run) -> InfluenceRecord:
        lab.tell(f"{study}: {run.name}, {len(cases)} contexts")
        model = lab.model(run.model)
        return attribute(
            truncated(cases, run.tokens, model, run.settings.template), model, run.settings
        )

    return run_study(study, runs, cases, attributed, Judges())


def rows_of(rows: Iterable[Row], prefix: str = "") -> Iterator[Measured]:
    """Influence of every row; beside settings ROUGE-L where it is measured, and the counts of
    repeated text by both definitions.
    """
    for row in rows:
        setting = prefix + row.setting
        yield Measured(setting, INFLUENCE, row.influence.mean, _told(row.influence, 2))
        if row.utility is None:
            continue
        if row.utility.rouge_l is not None:
            yield Measured(
                setting, ROUGE_L, 100 * row.utility.rouge_l.mean, _told(row.utility.rouge_l, 1, 100)
            )
        for name, what in REPEATED.items():
            if (count := getattr(row.utility, name)) is not None:
                yield Measured(setting, what, count, f"{count} of {row.influence.count}")


def _told(mean: Mean, digits: int, scale: float = 1.0) -> str:
    low, high = (f"{scale * end:.{digits}f}" for end in (mean.low, mean.high))
    return f"{scale * mean.mean:.{digits}f}" + (f" [{low}, {high}]" if mean.count > 1 else "")
