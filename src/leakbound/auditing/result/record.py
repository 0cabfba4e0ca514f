"""The parts of a record, and what the sentences about an audit read of it."""

from __future__ import annotations

from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict

from leakbound.auditing.decide.channel_verdicts import ChannelResult
from leakbound.auditing.decide.unused import ContextUse
from leakbound.auditing.decide.verdict import Reason, Verdict
from leakbound.estimators import Claim
from leakbound.privacy import Gaussian, Guarantee
from leakbound.stats import BoundReading, Estimate, roc
from leakbound.stats.e_values.anytime import AnytimeTest

ClaimSource = Literal["stated", "default", "unknown"]


class Frozen(BaseModel):
    """A part of a record, which never changes."""

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="strings")


class GuaranteeData(Frozen):
    """What the mechanism guarantees: in words, epsilon at the claim's delta, mu where Gaussian."""

    text: str
    epsilon: float
    mu: float | None

    @classmethod
    def of(cls, guarantee: Guarantee, delta: float) -> GuaranteeData:
        """The data of a guarantee."""
        mu = guarantee.mu if isinstance(guarantee, Gaussian) else None
        return cls(text=guarantee.describe(), epsilon=guarantee.epsilon(delta), mu=mu)


class AuditRecord(Protocol):
    """An `AuditResult`, as far as its sentences read it."""

    verdict: Verdict
    reason: Reason | None
    channels: tuple[ChannelResult, ...]
    use: ContextUse | None
    sentences: tuple[str, ...]
    claim: Claim
    claim_source: ClaimSource
    guarantee: GuaranteeData
    attack: dict[str, str]
    counts: dict[str, int]
    estimates: tuple[Estimate, ...]
    spec: dict[str, Any]
    provenance: dict[str, str]

    @property
    def bound(self) -> Estimate:
        """The estimate of epsilon that decided."""

    @property
    def reading(self) -> BoundReading:
        """What decided, with its guesses."""


Floats = npt.NDArray[np.float64]
POINTS = 200  # of a curve: more than a figure of 700 pixels can show
BINS = 60  # of a histogram
DIGITS = 6  # of curves and paths: beyond what a figure shows, and equal on every platform


class Curves(Frozen):
    """What figures show: the ROC curve of simulated outputs, and histograms of both contexts."""

    fpr: tuple[float, ...]
    tpr: tuple[float, ...]
    edges: tuple[float, ...]
    member: tuple[float, ...]
    nonmember: tuple[float, ...]
    auroc: float
    outputs: int


class EValuePath(Frozen):
    """The e-value against what was tested: its logarithm after some of the pairs.

    tested: the guarantee or claim, in words. level: the logarithm of the e-value that rejects.
    rejected_at: the pair at which it was first reached.
    """

    tested: str
    level: float
    rejected_at: int | None
    pairs: tuple[int, ...]
    log_e_values: tuple[float, ...]


def curves_of(member: Floats, nonmember: Floats) -> Curves:
    """What the figures show of simulated outputs."""
    fpr, tpr, _ = roc(member, nonmember)
    keep = np.unique(np.linspace(0, len(fpr) - 1, POINTS).astype(int))
    edges = _edges(member, nonmember)
    shares = [np.histogram(scores, edges)[0] / scores.size for scores in (member, nonmember)]
    return Curves(
        fpr=_floats(fpr[keep]),
        tpr=_floats(tpr[keep]),
        edges=_floats(edges),
        member=_floats(shares[0]),
        nonmember=_floats(shares[1]),
        auroc=round(float(np.trapezoid(tpr, fpr)), DIGITS),
        outputs=member.size + nonmember.size,
    )


def _edges(member: Floats, nonmember: Floats) -> Floats:
    """Two bins for scores of 0 and 1, else `BINS`."""
    low = float(min(member.min(), nonmember.min()))
    high = float(max(member.max(), nonmember.max()))
    if high - low <= 1:
        return np.linspace(low - 0.5, high + 0.5, 3)
    return np.linspace(low, high, BINS + 1)


def path_of(process: AnytimeTest) -> EValuePath:
    """The path of an e-value."""
    path = process.log_e_values
    last = max(len(path) - 1, 0)
    keep = np.unique(np.linspace(0, last, POINTS).astype(int))[: len(path)]
    return EValuePath(
        tested=process.claim.describe(),
        level=round(process.log_threshold, DIGITS),
        rejected_at=process.rejected_at,
        pairs=tuple((keep + 1).tolist()),
        log_e_values=_floats(path[keep]),
    )


def _floats(values: Floats) -> tuple[float, ...]:
    return tuple(round(float(v), DIGITS) for v in values)
