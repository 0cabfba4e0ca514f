"""Success rates of an audit's guesses, with intervals."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from leakbound.attacks import SCORES
from leakbound.auditing.estimate import threshold_rule
from leakbound.auditing.result import AuditResult
from leakbound.stats import Bonferroni, Estimate, binomial_lower, binomial_upper

__all__ = ["Rate", "rates_of"]


class Rate(BaseModel):
    """A success rate: hits of trials, with a two-sided Clopper-Pearson interval.

    There is none where these trials chose the threshold, or ended the audit early: both choose what
    is favourable.
    """

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="strings")
    hits: int
    trials: int
    low: float | None
    high: float | None


def rates_of(record: AuditResult, alpha: float) -> dict[str, Rate]:
    """`tpr` and `fpr` of the guesses at the run's own threshold, each interval at 1 - alpha; empty
    where none were counted.
    """
    counted: Estimate | None = next(
        (e for e in record.estimates if e.method == "clopper_pearson"), None
    )
    if counted is None:
        return {}
    tp, fn, fp, tn = (counted.counts[name] for name in ("tp", "fn", "fp", "tn"))
    fresh = not (_chosen_on_trials(record) or record.counts["pairs"] < record.spec["pairs"])
    return {"tpr": _rate(tp, tp + fn, alpha, fresh), "fpr": _rate(fp, fp + tn, alpha, fresh)}


def _chosen_on_trials(record: AuditResult) -> bool:
    rule = threshold_rule(record.spec["threshold"], SCORES[record.attack["score"]]().threshold)
    return isinstance(rule, Bonferroni)


def _rate(hits: int, trials: int, alpha: float, fresh: bool) -> Rate:
    if not fresh:
        return Rate(hits=hits, trials=trials, low=None, high=None)
    low, high = (
        float(limit(hits, trials, alpha / 2)) for limit in (binomial_lower, binomial_upper)
    )
    return Rate(hits=hits, trials=trials, low=low, high=high)
