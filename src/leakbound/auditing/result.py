"""AuditRecord: the versioned result that every report, export and comparison is made from."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy
from pydantic import BaseModel, ConfigDict, ValidationError

from leakbound._notebook import card, data_frame
from leakbound._version import __version__
from leakbound.auditing.verdict import METHODS, Claim, Decision
from leakbound.errors import StoreError
from leakbound.estimators.votes import Profile
from leakbound.privacy import Gaussian, Guarantee
from leakbound.stats import EProcess, Estimate, roc

__all__ = [
    "AuditResult",
    "Curves",
    "GuaranteeData",
    "Wealth",
    "curves",
    "load_result",
    "provenance",
    "wealth",
]

POINTS = 200
PLACES = {
    "model",
    "embedder",
    "system",
    "data",
    "data_dir",
    "trust_remote_code",
}  # where things are, not what they are


class GuaranteeData(BaseModel):
    """The mechanism's own promise:

    in words, its epsilon at the claim's delta, and mu where it is Gaussian.
    """

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="strings")
    text: str
    epsilon: float
    mu: float | None

    @classmethod
    def of(cls, guarantee: Guarantee, delta: float) -> GuaranteeData:
        """Of a guarantee, at the claim's delta."""
        mu = guarantee.mu if isinstance(guarantee, Gaussian) else None
        return cls(text=guarantee.describe(), epsilon=guarantee.epsilon(delta), mu=mu)


class Curves(BaseModel):
    """What the figures show:

    the ROC over simulated releases, and both histograms over common bin edges.
    """

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="strings")
    fpr: tuple[float, ...]
    tpr: tuple[float, ...]
    edges: tuple[float, ...]
    member: tuple[float, ...]
    nonmember: tuple[float, ...]
    auroc: float
    outputs: int


class Wealth(BaseModel):
    """The e-process against the promise:

    ln of its wealth after some of the pairs, and the level that refutes.
    """

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="strings")
    promise: str
    level: float
    rejected_at: int | None
    pairs: tuple[int, ...]
    log_wealth: tuple[float, ...]


class AuditResult(BaseModel):
    """One audit: what was claimed, what was done, what was found, and what it rests on.

    Holds no private row.
    """

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="strings")
    schema_version: Literal[1] = 1
    name: str
    spec: dict[str, Any]
    claim: Claim
    guarantee: GuaranteeData
    attack: dict[str, str]
    counts: dict[str, int]
    estimates: tuple[Estimate, ...]
    decision: Decision
    curves: Curves
    wealth: Wealth | None = None
    profile: Profile | None = None
    example_prompt: str
    warnings: tuple[str, ...]
    provenance: dict[str, str]

    @property
    def verdict(self) -> str:
        """violation, consistent or inconclusive."""
        return self.decision.verdict

    def estimate(self, method: str) -> Estimate:
        """The estimate of one method."""
        return next(e for e in self.estimates if e.method == method)

    @property
    def bound(self) -> Estimate:
        """The estimate of epsilon that decided."""
        return self.estimate(METHODS[self.spec["estimator"]][0])

    @property
    def mu_bound(self) -> Estimate:
        """The estimate of mu that goes with it."""
        return self.estimate(METHODS[self.spec["estimator"]][1])

    def to_json(self) -> str:
        """Stable text: equal records give equal bytes."""
        return self.model_dump_json(indent=2) + "\n"

    def results(self) -> str:
        """The record as stable text, but for where the answers came from: addresses of target and
        data, provenance, name.

        Equal answers give equal bytes, whether they were collected in one process or many, at once
        or in parts, over HTTP or not.
        """
        found = self.model_dump(
            mode="json",
            exclude={"name": True, "provenance": True, "spec": PLACES, "attack": {"mechanism"}},
        )
        return json.dumps(found, indent=2, sort_keys=True) + "\n"

    @property
    def digest(self) -> str:
        """16 hex digits of a hash of `results`."""
        return hashlib.sha256(self.results().encode()).hexdigest()[:16]

    def to_pandas(self) -> Any:
        """A DataFrame with a row for each estimate, its counts in columns of their own.

        Raises UsageError without pandas.
        """
        said = {"run": self.name, "verdict": self.verdict, "claim": self.claim.epsilon}
        names = ("method", "kind", "epsilon", "mu", "delta", "confidence", "threshold")
        return data_frame(
            {
                **said,
                **{name: getattr(e, name) for name in names},
                "decides": e is self.bound,
                **e.counts,
            }
            for e in self.estimates
        )

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """What `repr` shows, which notebooks and test runners write down: no text of rows."""
        return (("name", self.name), ("verdict", self.verdict), ("bound", self.bound.epsilon))

    def _repr_html_(self) -> str:
        """What a notebook shows: verdict, bound, claim and figures; no text of rows."""
        return card("audit", self)


def load_result(path: str | Path) -> AuditResult:
    """The record of a run folder, or in a record.json file."""
    file = Path(path) / "record.json" if Path(path).is_dir() else Path(path)
    if not file.is_file():
        raise StoreError(
            f"{str(path)!r} holds no record.json; give the folder of a finished run, or run the "
            "audit to its end."
        )
    try:
        return AuditResult.model_validate_json(file.read_text(encoding="utf-8"))
    except (ValidationError, UnicodeDecodeError) as error:
        raise StoreError(
            f"{str(file)!r} is not a record of schema version 1: {str(error).splitlines()[0]}."
        ) from None


def curves(member: np.ndarray[Any, Any], nonmember: np.ndarray[Any, Any]) -> Curves:
    """ROC thinned to a few hundred points, histograms of at most 60 bins, from simulated releases."""
    fpr, tpr, _ = roc(member, nonmember)
    keep = np.unique(np.linspace(0, len(fpr) - 1, POINTS).astype(int))
    every = np.concatenate([member.ravel(), nonmember.ravel()])
    low, high = float(every.min()), float(every.max())
    edges = np.linspace(low - 0.5, high + 0.5, 3) if high - low <= 1 else np.linspace(low, high, 61)
    shares = [np.histogram(world, edges)[0] / world.size for world in (member, nonmember)]
    return Curves(
        fpr=_floats(fpr[keep]), tpr=_floats(tpr[keep]), edges=_floats(edges), member=_floats(shares[0]),
        nonmember=_floats(shares[1]), auroc=round(float(np.trapezoid(tpr, fpr)), 6), outputs=int(every.size),
    )  # fmt: skip


def wealth(process: EProcess) -> Wealth:
    """The path of a bet, thinned to a few hundred pairs."""
    path = process.log_e_values
    keep = (
        np.unique(np.linspace(0, len(path) - 1, POINTS).astype(int))
        if len(path)
        else np.zeros(0, int)
    )
    return Wealth(
        promise=process.claim.describe(), level=round(process.log_threshold, 6), rejected_at=process.rejected_at,
        pairs=tuple((keep + 1).tolist()), log_wealth=_floats(path[keep]),
    )  # fmt: skip


def _floats(values: np.ndarray[Any, Any]) -> tuple[float, ...]:
    return tuple(round(float(v), 6) for v in values)


def provenance(**known: str) -> dict[str, str]:
    """Versions of what computed the record, and the given fingerprints."""
    return {
        "leakbound": __version__, "python": platform.python_version(), "numpy": np.__version__,
        "scipy": scipy.__version__, **known,
    }  # fmt: skip
