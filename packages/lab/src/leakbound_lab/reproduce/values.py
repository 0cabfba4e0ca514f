"""What a recipe compares: quantities, printed values and measured values."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import accumulate

from pydantic import BaseModel, ConfigDict

TableNumber = int | float
NO_NUMBERS = "no number in the text"


class Quantity(StrEnum):
    """Quantities that a paper prints or a measure reports. Recipes name them in lower case."""

    AUDITING_ACCURACY = "auditing accuracy, %"
    LOG_ODDS = "ε by log odds (point estimate)"
    RESAMPLED = "ε by resampled trials (point estimate)"
    FROM_MU = "ε of the bound on μ, if Gaussian"
    BOUND = "ε ≥, 95 %"
    PILOT_ACCURACY = "accuracy on the pilot, %"
    DEVIATION = "standard deviation of it"
    ACCURACY = "accuracy, %"
    ROUGE_1 = "ROUGE-1 F1, %"
    ROUGE_L = "ROUGE-L F1, %"
    BERTSCORE = "BERTScore, %"
    FACTKB = "FactKB, %"
    INFLUENCE = "influence on a response"
    REPEAT_TEXT = "repeat prompts, by the text"
    REPEAT_PROGRAM = "repeat prompts, by the program"
    ROUGE_TEXT = "rouge prompts, by the text"
    ROUGE_PROGRAM = "rouge prompts, by the program"
    TOP_TOKEN = "top-attributed token"
    MEDIAN_TOKEN = "median token"
    TOP_REPEATED = "top-attributed token stands in the response, %"
    WORDS_TAKEN = "words of the response that stand in the context, %"
    DISTANCE = "L2 distance of the signals"
    PERFECT_RESAMPLED = "perfect attack, by resampled trials"
    PERFECT_EXACT = "exact ε of a perfect attack, claim 8"
    MEAN_EXACT = "exact ε of the paired trials, mean"
    SIGMA = "σ of private voting"
    EXACT_OF_NOISE = "exact ε of that noise"
    MU = "μ"
    RATE_RATIO = "ln(TPR/FPR), threshold 0"
    SENSITIVITY = "L2 sensitivity of the mean embedding"
    AUROC = "AUROC, %"
    TIME = "hours of the paper, seconds of this run"
    MODEL_CALLS = "model calls an answer"
    LIKELIHOOD = "predictive likelihood"
    LABEL_LIKELIHOOD = "mean likelihood of the right label, %"
    LARGEST_CHANGE = "mean largest change of a probability, %"
    LEAST_KEPT = "least probability kept, %"
    EXACT_REPLACE_ONE = "exact ε under replace_one"
    GUARANTEE = "derived guarantee"
    WITHHELD_MEMBER = "withheld by the judge, canary in, %"
    WITHHELD_NONMEMBER = "withheld by the judge, canary out, %"
    BOOTSTRAP = "ε by Algorithm 1 (point estimate)"
    TOTAL_VARIATION = "total variation"
    INFLUENCE_RATIO = "influence over λ times the difference of PMIs"
    INFLUENCE_OF_BOUND = "largest influence over its bound"


class FileEntry(BaseModel):
    """A part of a file that is read as it was written."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: row, column, and numbers by field."""

    row: str
    column: str
    values: Mapping[str, TableNumber]


class PaperTable(FileEntry):
    """A table as a paper prints it."""

    fields: tuple[str, ...]
    columns: tuple[str, ...]
    rows: dict[str, tuple[tuple[TableNumber, ...] | TableNumber | None, ...]]

    def cells(self, rows: Sequence[str] = ()) -> Iterator[Cell]:
        """The cells with numbers, row by row."""
        for row in rows or self.rows:
            for column, numbers in zip(self.columns, self.rows[row], strict=True):
                if numbers is not None:
                    numbers = numbers if isinstance(numbers, tuple) else (numbers,)
                    yield Cell(row, column, dict(zip(self.fields, numbers, strict=True)))


@dataclass(frozen=True, slots=True)
class PrintedValue:
    setting: str
    quantity: str
    value: float | str
    where: str


@dataclass(frozen=True, slots=True)
class Sample:
    """The numbers behind a measured value: one for each unit that was drawn."""

    values: tuple[float, ...]
    unit: str
    drawn: str
    what: str = ""
    ceiling: float | None = None
    ids: tuple[int, ...] = ()
    contexts: tuple[int, ...] = ()

    @property
    def n(self) -> int:
        return len(self.values)

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def deviation(self) -> float | None:
        """Standard deviation between units; None for a single unit."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    def by_context(self) -> Sample:
        """The mean of each context, as a sample of contexts; itself if units share none."""
        if not self.contexts:
            return self
        of: dict[int, list[float]] = {}
        for context, value in zip(self.contexts, self.values, strict=True):
            of.setdefault(context, []).append(value)
        means = tuple(statistics.fmean(values) for values in of.values())
        return replace(self, values=means, unit="context", ids=(), contexts=())


@dataclass(frozen=True, slots=True)
class MeasuredValue:
    """A number measured in this run for one setting."""

    setting: str
    quantity: str
    value: float
    shown: str
    sample: Sample | None = None
    ceiling: float | None = None
    exact: bool = False


SAFE = (Quantity.BOUND, Quantity.FROM_MU)  # lower bounds: the least of several is one, too


def together(found: Sequence[Sequence[MeasuredValue]]) -> tuple[MeasuredValue, ...]:
    """The measured values of several seeds as one: units of all of them, in the order of the seeds.

    Examples:
        >>> one, other = (
        ...     MeasuredValue("a", "q", v, f"{v:g}", Sample((v, v), "pair", f"seed {v:g}"))
        ...     for v in (1.0, 2.0)
        ... )
        >>> [both] = together([[one], [other]])
        >>> both.sample.values, both.value, both.shown
        ((1.0, 1.0, 2.0, 2.0), 1.5, '1.5 (1; 2)')
    """
    if len(found) == 1:
        return tuple(found[0])
    return tuple(map(_one, zip(*found, strict=True)))


def _one(each: tuple[MeasuredValue, ...]) -> MeasuredValue:
    first, values = each[0], [one.value for one in each]
    names = {(one.setting, str(one.quantity)) for one in each}
    if len(names) > 1:
        raise ValueError(f"the seeds measured different cells: {sorted(names)}.")
    if len(set(values)) == 1 and first.exact:
        return first
    value = min(values) if first.quantity in SAFE else statistics.fmean(values)
    samples = [one.sample for one in each if one.sample is not None]
    ceilings = [one.ceiling for one in each if one.ceiling is not None]
    return replace(
        first, value=value, shown=f"{value:.4g} ({'; '.join(one.shown for one in each)})",
        sample=_sample(samples) if len(samples) == len(each) else None,
        ceiling=statistics.fmean(ceilings) if len(ceilings) == len(each) else None,
    )  # fmt: skip


def _sample(each: Sequence[Sample]) -> Sample:
    """All units; those of one seed have no number of another one's."""
    ceilings = [one.ceiling for one in each if one.ceiling is not None]
    ids = [one.ids or tuple(range(one.n)) for one in each]
    contexts = [one.contexts for one in each]
    return replace(
        each[0], values=tuple(value for one in each for value in one.values),
        drawn=", ".join(one.drawn for one in each), ids=_apart(ids),
        contexts=_apart(contexts) if all(contexts) else (),
        ceiling=statistics.fmean(ceilings) if len(ceilings) == len(each) else None,
    )  # fmt: skip


def _apart(numbers: Sequence[Sequence[int]]) -> tuple[int, ...]:
    most = max(number for one in numbers for number in one) + 1
    starts = accumulate((most for _ in numbers[1:]), initial=0)
    return tuple(
        start + number for start, one in zip(starts, numbers, strict=True) for number in one
    )
