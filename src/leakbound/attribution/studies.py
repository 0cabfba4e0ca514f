"""The factor studies of Context Influence (sections 4.3, 4.4 and appendix D) as recipes:

what changes from one run to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from leakbound.attribution.attribute import Settings, words_of
from leakbound.attribution.cases import Case
from leakbound.attribution.record import InfluenceRecord, provenance
from leakbound.attribution.spans import locate
from leakbound.attribution.study_record import Mean, Row, StudyRecord, Utility
from leakbound.attribution.study_utility import Judges, utility
from leakbound.errors import UsageError, unknown_name
from leakbound.models import Model

__all__ = ["STUDIES", "Run", "Study", "run_study", "runs_of", "truncated"]

POCKET = "The pocket model has 3 million parameters and was trained on generated text: its numbers say nothing of bigger models."


@dataclass(frozen=True, slots=True)
class Run:
    """One setting of a study; x:

    where it stands in the figure; tokens: how much of each context is used, None for all.
    """

    name: str
    x: float
    model: str
    settings: Settings
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Study:
    """What a study changes, over which values unless others are given, and the rows that it reads
    out of a run.
    """

    factor: str
    line: str
    values: tuple[float, ...] = ()
    vary: Callable[[Settings, float], Settings] = lambda settings, value: settings
    places: Callable[[InfluenceRecord], Iterable[Row]] = lambda record: ()


def _by_token(record: InfluenceRecord) -> Iterable[Row]:
    """Influence of the whole context on the response token at each position, over the responses
    that reach it.
    """
    taus = [one.readings[0].grids[-1].absolute[0] for one in record.attributions]
    for at in range(max(map(len, taus))):
        found = Mean.of([float(tau[at]) for tau in taus if len(tau) > at])
        yield Row(
            setting=f"response token {at + 1}", line="whole context", x=at + 1, influence=found
        )


def _by_span(record: InfluenceRecord) -> Iterable[Row]:
    """Influence of the i-th span of n tokens on the response, over the contexts that have it; a
    shorter last span is left out.
    """
    values: dict[tuple[int, int], list[float]] = {}
    for grid in (grid for one in record.attributions for grid in one.readings[0].grids[:-1]):
        for at, ((first, end), total) in enumerate(zip(grid.spans, grid.totals, strict=True)):
            if end - first == grid.n:
                values.setdefault((grid.n, at), []).append(float(total))
    for (n, at), found in sorted(values.items()):
        yield Row(
            setting=f"n = {n}, span {at + 1}",
            line=f"n = {n}",
            x=n * at + 1,
            influence=Mean.of(found),
        )


STUDIES = {
    "lambda": Study("λ", "λ = {:g}", (0.5, 1.0, 1.5), lambda s, value: replace(s, lams=(value,))),
    "temperature": Study("temperature", "T = {:g}", (0.25, 0.5, 0.75, 1.0), lambda s, value: replace(s, temperature=value)),
    "context-size": Study("context tokens", "at most {:g} tokens", (32, 64, 128, 256, 512, 1024)),
    "response-position": Study("response token", "", places=_by_token),
    "span-position": Study("first context token of the span", "", (4, 8, 32, 128), places=_by_span),
    "models": Study("model", ""),
}  # fmt: skip


def runs_of(
    name: str, models: Sequence[str], settings: Settings, values: Sequence[float] = ()
) -> list[Run]:
    """The runs of a study; `values` replace its own.

    Every run draws from the same seeds. Raises UsageError with a sentence.
    """
    if name not in STUDIES:
        raise unknown_name("the study", name, STUDIES)
    study, (model, *others) = STUDIES[name], models
    settings = replace(settings, ngrams=())
    if values and not study.values:
        raise UsageError(f"the study {name!r} takes no --values; leave them out.")
    chosen = tuple(dict.fromkeys(values)) or study.values
    if name == "models":
        return [Run(each, at, each, settings) for at, each in enumerate(models)]
    if others:
        raise UsageError(
            f"the study {name!r} takes one model, and got {len(models)}; the study 'models' "
            "compares them."
        )
    if name in ("context-size", "span-position"):
        _check_tokens(chosen)
    if name == "span-position":
        settings = replace(settings, ngrams=tuple(int(value) for value in chosen))
    if not study.line:
        return [Run("all contexts", 0, model, settings)]
    tokens = [int(value) if name == "context-size" else None for value in chosen]
    return [Run(study.line.format(value), value, model, study.vary(settings, value), size)
            for value, size in zip(chosen, tokens, strict=True)]  # fmt: skip


def _check_tokens(values: Sequence[float]) -> None:
    for value in values:
        if value < 1 or int(value) != value:
            raise UsageError(
                f"--values holds {value:g}; it must be whole numbers of tokens, at least 1."
            )


def truncated(cases: Sequence[Case], tokens: int | None, model: Model, template: str) -> list[Case]:
    """The cases with the first `tokens` tokens of their contexts, cut in the text where a token
    ends.
    """
    if tokens is None:
        return list(cases)
    words = words_of(model)
    places = [locate(words, case.context, case.query, template).bounds for case in cases]
    return [replace(case, context=case.context[: bounds[min(tokens, len(bounds) - 1)]])
            for case, bounds in zip(cases, places, strict=True)]  # fmt: skip


def run_study(
    name: str,
    runs: Sequence[Run],
    cases: Sequence[Case],
    attributed: Callable[[Run], InfluenceRecord],
    judges: Judges,
) -> StudyRecord:
    """Attribute every run and gather means over contexts; `attributed` gives the record of a run
    over the cases.

    Raises what `attributed` raises. Utility is measured with what `judges` name; what is missing
    gets a sentence.
    """
    study, rows, missing, models = STUDIES[name], [], dict[str, str](), {}
    for run in runs:
        record = attributed(run)
        found, reasons = utility(cases, record.attributions, judges)
        rows += [_whole(run, record, found), *study.places(record)]
        missing |= reasons
        models[record.model] = record.provenance["fingerprint"]
    return StudyRecord(
        study=name, factor=study.factor, models=tuple(models), contexts=len(cases), rows=tuple(rows), not_measured=missing,
        notes=_notes(list(models)), settings=_shared(runs), provenance=provenance(**models),
    )  # fmt: skip


def _whole(run: Run, record: InfluenceRecord, found: Utility) -> Row:
    totals = [float(one.readings[0].grids[-1].totals[0]) for one in record.attributions]
    return Row(
        setting=run.name, line="whole context", x=run.x, influence=Mean.of(totals), utility=found
    )


def _notes(models: Sequence[str]) -> tuple[str, ...]:
    made = f"These numbers were made by {', '.join(models)} on these contexts; another model, task or template can give others."
    return (made, POCKET) if "pocket" in models else (made,)


def _shared(runs: Sequence[Run]) -> dict[str, Any]:
    """The settings that are the same in all runs."""
    names = ("lams", "temperature", "max_tokens", "min_tokens", "stop", "template", "seed")
    found = {name: {getattr(run.settings, name) for run in runs} for name in names}
    return {name: values.pop() for name, values in found.items() if len(values) == 1}
