"""Success rates of an audit's guesses, with intervals."""

from __future__ import annotations

import inspect
import math

from leakbound._catalogue import Component
from leakbound._records import Frozen
from leakbound.auditing.result.audit_result import AuditResult
from leakbound.auditing.spec.audit_spec import AuditSpec
from leakbound.errors import UsageError
from leakbound.mechanisms import MECHANISMS
from leakbound.stats import Assumption, binomial_lower, binomial_upper

ALIKE = ("address", "query", "canary", "score", "insertion", "task")  # keys that rates depend on
SCALE = 1000  # rates of a pilot are rounded to a thousandth, towards less power


class Rate(Frozen):
    """A success rate with a two-sided Clopper-Pearson interval."""

    hits: int
    trials: int
    low: float | None
    high: float | None

    @property
    def share(self) -> float:
        return self.hits / self.trials

    @property
    def limits(self) -> tuple[float, float]:
        """Both ends; 0 and 1 where there is no interval."""
        return (0.0 if self.low is None else self.low, 1.0 if self.high is None else self.high)


def rates_of(result: AuditResult, alpha: float) -> dict[str, Rate]:
    """Success rates of the guesses at the run's own threshold."""
    counted = next((e for e in result.estimates if e.method == "clopper_pearson"), None)
    if counted is None:
        return {}
    tp, fn, fp, tn = (counted.counts[name] for name in ("tp", "fn", "fp", "tn"))
    whole = result.counts["pairs"] == result.spec["pairs"]
    fresh = whole and result.threshold != "bonferroni"
    return {"tpr": _rate(tp, tp + fn, alpha, fresh), "fpr": _rate(fp, fp + tn, alpha, fresh)}


def pilot_rates(result: AuditResult, confidence: float = 0.95) -> Assumption:
    """How often the model of a finished run notices canaries, and raises false alarms."""
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


def require_same_attack(pilot: AuditResult, spec: AuditSpec) -> None:
    """Refuse a pilot whose rates say nothing of the audit that is planned."""
    planned = spec.flat()
    keys = ALIKE if spec.system.address else ("model", *ALIKE)
    differ = [
        f"{'system' if key == 'address' else key} is {_short(pilot.spec[key])} there and "
        f"{_short(planned[key])} here"
        for key in keys
        if key in pilot.spec and pilot.spec[key] != planned[key]
    ]
    shots, sizes = pilot.spec["shots"], _examples_of_one(spec)
    if sizes and shots not in sizes:
        needed = " or ".join(map(str, sorted(sizes)))
        differ.append(f"shots is {shots} there, and what answers here has {needed} examples")
    if differ:
        raise UsageError(
            f"the pilot {pilot.name} is of another audit: {'; '.join(differ)}. Give a run that is "
            "alike, or state the rates with --assume-hit and --assume-false-alarm."
        )


def _short(value: object) -> str:
    """A value of a spec, as it is written: a component without options by its name."""
    if isinstance(value, dict) and set(value) == {"kind"}:
        return str(value["kind"])
    return "not given" if value is None else str(value)


def _examples_of_one(spec: AuditSpec) -> set[int]:
    """Examples behind one answer, where the spec tells; empty where it does not."""
    shots, kind = spec.design.shots, spec.system.mechanism
    if spec.system.address or kind.kind == "few_shot":
        return {shots}
    parts = _partitions(kind)
    return {shots // parts, math.ceil(shots / parts)} if parts else set()


def _partitions(kind: Component) -> int | None:
    """Partitions of a mechanism of the catalogue, given or by default."""
    made = None if kind.python else MECHANISMS[kind.kind]
    known = {} if made is None else inspect.signature(made).parameters
    if "partitions" not in known:
        return None
    found = kind.options.get("partitions", known["partitions"].default)
    return found if isinstance(found, int) and found > 0 else None


def _rate(hits: int, trials: int, alpha: float, fresh: bool) -> Rate:
    if not fresh:
        return Rate(hits=hits, trials=trials, low=None, high=None)
    low, high = (
        float(limit(hits, trials, alpha / 2)) for limit in (binomial_lower, binomial_upper)
    )
    return Rate(hits=hits, trials=trials, low=low, high=high)
