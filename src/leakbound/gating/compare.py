"""Finished runs side by side: bounds, settings that differ, and tests of differences.

Lower bounds cannot be subtracted: a larger one may come from a stronger attack or from more pairs.
What can be compared are the success rates of one attack on two systems over contexts drawn in the
same way. Their difference has an interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from string import ascii_uppercase
from typing import Literal

from pydantic import JsonValue

from leakbound._records import Frozen, JsonRecord
from leakbound.auditing import AuditResult
from leakbound.auditing.result.record import ClaimSource
from leakbound.auditing.result.sentences import Subject, subject_of
from leakbound.gating.rates import Rate, rates_of

__all__ = ["RATES", "ComparedRun", "Comparison", "Contrast", "compare_results", "flat_settings"]

# what makes contexts, and the guess from an answer
DESIGN_KEYS = ("shots", "query", "canary", "insertion", "answers", "threshold")
SOURCES = ("model", "model_fingerprint", "data_fingerprint", "leakbound")
RATES = {"tpr": "true-positive rate", "fpr": "false-positive rate"}
CAVEATS = (
    "A larger lower bound is no larger leak: it may come from a stronger attack, another "
    "estimator, or more pairs.",
    "Intervals that overlap do not show that two systems leak alike. A difference that is not "
    "significant may still be there.",
)


class ComparedRun(Frozen):
    """One run of a comparison.

    Attributes:
        letter: Stands for the run in the other tables.
        run: Name of the run.
        system: What was audited.
        verdict: Of the run.
        method: The estimator that decided.
        epsilon: Its lower bound at `delta`; None if it gave none.
        delta: Of bound and claim.
        confidence: Of the bound.
        claim: The claimed epsilon.
        mu: Lower bound on mu; None if there is none.
        guarantee_mu: The mu that the mechanism guarantees; None if it guarantees none.
        rates: `tpr` and `fpr` of the guesses; empty where none were counted.
        pairs: Paired trials.
        model_calls: Calls of the model.
        model: Name of the model; None where the system asks a model of its own.
        claim_source: Whether somebody stated the claim.
    """

    letter: str
    run: str
    system: str
    verdict: str
    method: str
    epsilon: float | None
    delta: float
    confidence: float
    claim: float
    mu: float | None
    guarantee_mu: float | None
    rates: dict[str, Rate]
    pairs: int
    model_calls: int
    model: str | None = None
    claim_source: ClaimSource = "unknown"

    @property
    def subject(self) -> Subject:
        """What was audited, and what was claimed of it."""
        return Subject(self.system, self.model, self.claim, self.delta, self.claim_source)


class Contrast(Frozen):
    """The difference of a rate between two runs, with an interval.

    Attributes:
        first: Letter of the run that is subtracted.
        second: Letter of the run that it is subtracted from.
        rate: `tpr` or `fpr`.
        difference: Rate of `second` minus rate of `first`.
        low: Lower end; all intervals of a comparison hold together.
        high: Upper end.
    """

    first: str
    second: str
    rate: str
    difference: float
    low: float
    high: float

    @property
    def significant(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low > 0 or self.high < 0


class Comparison(JsonRecord):
    """Two or more runs side by side.

    Attributes:
        schema_version: 2.
        confidence: With which all intervals of rates, and so all contrasts, hold together.
        runs: The runs in their order.
        differing_settings: Settings that are not the same in all runs: a value for each run.
        contrasts: Differences of rates.
        not_compared: Why two runs have no contrast.
        caveats: What a comparison does not show.
    """

    schema_version: Literal[2] = 2
    confidence: float
    runs: tuple[ComparedRun, ...]
    differing_settings: dict[str, tuple[JsonValue, ...]]
    contrasts: tuple[Contrast, ...]
    not_compared: tuple[str, ...]
    caveats: tuple[str, ...] = CAVEATS


def compare_results(results: Sequence[AuditResult], together: int = 1) -> Comparison:
    """Compare two or more finished runs.

    Each of the m rates has a Clopper-Pearson interval at 1 - (1 - confidence)/m, and a difference
    lies between those of their limits (Bonferroni). That holds also where runs share contexts or
    answers, so that their trials are dependent; it is wider than it need be. All intervals hold
    together with the least confidence among the runs, also with those of other comparisons where
    `together` counts several.
    """
    letters = [
        (ascii_uppercase[at] if at < len(ascii_uppercase) else str(at + 1))
        for at in range(len(results))
    ]
    confidence = min(result.spec["confidence"] for result in results)
    alpha = (1 - confidence) / (len(RATES) * len(results) * together)
    runs = [
        _Run(letter, result, rates_of(result, alpha))
        for letter, result in zip(letters, results, strict=True)
    ]
    pairs = list(combinations(runs, 2))
    reasons = [(one, other, _incomparable(one, other)) for one, other in pairs]
    return Comparison(
        confidence=confidence,
        runs=tuple(map(_summary, runs)),
        differing_settings=_unequal(results),
        contrasts=tuple(
            contrast
            for one, other, why in reasons
            if not why
            for contrast in _contrasts(one, other)
        ),
        not_compared=tuple(
            f"{one.letter} and {other.letter}: {why}" for one, other, why in reasons if why
        ),
    )


@dataclass(frozen=True, slots=True)
class _Run:
    letter: str
    result: AuditResult
    rates: Mapping[str, Rate]


def _summary(run: _Run) -> ComparedRun:
    result, bound, subject = run.result, run.result.bound, subject_of(run.result)
    return ComparedRun(
        letter=run.letter, run=result.name, system=subject.system, verdict=result.verdict,
        method=bound.method, epsilon=bound.epsilon, delta=bound.delta,
        confidence=bound.confidence or 0.0, claim=result.claim.epsilon, mu=result.mu_bound.mu,
        guarantee_mu=result.guarantee.mu, rates=dict(run.rates), pairs=result.counts["pairs"],
        model_calls=result.counts["model_calls"], model=subject.model,
        claim_source=subject.claim_source,
    )  # fmt: skip


def _unequal(results: Sequence[AuditResult]) -> dict[str, tuple[JsonValue, ...]]:
    """Settings, and sources of the answers, that are not the same in all runs."""
    # without the version of results that the package wrote under its former name
    sources = ({key: one.provenance.get(key) for key in SOURCES} for one in results)
    flat = []
    for result, source in zip(results, sources, strict=True):  # an address has a name of its own
        mechanism = {**result.spec["mechanism"], "kind": result.attack["mechanism"]}
        flat.append({**flat_settings({**result.spec, "mechanism": mechanism}), **source})
    values = {
        key: tuple(one.get(key) for one in flat)
        for key in dict.fromkeys(key for one in flat for key in one)
    }
    if all(results[0].same_data(result) for result in results):
        values.pop("data_fingerprint", None)  # keyed, so that equal data may have two of them
    return {key: row for key, row in values.items() if any(value != row[0] for value in row)}


def flat_settings(spec: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The parameters of an audit with the options of components as keys of their own.

    Examples:
        >>> flat_settings({"pairs": 8, "canary": {"kind": "hex", "digits": 4}})
        {'pairs': 8, 'canary': 'hex', 'canary.digits': 4}
    """
    found: dict[str, JsonValue] = {}
    for key, value in spec.items():
        if isinstance(value, Mapping):
            found.update({key if k == "kind" else f"{key}.{k}": v for k, v in value.items()})
        else:
            found[key] = value
    return found


def _contrasts(one: _Run, other: _Run) -> list[Contrast]:
    """Of two runs whose rates have intervals: each difference lies between the limits of both."""
    return [
        Contrast(
            first=one.letter, second=other.letter, rate=rate,
            difference=other.rates[rate].share - one.rates[rate].share,
            low=other.rates[rate].limits[0] - one.rates[rate].limits[1],
            high=other.rates[rate].limits[1] - one.rates[rate].limits[0],
        )
        for rate in RATES
    ]  # fmt: skip


def _incomparable(one: _Run, other: _Run) -> str:
    alike = one.result.same_data(other.result)
    if alike is None:
        return (
            "their results do not show whether the data are the same: each was audited into an "
            "--out of its own, and no run folder is beside. Give the folders."
        )
    design, others = _design(one.result), _design(other.result)
    differing = [key for key in design if design[key] != others[key]]
    differing += [] if alike else ["data_fingerprint"]
    if differing:
        return (
            f"the attack or its contexts differ ({', '.join(differing)}), so a difference of rates "
            "says nothing about the systems."
        )
    if not (one.rates and other.rates):
        return "a run has counted no guesses at a threshold, so there are no rates to compare."
    if one.rates["tpr"].low is None or other.rates["tpr"].low is None:
        return (
            "a threshold was chosen on the tested trials, or these ended the audit early, so rates "
            "have no interval here; audit with --threshold split, and without --stop-when-rejected."
        )
    return ""


def _design(result: AuditResult) -> dict[str, JsonValue]:
    """What must be the same for rates to differ by the system alone: not the seed."""
    settings = {key: result.spec[key] for key in DESIGN_KEYS}
    guess = {key: result.attack[key] for key in ("score", "access")}
    return {**settings, **guess}
