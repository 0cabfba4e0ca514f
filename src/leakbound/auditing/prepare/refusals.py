"""What is refused before the first call although each part by itself is fine."""

from __future__ import annotations

from leakbound.attacks import Given
from leakbound.auditing.design.pairs import relation_of
from leakbound.auditing.prepare.build import Handed
from leakbound.auditing.prepare.prepared import AuditParts, Prepared
from leakbound.auditing.prepare.trial_design import cost_of
from leakbound.auditing.spec.audit_spec import AuditSpec
from leakbound.auditing.spec.groups import Design
from leakbound.errors import UsageError
from leakbound.estimators import Estimator
from leakbound.estimators.base import ROUNDING
from leakbound.estimators.random_guessing import RANDOM_GUESSING
from leakbound.estimators.two_sided import two_sided
from leakbound.mechanisms import build_mechanism
from leakbound.mechanisms.parts.single import Undefended
from leakbound.privacy import Gaussian, Guarantee, NonPrivate
from leakbound.systems import SystemMechanism


def unsupported_claim(spec: AuditSpec, cost: Guarantee) -> tuple[str, ...]:
    """What the accountant knows of a claim."""
    epsilon, delta = spec.decision.each
    guaranteed = cost.epsilon(delta)
    if isinstance(cost, NonPrivate) or guaranteed <= epsilon * (1 + ROUNDING):
        return ()
    if spec.decision.claim is not None:
        return (
            f"{cost.describe()} limits by how much outputs may differ with and without a record, "
            "and does not promise that they are the same: random guessing is not what this "
            "mechanism guarantees. Audit what it does with --epsilon in place of --claim.",
        )
    if isinstance(cost, Gaussian):
        return (
            f"the noise in force gives epsilon {guaranteed:.3g} at delta {delta:g}, not the "
            f"claimed {epsilon:g}: the claim is wrong before any trial (the classical formula does "
            "not hold for every epsilon above 1).",
        )
    return (
        f"the declared guarantee, {cost.describe()}, gives epsilon {guaranteed:.3g} at delta "
        f"{delta:g}, which does not support the claimed {epsilon:g}.",
    )


def require_used_counts(design: Design) -> None:
    """Refuse the number of canaries or documents where the design would ignore it."""
    default = Design()
    if design.canaries != default.canaries:
        raise UsageError(
            f"canaries is {design.canaries}, and a {design.layout} design has one canary for each "
            "paired trial; set their number with --pairs, or use --design one_run."
        )
    if design.documents is not None and design.layout == "paired":
        raise UsageError(
            f"documents is {design.documents}, and a paired design has no store to put documents "
            "into; leave --documents out, or use --design session or one_run."
        )


def require_relation(parts: AuditParts) -> None:
    """Contexts must differ as the guarantee says; other relations are not comparable."""
    guarantee, insertion = cost_of(parts), parts.spec.attack.insertion
    relation = relation_of(insertion)
    if not isinstance(guarantee, NonPrivate) and guarantee.relation != relation:
        other = "add" if guarantee.relation == "add_remove" else "replace"
        raise UsageError(
            f"{parts.mechanism.name} is guaranteed under {guarantee.relation}, and insertion "
            f"{insertion} changes contexts by {relation}; use --insertion {other}."
        )


def require_evidence(prepared: Prepared) -> None:
    """Refuse what could give no bound, or could not be kept."""
    shape = prepared.spec.design
    # a mechanism answers one query; a session of a system takes several questions
    asked = prepared.pairs[0].asked.query
    if asked.calls > 1 and not isinstance(prepared.mechanism, SystemMechanism):
        raise UsageError(
            f"the query {prepared.attack.query.name} has {asked.calls} questions, which are asked "
            f"in one session of a system, and {prepared.mechanism.name} is a mechanism, which "
            "answers one; use --query mba or s2, or give a system with --system."
        )
    if shape.answers > 1:
        # copies of one answer tell no more than it does, and the claim would be that of them all
        count, mechanism = prepared.spec.design.answers, prepared.mechanism
        if prepared.attack.query.free:
            raise UsageError(
                "a free answer is released once; use --answers 1, or a query with given answers."
            )
        asked_once = isinstance(mechanism, SystemMechanism | Undefended)
        if asked_once or mechanism.noise_in_collect(prepared.task, prepared.pairs[0].asked.query):
            raise UsageError(
                f"answers is {count}, and {mechanism.name} is asked once in each trial: its "
                f"further answers would be copies of the first, held against {count} times the "
                "claim. Use --answers 1."
            )
    if shape.store_text == "none":
        if prepared.spec.attack.channels:
            raise UsageError(
                "what goes through a channel is a free text, and store_text is none; use "
                "--store-text canary_only, which keeps the canary's words of it."
            )
        if prepared.attack.query.free:
            raise UsageError(
                f"the answer to {prepared.attack.query.name} is a free text, and store_text is "
                "none; use --store-text canary_only, which keeps the canary's words of it."
            )
        if isinstance(prepared.attack.canary, Given):
            raise UsageError(
                "a run keeps its configuration, which holds the text of the canary 'given', and "
                "store_text is none; use --store-text canary_only, or another canary."
            )


ANY = (1.0, 1e-5), (4.0, 1e-5)  # any two: noise that is calibrated to a claim differs between them


def of_named_claim(spec: AuditSpec, estimator: Estimator, handed: Handed) -> Estimator:
    """The estimator that decides about a claim that has a name."""
    if spec.decision.claim is None:
        return estimator
    require_alone(spec, handed)
    return two_sided(estimator)


def require_alone(spec: AuditSpec, handed: Handed) -> None:
    """Refuse settings that mean nothing beside a claim that has a name."""
    # beside this claim, epsilon and delta are what noise is calibrated to, and nothing else
    stated, named = spec.decision.model_fields_set & {"epsilon", "delta"}, spec.system.mechanism
    calibrated = handed.mechanism is None and spec.system.address is None and _calibrate(spec)
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


def _calibrate(spec: AuditSpec) -> bool:
    """Does the noise of the mechanism depend on epsilon?"""
    named = spec.system.mechanism
    one, other = (build_mechanism(named.kind, named.options, *claim) for claim in ANY)
    return one.to_config() != other.to_config()
