"""What a recipe compares: quantities, printed values and measured values."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from enum import StrEnum

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


@dataclass(frozen=True, slots=True)
class PrintedValue:
    """What a paper prints for one setting."""

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
        """Number of units."""
        return len(self.values)

    @property
    def mean(self) -> float:
        """Their mean."""
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
