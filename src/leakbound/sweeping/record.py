"""SweepRecord: the versioned result of a sweep, from which its report, its figures and its exports
are made.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from leakbound.auditing import AuditResult, Claim
from leakbound.auditing.result import GuaranteeData
from leakbound.auditing.verdict import Verdict
from leakbound.errors import StoreError
from leakbound.gating.rates import Rate, rates_of
from leakbound.stats import Estimate
from leakbound.utility.held_out import Kind

__all__ = ["FILE", "SweepPoint", "SweepRecord", "Unmade", "Utility", "load_sweep", "point_of"]

FILE = "sweep.json"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, ser_json_inf_nan="strings")


class Utility(_Frozen):
    """How good the released answers to held-out queries are, from 0 to 1, beside those without
    examples and without privacy.

    collection and held_out name what was collected once for all points that share them, with the
    model calls it took.
    """

    kind: Kind
    queries: int
    value: float
    floor: float | None
    ceiling: float | None
    collection: str
    calls: int
    held_out: str
    reference_calls: int
    missing: str = ""


class SweepPoint(_Frozen):
    """One audit of a sweep:

    what it changes, and what it found. `evidence`: points that share it asked the same, once.
    """

    changes: dict[str, Any]
    seed: int
    run: str
    verdict: Verdict
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    claim: Claim
    guarantee: GuaranteeData
    attack: dict[str, str]
    bound: Estimate
    mu: float | None
    exact: float | None
    rates: dict[str, Rate]
    pairs: int
    model_calls: int
    evidence: str
    utility: Utility | None = None


class Unmade(_Frozen):
    """A point without a result: refused before any model call, failed, or not reached yet."""

    changes: dict[str, Any]
    seed: int
    why: Literal["refused", "failed", "not reached"]
    reason: str


class SweepRecord(_Frozen):
    """All points of a grid, in its order. `base` is what they share. Holds no private row."""

    schema_version: Literal[1] = 1
    base: dict[str, Any]
    grid: dict[str, tuple[Any, ...]]
    repeats: int
    points: tuple[SweepPoint, ...]
    unmade: tuple[Unmade, ...]
    provenance: dict[str, str]

    def __repr__(self) -> str:
        return f"SweepRecord({len(self.points)} points over {', '.join(self.grid) or 'seeds'})"

    @property
    def settings(self) -> list[list[SweepPoint]]:
        """The points by setting: repeats, which differ in their seed only, together."""
        found: dict[str, list[SweepPoint]] = {}
        for point in self.points:
            found.setdefault(json.dumps(point.changes, sort_keys=True), []).append(point)
        return list(found.values())

    @property
    def calls(self) -> int:
        """Model calls behind all points, each collection counted once.

        Not counted: a number of pairs that ends within a batch asks for that batch itself, though
        others have all of it.
        """
        pairs = _once((point.evidence, point.model_calls) for point in self.points)
        measured = [point.utility for point in self.points if point.utility is not None]
        return (
            pairs
            + _once((u.collection, u.calls) for u in measured)
            + _once((u.held_out, u.reference_calls) for u in measured)
        )

    @property
    def calls_apart(self) -> int:
        """Model calls that the same points would take if each asked for itself."""
        measured = [point.utility for point in self.points if point.utility is not None]
        return sum(p.model_calls for p in self.points) + sum(
            u.calls + u.reference_calls for u in measured
        )

    def to_json(self) -> str:
        """Stable text: equal records give equal bytes."""
        return self.model_dump_json(indent=2) + "\n"


def _once(collected: Any) -> int:
    most: dict[str, int] = {}
    for name, calls in collected:
        most[name] = max(most.get(name, 0), calls)
    return sum(most.values())


def point_of(
    record: AuditResult, changes: Mapping[str, Any], evidence: str, utility: Utility | None = None
) -> SweepPoint:
    """A finished audit as a point of a sweep.

    Every rate has an interval at the audit's confidence, by itself.
    """
    exact = next((e.epsilon for e in record.estimates if e.method == "exact"), None)
    return SweepPoint(
        changes=dict(changes), seed=record.spec["seed"], run=record.name, verdict=record.verdict,
        reasons=record.sentences, warnings=record.warnings, claim=record.claim, guarantee=record.guarantee,
        attack=record.attack, bound=record.bound, mu=record.mu_bound.mu, exact=exact,
        rates=rates_of(record, 1 - record.spec["confidence"]), pairs=record.counts["pairs"],
        model_calls=record.counts["model_calls"], evidence=evidence, utility=utility,
    )  # fmt: skip


def load_sweep(path: str | Path) -> SweepRecord:
    """The record of a sweep's folder, or in a sweep.json file.

    Raises StoreError with a sentence for what is none.
    """
    file = Path(path) / FILE if Path(path).is_dir() else Path(path)
    if not file.is_file():
        raise StoreError(
            f"{str(path)!r} holds no {FILE}; give the folder that leakbound sweep wrote."
        )
    try:
        return SweepRecord.model_validate_json(file.read_text(encoding="utf-8"))
    except (ValidationError, UnicodeDecodeError) as error:
        raise StoreError(
            f"{str(file)!r} is not a sweep of schema version 1: {str(error).splitlines()[0]}."
        ) from None
