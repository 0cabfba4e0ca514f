"""The claim of random guessing in an audit: who may test it, and what a test of it has shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from leakbound.errors import UsageError
from leakbound.estimators import Estimator
from leakbound.estimators.random_guessing import RANDOM_GUESSING
from leakbound.estimators.two_sided import two_sided
from leakbound.mechanisms import build_mechanism
from leakbound.stats import beside, cut

if TYPE_CHECKING:
    from leakbound.auditing.build import Handed
    from leakbound.auditing.spec import AuditSpec

UNREJECTED = "Random guessing is not rejected, which does not show that no attack does better"
GOOD = 0.8  # power from which a plan is usually called sufficient
ANY = (1.0, 1e-5), (4.0, 1e-5)  # any two: noise that is calibrated to a claim differs between them


def of_named_claim(spec: AuditSpec, estimator: Estimator, handed: Handed) -> Estimator:
    """The estimator that decides about a claim that has a name."""
    if spec.decision.claim is None:
        return estimator
    require_alone(spec, handed)
    return two_sided(estimator)


def require_alone(spec: AuditSpec, handed: Handed) -> None:
    """Refuse settings that mean nothing beside a claim that has a name."""
    _require_epsilon_of_noise(spec, handed)
    decision = spec.decision
    if spec.attack.channels:
        raise UsageError(
            f"channels are tested against an epsilon, and the claim is {RANDOM_GUESSING}; leave "
            "--channel out, or state --epsilon in place of --claim."
        )
    if (decision.assume_hit, decision.assume_false_alarm) != (1.0, 0.0):
        raise UsageError(
            "the power of a test of random guessing is stated by the accuracy of an attack, so "
            "nothing reads assume_hit and assume_false_alarm; leave them out, or --pilot."
        )


def _require_epsilon_of_noise(spec: AuditSpec, handed: Handed) -> None:
    """Beside this claim, epsilon and delta are what noise is calibrated to, and nothing else."""
    stated, named = spec.decision.model_fields_set & {"epsilon", "delta"}, spec.system.mechanism
    calibrated = handed.mechanism is None and spec.system.address is None and _calibrated(spec)
    if calibrated and "epsilon" not in stated:
        raise UsageError(
            f"the noise of {named.kind} is calibrated to epsilon, and the claim {RANDOM_GUESSING} "
            "says nothing about it; add --epsilon, which then calibrates the noise alone, or give "
            "the noise as an option of the mechanism."
        )
    if stated and not calibrated:
        raise UsageError(
            f"the claim {RANDOM_GUESSING} is epsilon 0 at delta 0, and {sorted(stated)[0]} is "
            "given too; leave one of them out."
        )


def _calibrated(spec: AuditSpec) -> bool:
    """Does the noise of the mechanism depend on epsilon?"""
    named = spec.system.mechanism
    one, other = (build_mechanism(named.kind, named.options, *claim) for claim in ANY)
    return one.to_config() != other.to_config()


def above_guessing(
    epsilon: float, method: str, error: float, found: str = "the attack tells the contexts apart"
) -> str:
    """That random guessing is rejected."""
    return (
        f"{found}, as random guessing does not: epsilon is at least {beside(epsilon, 0.0, 3)[0]} "
        f"({method}), and not 0. A system whose answers tell nothing shows this, on either side, "
        f"with a probability of at most {error:.2g}."
    )


def unshown_sentence(powers: Sequence[tuple[float, float]]) -> str:
    """What a test that has not rejected random guessing leaves open."""
    if not powers:
        return f"{UNREJECTED}: the power of this test is not known for this design."
    weak = [row for row in powers if row[1] < GOOD]
    strong = [row for row in powers if row[1] >= GOOD]
    told = [_chance(*row) for row in (*weak[-1:], *strong[:1])]
    return f"{UNREJECTED}: so many trials reject {', and '.join(told)}."


def _chance(accuracy: float, power: float) -> str:
    return (
        f"an attack that is right {accuracy:.0%} of the time with a probability of at least "
        f"{cut(power)}"
    )
