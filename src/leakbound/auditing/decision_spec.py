"""The keys of an audit that say what decides it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from leakbound._catalogue import Component
from leakbound.auditing.spec_groups import MOST, FrozenSpec

LIKELY = 0.8  # a confidence that somebody may have meant


class Decision(FrozenSpec):
    """What decides: the claim, and how it is tested."""

    epsilon: float = Field(
        default=1.0, gt=0, description="the claim, and what a noisy mechanism is calibrated to"
    )
    delta: float = Field(default=1e-5, ge=0, lt=1, description="delta of the claim")
    confidence: float = Field(default=0.95, ge=0.5, lt=1, description="confidence of every bound")
    claim: Literal["random-guessing"] | None = Field(
        default=None,
        description="a claim by its name, in place of epsilon and delta; random-guessing: epsilon "
        "0 at delta 0, tested on both sides",
    )
    claim_for: Literal["answer", "run"] = Field(
        default="answer",
        description="what epsilon and delta are claimed for: each answer, so that the claim is "
        "composed over the answers of a one_run design, or its whole run",
    )
    estimator: Component = Field(default=Component(kind="e_process"), description="what decides")
    threshold: str | float | None = Field(
        default=None,
        description="a number, split, split:0.3, bonferroni or best; in a one_run design a number, "
        "rank or rank:0.5; none: the score's own rule",
    )
    stop_when_rejected: bool = Field(
        default=False, description="stop collecting once the e-process has rejected the claim"
    )
    simulations: int = Field(
        default=400_000,
        ge=0,
        le=MOST,
        description="simulated outputs, for the curves and for what the e-process learns about the "
        "scale of the noise",
    )
    assume_hit: float = Field(
        default=1.0,
        ge=0,
        le=1,
        description="for the power: probability that the model notices a canary in its context",
    )
    assume_false_alarm: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="for the power: probability that it reports a canary that is not there",
    )

    @property
    def each(self) -> tuple[float, float]:
        """(epsilon, delta) that are claimed for one answer."""
        return (self.epsilon, self.delta) if self.claim is None else (0.0, 0.0)

    @field_validator("assume_hit", "assume_false_alarm", mode="before")
    @classmethod
    def _probability(cls, value: object, info: ValidationInfo) -> object:
        """A number from 0 to 1: no boolean, and no NaN."""
        if isinstance(value, bool | str) or (
            isinstance(value, int | float) and not 0 <= value <= 1
        ):
            raise ValueError(
                f"{info.field_name} is {value!r}; it must be a probability from 0 to 1."
            )
        return value

    @field_validator("confidence", mode="before")
    @classmethod
    def _confidence(cls, value: object) -> object:
        """A percentage is not a probability, and an error probability no confidence."""
        if not isinstance(value, int | float) or 0.5 <= value <= 1 or not 0 < value < 100:
            return value
        meant = value / 100 if value >= 50 else 1 - value / (100 if value > 1 else 1)
        hint = f" Did you mean {meant:g}?" if meant >= LIKELY else ""
        raise ValueError(f"confidence is {value!r}; it must be at least 0.5 and below 1.{hint}")
