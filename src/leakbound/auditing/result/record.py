"""What the sentences about an audit read of its record."""

from __future__ import annotations

from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict

from leakbound.auditing.decide.channel_verdicts import ChannelResult
from leakbound.auditing.decide.verdict import Reason, Verdict
from leakbound.estimators import Claim
from leakbound.privacy import Gaussian, Guarantee
from leakbound.stats import BoundReading, Estimate

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
