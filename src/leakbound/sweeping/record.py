"""SweepRecord: the versioned result of a sweep, from which reports and exports are made."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, JsonValue

from leakbound._records import Frozen, JsonRecord, load_json
from leakbound.auditing.decide.obstacles import Reason, Verdict
from leakbound.auditing.result.audit_result import AuditResult
from leakbound.auditing.result.record import ClaimSource, GuaranteeData
from leakbound.auditing.store.folder import is_run
from leakbound.errors import StoreError, findable
from leakbound.estimators import Claim
from leakbound.gating.rates import Rate, rates_of
from leakbound.stats import Estimate
from leakbound.sweeping.grid import Changes, Grid
from leakbound.utility.held_out import UtilityKind

FILE = "sweep.json"
AGAIN = "Restore it from a copy, or run leakbound sweep again."
ELSEWHERE = "another shard of the sweep runs it."
VERSION = 2
M = TypeVar("M", bound=BaseModel)


class SweepUtility(Frozen):
    """How good the outputs for held-out queries are, from 0 to 1, beside two references.

    Attributes:
        kind: Accuracy of labels, or ROUGE-L of texts.
        queries: Number of held-out queries.
        value: Of the audited mechanism.
        zero_shot: Of the model without examples; None if it is not known.
        non_private: Upper bound: of the model with all examples and no privacy; None if it is not
            known.
        collection: Names what was collected for `value`; points that share it share the calls.
        model_calls: Calls for that.
        references: Names what was collected for the references.
        reference_model_calls: Calls for that.
        note: Why a reference is not known.
    """

    kind: UtilityKind
    queries: int
    value: float
    zero_shot: float | None
    non_private: float | None
    collection: str
    model_calls: int
    references: str
    reference_model_calls: int
    note: str = ""


class SweepPoint(Frozen):
    """One audit of a sweep: what it changes, and what it found.

    Attributes:
        changes: Values by key of the grid.
        seed: Of the audit.
        run: Name of its run folder.
        verdict: Of the audit.
        reason: Why it is inconclusive, as a code.
        sentences: The sentences that carry the verdict.
        warnings: Of the audit.
        claim: What the operator states.
        guarantee: What the mechanism is proven to satisfy.
        attack: Names of mechanism, canary, query and score; access.
        bound: The estimate of epsilon that decided.
        mu_bound: Lower bound on mu; None if there is none.
        exact_epsilon: Exact loss of the worst pair; None if it is not known.
        rates: `tpr` and `fpr`, each with an interval at the audit's confidence, by itself.
        pairs: Paired trials.
        model_calls: Calls behind them.
        evidence: Points with the same name share these calls.
        utility: None if it was not measured.
        model: Name of the model; that of the system where it asks a model of its own.
        claim_source: Whether somebody stated the claim.
    """

    changes: Changes
    seed: int
    run: str
    verdict: Verdict
    reason: Reason | None = None
    sentences: tuple[str, ...]
    warnings: tuple[str, ...]
    claim: Claim
    guarantee: GuaranteeData
    attack: dict[str, str]
    bound: Estimate
    mu_bound: float | None
    exact_epsilon: float | None
    rates: dict[str, Rate]
    pairs: int
    model_calls: int
    evidence: str
    utility: SweepUtility | None = None
    model: str
    claim_source: ClaimSource = "unknown"


class MissingPoint(Frozen):
    """A point without a result.

    Attributes:
        changes: Values by key of the grid.
        seed: Of the audit.
        cause: Refused before any model call, failed, or not reached yet.
        reason: Why, in a sentence.
    """

    changes: Changes
    seed: int
    cause: Literal["refused", "failed", "not_reached"]
    reason: str


class SweepRecord(JsonRecord):
    """All points of a grid, in its order. Holds no private row.

    Attributes:
        schema_version: 2.
        base: Settings that all points share, with options as `canary.digits`.
        grid: Values by key.
        repeats: Seeds of each setting.
        points: Finished audits.
        missing: Points without a result.
        provenance: Versions.
    """

    schema_version: Literal[2] = 2
    base: dict[str, JsonValue]
    grid: Grid
    repeats: int
    points: tuple[SweepPoint, ...]
    missing: tuple[MissingPoint, ...]
    provenance: dict[str, str]

    def __repr__(self) -> str:
        return f"SweepRecord({len(self.points)} points over {', '.join(self.grid) or 'seeds'})"

    @property
    def settings(self) -> list[list[SweepPoint]]:
        """The points by setting: repeats, which differ in their seed only, together."""
        found: dict[str, list[SweepPoint]] = {}
        for point in self.points:
            found.setdefault(key_of(point)[0], []).append(point)
        return list(found.values())

    @property
    def utilities(self) -> list[SweepUtility]:
        """The utility of each point where it was measured."""
        return [point.utility for point in self.points if point.utility is not None]

    @property
    def model_calls(self) -> int:
        """Model calls behind all points, each collection counted once.

        Not counted: a number of pairs that ends within a batch asks for that batch itself, though
        others have all of it.
        """
        return (
            _once((point.evidence, point.model_calls) for point in self.points)
            + _once((one.collection, one.model_calls) for one in self.utilities)
            + _once((one.references, one.reference_model_calls) for one in self.utilities)
        )

    @property
    def model_calls_unshared(self) -> int:
        """Model calls that the same points take if each asks for itself."""
        return sum(point.model_calls for point in self.points) + sum(
            one.model_calls + one.reference_model_calls for one in self.utilities
        )


def key_of(point: SweepPoint | MissingPoint) -> tuple[str, int]:
    """What tells points of a grid apart."""
    return json.dumps(point.changes, sort_keys=True), point.seed


def runs_of(folder: Path, points: Sequence[SweepPoint]) -> list[Path]:
    """The run folders of points; a number may stand behind the name."""
    names = {point.run for point in points}
    runs = filter(is_run, sorted(folder.iterdir()))
    return [run for run in runs if {run.name, re.sub(r"-\d+$", "", run.name)} & names]


def _once(collected: Iterable[tuple[str, int]]) -> int:
    most: dict[str, int] = {}
    for name, calls in collected:
        most[name] = max(most.get(name, 0), calls)
    return sum(most.values())


def point_of(
    result: AuditResult, changes: Changes, evidence: str, utility: SweepUtility | None = None
) -> SweepPoint:
    exact = next((e.epsilon for e in result.estimates if e.method == "exact"), None)
    return SweepPoint(
        changes=changes, seed=result.spec["seed"], run=result.name, verdict=result.verdict,
        reason=result.reason, sentences=result.sentences, warnings=result.warnings,
        claim=result.claim, guarantee=result.guarantee, attack=result.attack, bound=result.bound,
        mu_bound=result.mu_bound.mu, exact_epsilon=exact,
        rates=rates_of(result, 1 - result.spec["confidence"]), pairs=result.counts["pairs"],
        model_calls=result.counts["model_calls"], evidence=evidence, utility=utility,
        model=result.provenance["model"], claim_source=result.claim_source,
    )  # fmt: skip


def load_sweep(path: str | Path) -> SweepRecord:
    """The record of a finished or interrupted sweep.

    Args:
        path: A folder that `leakbound sweep` wrote, or its sweep.json.

    Raises:
        StoreError: If there is none, or it cannot be read.
    """
    file = Path(path) / FILE if findable(path).is_dir() else Path(path)
    if not file.is_file():
        raise StoreError(
            f"{str(path)!r} holds no {FILE}; give the folder that leakbound sweep wrote."
        )
    return load_json(file, SweepRecord, f"a sweep of schema version {VERSION}", AGAIN)


RATES = ("tpr", "fpr")
UTILITY = {
    "utility_kind": "kind", "utility": "value", "utility_zero_shot": "zero_shot",
    "utility_non_private": "non_private",
}  # fmt: skip
Cells = dict[str, JsonValue]


def sweep_csv(record: SweepRecord) -> str:
    """The points of a sweep as a table.

    Returns:
        CSV with a head and a row per point: what it changes, what it found. Empty cells: not known.
        Bounds are lower bounds at `confidence`.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    for number, point in enumerate(record.points):
        row = {**{key: point.changes.get(key) for key in record.grid}, **_find(point)}
        if number == 0:
            writer.writerow(row)
        writer.writerow("" if value is None else value for value in row.values())
    return file.getvalue()


def _find(point: SweepPoint) -> Cells:
    bound, rates = point.bound, Cells()
    for name in RATES:
        rate = point.rates.get(name)
        cells = (None, None, None) if rate is None else (rate.share, rate.low, rate.high)
        rates |= dict(zip((name, f"{name}_low", f"{name}_high"), cells, strict=True))
    return {
        "seed": point.seed, "verdict": point.verdict, "reason": point.reason,
        "claim": point.claim.epsilon, "claim_delta": point.claim.delta, "bound": bound.epsilon,
        "method": bound.method, "kind": bound.kind, "confidence": bound.confidence,
        **rates,
        "mu_bound": point.mu_bound, "mu_guarantee": point.guarantee.mu,
        "epsilon_guarantee": point.guarantee.epsilon, "epsilon_exact": point.exact_epsilon,
        **{
            name: None if point.utility is None else getattr(point.utility, field)
            for name, field in UTILITY.items()
        },
        "pairs": point.pairs, "model_calls": point.model_calls,
        "evidence": point.evidence, "run": point.run,
    }  # fmt: skip
