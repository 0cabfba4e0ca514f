"""Success rates of an audit's guesses, with intervals."""

from __future__ import annotations

import math

from pydantic import BaseModel, ConfigDict

from leakbound.auditing.result import AuditResult
from leakbound.errors import UsageError
from leakbound.stats import Assumption, binomial_lower, binomial_upper

__all__ = ["Rate", "pilot_rates", "rates_of"]

SCALE = 1000  # rates of a pilot are rounded to a thousandth, towards less power


class Rate(BaseModel):
    """A success rate with a two-sided Clopper-Pearson interval.

    Attributes:
        hits: Guesses "member".
        trials: Guesses in all.
        low: Lower end. None where these trials chose the threshold or ended the audit early, since
            both favour large rates.
        high: Upper end, or None.
    """

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="strings")
    hits: int
    trials: int
    low: float | None
    high: float | None

    @property
    def share(self) -> float:
        """Hits by trials."""
        return self.hits / self.trials

    @property
    def limits(self) -> tuple[float, float]:
        """Both ends; 0 and 1 where there is no interval."""
        return (0.0 if self.low is None else self.low, 1.0 if self.high is None else self.high)


def rates_of(result: AuditResult, alpha: float) -> dict[str, Rate]:
    """Success rates of the guesses at the run's own threshold.

    Args:
        result: A finished run.
        alpha: Error probability of each interval.

    Returns:
        `tpr` and `fpr`; empty where no guesses were counted.
    """
    counted = next((e for e in result.estimates if e.method == "clopper_pearson"), None)
    if counted is None:
        return {}
    tp, fn, fp, tn = (counted.counts[name] for name in ("tp", "fn", "fp", "tn"))
    whole = result.counts["pairs"] == result.spec["pairs"]
    fresh = whole and result.threshold != "bonferroni"
    return {"tpr": _rate(tp, tp + fn, alpha, fresh), "fpr": _rate(fp, fp + tn, alpha, fresh)}


def pilot_rates(result: AuditResult, confidence: float = 0.95) -> Assumption:
    """How often the model of a finished run notices canaries, and raises false alarms.

    Args:
        result: A run of a system without noise. Where partitions are planned, its contexts should
            have as many examples as one of them.
        confidence: With which the model is at least as good as what is returned.

    Returns:
        The lower end of the interval of the TPR, and the upper end of that of the FPR.

    Raises:
        UsageError: If the run has no such rates.
    """
    if result.guarantee.epsilon < math.inf:
        raise UsageError(
            f"the pilot {result.name} is a run of {result.attack['mechanism']}, whose guarantee "
            "hides how often the model notices a canary; give a run of few_shot, with as many "
            "--shots as a partition has examples."
        )
    rates = rates_of(result, 1 - confidence)
    if not rates or rates["tpr"].low is None or rates["fpr"].high is None:
        raise UsageError(
            f"the pilot {result.name} has no rates with intervals: its trials chose the threshold, "
            "or ended it early. Give a run without --stop-when-rejected, and with a fixed "
            "--threshold."
        )
    hit = math.floor(SCALE * rates["tpr"].low) / SCALE
    return Assumption(hit, math.ceil(SCALE * rates["fpr"].high) / SCALE)


def _rate(hits: int, trials: int, alpha: float, fresh: bool) -> Rate:
    if not fresh:
        return Rate(hits=hits, trials=trials, low=None, high=None)
    low, high = (
        float(limit(hits, trials, alpha / 2)) for limit in (binomial_lower, binomial_upper)
    )
    return Rate(hits=hits, trials=trials, low=low, high=high)
