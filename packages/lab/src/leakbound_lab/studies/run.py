"""The factor studies of Context Influence as recipes: what changes from one run to the next.

Reference: CI, sections 4.3 and 4.4, appendix D.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from leakbound.attribution.attribute import token_model
from leakbound.attribution.cases import Case
from leakbound.attribution.measure import InfluenceSettings
from leakbound.attribution.record import InfluenceRecord, provenance
from leakbound.attribution.spans import locate
from leakbound.errors import UsageError, unknown_name
from leakbound.models import Model
from leakbound.models.address import BUNDLED
from leakbound_lab.studies.record import Mean, StudyRecord, StudyRow
from leakbound_lab.studies.utility import Judges, utility

POCKET = (
    "The pocket model has 3 million parameters and was trained on generated text: its numbers say "
    "nothing of bigger models."
)


@dataclass(frozen=True, slots=True)
class Run:
    name: str
    x: float
    model: str
    settings: InfluenceSettings
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Study:
    """The factor of a study, and the rows that it reads from a run."""

    factor: str
    line: str
    values: tuple[float, ...] = ()
    vary: Callable[[InfluenceSettings, float], InfluenceSettings] = lambda settings, value: settings
    places: Callable[[InfluenceRecord], Iterable[StudyRow]] = lambda record: ()


def _by_token(record: InfluenceRecord) -> Iterable[StudyRow]:
    """Influence of the whole context on the response token at each position.

    Each position is averaged over the responses that reach it.
    """
    taus = [one.readings[0].grids[-1].absolute[0] for one in record.attributions]
    for at in range(max(map(len, taus))):
        reach = [number for number, tau in enumerate(taus) if len(tau) > at]
        found = Mean.of([float(taus[number][at]) for number in reach], contexts=reach)
        yield StudyRow(
            setting=f"response token {at + 1}", line="whole context", x=at + 1, influence=found
        )


def _by_span(record: InfluenceRecord) -> Iterable[StudyRow]:
    """Influence of the i-th span of n tokens on the response, over the contexts that have it.

    A shorter last span is left out.
    """
    values: dict[tuple[int, int], dict[int, float]] = {}
    numbered = enumerate(record.attributions)
    for number, grid in ((at, grid) for at, one in numbered for grid in one.readings[0].grids[:-1]):
        for at, ((first, end), total) in enumerate(zip(grid.spans, grid.totals, strict=True)):
            if end - first == grid.n:
                values.setdefault((grid.n, at), {})[number] = float(total)
    for (n, at), found in sorted(values.items()):
        yield StudyRow(
            setting=f"n = {n}, span {at + 1}",
            line=f"n = {n}",
            x=n * at + 1,
            influence=Mean.of([*found.values()], contexts=[*found]),
        )


STUDIES = {
    "lambda": Study(
        "λ", "λ = {:g}", (0.5, 1.0, 1.5), lambda one, value: replace(one, lams=(value,))
    ),
    "temperature": Study(
        "temperature",
        "T = {:g}",
        (0.25, 0.5, 0.75, 1.0),
        lambda one, value: replace(one, temperature=value),
    ),
    "context-size": Study("context tokens", "at most {:g} tokens", (32, 64, 128, 256, 512, 1024)),
    "response-position": Study("response token", "", places=_by_token),
    "span-position": Study("first context token of the span", "", (4, 8, 32, 128), places=_by_span),
    "models": Study("model", ""),
}


def runs_of(
    name: str, models: Sequence[str], settings: InfluenceSettings, values: Sequence[float] = ()
) -> list[Run]:
    """The runs of a study. Every run draws from the same seeds.

    Examples:
        >>> [run.name for run in runs_of("lambda", ["pocket"], InfluenceSettings(), [0.5, 1.0])]
        ['λ = 0.5', 'λ = 1']
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


def truncate(
    cases: Sequence[Case], tokens: int | None, model: Model, template: str, system: str = ""
) -> list[Case]:
    """Shorten contexts to their first tokens, cut in the text where a token ends."""
    if tokens is None:
        return list(cases)
    shown = token_model(model)
    found = []
    for case in cases:
        if case.roles:
            raise UsageError(
                "a context is chat messages, which cannot be cut to a size; give texts."
            )
        bounds = locate(shown, case, template, system).bounds
        end = bounds[min(tokens, len(bounds) - 1)]
        found.append(replace(case, context=case.context[:end], sources=()))
    return found


def run_study(
    name: str,
    runs: Sequence[Run],
    cases: Sequence[Case],
    attributed: Callable[[Run], InfluenceRecord],
    judges: Judges,
) -> StudyRecord:
    """Attribute every run, and compute means over contexts."""
    study, rows, missing, models = STUDIES[name], [], dict[str, str](), {}
    for run in runs:
        record = attributed(run)
        found, reasons = utility(cases, record.attributions, judges)
        totals = [float(one.readings[0].grids[-1].totals[0]) for one in record.attributions]
        mean, line = Mean.of(totals), "whole context"
        whole = StudyRow(setting=run.name, line=line, x=run.x, influence=mean, utility=found)
        rows += [whole, *study.places(record)]
        missing |= reasons
        models[record.model] = record.provenance["fingerprint"]
    return StudyRecord(
        study=name,
        factor=study.factor,
        models=tuple(models),
        contexts=len(cases),
        rows=tuple(rows),
        not_measured=missing,
        notes=_notes(list(models)),
        settings=_share(runs),
        provenance=provenance(**models),
    )


def _notes(models: Sequence[str]) -> tuple[str, ...]:
    made = (
        f"These numbers were made by {', '.join(models)} on these contexts; another model, task or "
        "template can give others."
    )
    return (made, POCKET) if set(BUNDLED) & set(models) else (made,)


def _share(runs: Sequence[Run]) -> dict[str, object]:
    """The settings that all runs have in common."""
    names = ("lams", "temperature", "max_tokens", "min_tokens", "stop", "template", "seed")
    found = {name: {getattr(run.settings, name) for run in runs} for name in names}
    return {name: values.pop() for name, values in found.items() if len(values) == 1}
