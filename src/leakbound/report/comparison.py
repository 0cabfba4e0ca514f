"""Finished runs beside each other: what was found, what differs between them, and which differences
are more than noise.

Lower bounds cannot be subtracted: a larger one may come from a stronger attack or from more pairs.
What can be compared are the success
rates of one attack on two systems over worlds drawn in the same way, and these carry an interval
for their difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from string import ascii_uppercase
from typing import Any

from pydantic import BaseModel, ConfigDict

from leakbound.auditing import AuditResult
from leakbound.gating.rates import Rate, rates_of
from leakbound.report.terminal import aligned
from leakbound.report.words import system_name
from leakbound.stats import cut

__all__ = ["Comparison", "Contrast", "Rate", "Row", "compare", "comparison_page", "comparison_text"]

DESIGN = ("shots", "attack", "query_text", "query_labelled", "canary", "canary_text", "canary_label", "canary_image", "digits", "insertion", "answers",
          "threshold")  # what makes worlds, and the guess from an answer  # fmt: skip
RATES = {"tpr": "true-positive rate", "fpr": "false-positive rate"}
NOT_SAID = (
    (
        "A larger lower bound is no larger leak: it may come from a stronger attack, another "
        "estimator, or more pairs."
    ),
    (
        "Intervals that overlap do not show that two systems leak alike, and a difference that is not "
        "shown may be there."
    ),
)


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, ser_json_inf_nan="strings")


class Row(_Frozen):
    """One run. `letter` stands for it; epsilon is its deciding lower bound at `delta`."""

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


class Contrast(_Frozen):
    """Rate of `second` less rate of `first`:

    an interval that holds together with all others of its comparison.
    """

    first: str
    second: str
    rate: str
    difference: float
    low: float
    high: float

    @property
    def shown(self) -> bool:
        """Is it more than noise?"""
        return self.low > 0 or self.high < 0


class Comparison(_Frozen):
    """Runs, the settings in which they differ (a value for each run, in order), contrasts of rates,
    and why some are missing.
    """

    schema_version: int = 1
    confidence: float
    runs: tuple[Row, ...]
    differing: dict[str, tuple[Any, ...]]
    contrasts: tuple[Contrast, ...]
    missing: tuple[str, ...]
    not_said: tuple[str, ...] = NOT_SAID

    def to_json(self) -> str:
        """Stable text: equal comparisons give equal bytes."""
        return self.model_dump_json(indent=2) + "\n"


def compare(records: Sequence[AuditResult]) -> Comparison:
    """Two or more finished runs. All intervals of rates, and so all contrasts, hold together with
    the least confidence among the runs.

    Each of the m rates has a Clopper-Pearson interval at 1 - (1 - confidence)/m, and a difference
    lies between those of their limits
    (Bonferroni). That holds also where runs share worlds or answers, so that their trials are
    dependent; it is wider than it need be.
    """
    letters = [_letter(at) for at in range(len(records))]
    confidence = min(r.spec["confidence"] for r in records)
    alpha = (1 - confidence) / (len(RATES) * len(records))
    rates = [rates_of(record, alpha) for record in records]
    found = [
        _contrast(*pair, records, rates, letters) for pair in combinations(range(len(records)), 2)
    ]
    return Comparison(
        confidence=confidence, runs=tuple(map(_row, letters, records, rates)), differing=_differing(records),
        contrasts=tuple(one for contrasts, _ in found for one in contrasts),
        missing=tuple(reason for _, reason in found if reason),
    )  # fmt: skip


def _letter(at: int) -> str:
    return ascii_uppercase[at] if at < len(ascii_uppercase) else str(at + 1)


def _row(letter: str, record: AuditResult, rates: dict[str, Rate]) -> Row:
    bound = record.bound
    return Row(
        letter=letter, run=record.name, system=system_name(record), verdict=record.verdict, method=bound.method,
        epsilon=bound.epsilon, delta=bound.delta, confidence=bound.confidence or 0.0, claim=record.claim.epsilon,
        mu=record.mu_bound.mu, guarantee_mu=record.guarantee.mu, rates=rates, pairs=record.counts["pairs"],
        model_calls=record.counts["model_calls"],
    )  # fmt: skip


def _differing(records: Sequence[AuditResult]) -> dict[str, tuple[Any, ...]]:
    """Keys of the spec, and of where the answers came from, that are not the same in all runs."""
    flat = [{**r.spec, "mechanism": r.attack["mechanism"], **_sources(r)} for r in records]
    values = {
        key: tuple(one.get(key) for one in flat)
        for key in dict.fromkeys(key for one in flat for key in one)
    }
    return {
        key: found for key, found in values.items() if any(value != found[0] for value in found)
    }


def _sources(record: AuditResult) -> dict[str, str]:
    known = record.provenance
    return {
        "model": known["model"],
        **{key: known[key] for key in ("model_fingerprint", "data_fingerprint", "leakbound")},
    }


def _contrast(
    first: int,
    second: int,
    records: Sequence[AuditResult],
    rates: Sequence[dict[str, Rate]],
    letters: Sequence[str],
) -> tuple[list[Contrast], str]:
    """The contrasts of two runs, or why there are none."""
    why = _incomparable(records[first], records[second], rates[first], rates[second])
    if why:
        return [], f"{letters[first]} and {letters[second]}: {why}"
    names = letters[first], letters[second]
    return [
        _difference(*names, rate, rates[first][rate], rates[second][rate]) for rate in RATES
    ], ""


def _difference(first: str, second: str, rate: str, a: Rate, b: Rate) -> Contrast:
    """Of two rates with intervals: between the limits of both."""
    assert None not in (a.low, a.high, b.low, b.high)
    return Contrast(
        first=first, second=second, rate=rate, difference=b.hits / b.trials - a.hits / a.trials,
        low=(b.low or 0.0) - (a.high or 0.0), high=(b.high or 0.0) - (a.low or 0.0),
    )  # fmt: skip


def _incomparable(
    one: AuditResult, other: AuditResult, rates: dict[str, Rate], others: dict[str, Rate]
) -> str:
    design = [_design(record) for record in (one, other)]
    differing = [key for key in design[0] if design[0][key] != design[1][key]]
    if differing:
        return f"the attack or its worlds differ ({', '.join(differing)}), so a difference of rates says nothing about the systems."
    if not (rates and others):
        return "a run has counted no guesses at a threshold, so there are no rates to compare."
    if rates["tpr"].low is None or others["tpr"].low is None:
        return (
            "a threshold was chosen on the tested trials, or these ended the audit early, so "
            "rates have no interval here; audit with "
            "--threshold split, and without stop_when_rejected."
        )
    return ""


def _design(record: AuditResult) -> dict[str, Any]:
    """What must be the same for rates to differ by the system alone; another seed draws other
    worlds in the same way.
    """
    settings = {key: record.spec.get(key) for key in DESIGN}
    guess = {key: record.attack[key] for key in ("score", "access")}
    return {**settings, **guess, "data_fingerprint": record.provenance["data_fingerprint"]}


# --- as text and as a page
# ----------------------------------------------------------------------------------------------


def comparison_text(found: Comparison) -> str:
    """A line for each run, the settings that differ, and what can be said about the differences."""
    parts = [
        aligned(HEAD, *map(_cells, found.runs)),
        _settings(found),
        *map(_sentence, found.contrasts),
    ]
    parts += [f"Not compared: {reason}" for reason in found.missing]
    return "\n".join([*parts, *(f"Not said: {line}" for line in found.not_said)])


HEAD = (
    "",
    "system",
    "verdict",
    "claim ε",
    "ε ≥",
    "μ ≥",
    "by",
    *map(str.upper, RATES),
    "pairs",
    "calls",
)


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.letter, row.system, row.verdict, f"{row.claim:g}", f"{cut(row.epsilon)} at δ {row.delta:g}", cut(row.mu, 3),
        f"{row.method}, {row.confidence:.0%}", *(_told(row.rates.get(name)) for name in RATES), str(row.pairs),
        str(row.model_calls),
    )  # fmt: skip


def _told(rate: Rate | None) -> str:
    """A rate with its interval, rounded outwards."""
    if rate is None:
        return "–"
    share = f"{rate.hits / rate.trials:.3f}"
    return (
        share
        if rate.low is None or rate.high is None
        else f"{share} [{cut(rate.low, 3)}, {cut(min(1.0, rate.high + 1e-3), 3)}]"
    )


def _settings(found: Comparison) -> str:
    if not found.differing:
        return "No setting differs."
    letters = tuple(row.letter for row in found.runs)
    lines = [
        ("differs in", *letters),
        *((key, *map(_value, values)) for key, values in found.differing.items()),
    ]
    return aligned(*lines)


def _value(value: Any) -> str:
    return "–" if value in (None, "", {}) else str(value)


def _sentence(one: Contrast) -> str:
    """What a contrast shows; its limits are rounded outwards."""
    limits = f"[{cut(one.low, 3)}, {cut(one.high + 1e-3, 3)}]"
    said = "more than noise" if one.shown else "not shown to be more than noise"
    return (
        f"{RATES[one.rate]}, {one.second} less {one.first}: {one.difference:+.3f} {limits}: {said}."
    )


def comparison_page(found: Comparison) -> str:
    """One HTML page that opens from disk and asks nothing of the network; all text is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("leakbound.report", "."), autoescape=True, undefined=StrictUndefined
    )
    return environment.get_template("comparison.html.j2").render(
        found=found, head=HEAD, cells=_cells, sentence=_sentence, value=_value
    )
