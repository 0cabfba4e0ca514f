"""The verdict of one run: its bound against the claim for the whole run."""

from __future__ import annotations

from collections.abc import Iterator

from leakbound.auditing.controls import ControlCheck
from leakbound.auditing.guessing import above_guessing, unshown_sentence
from leakbound.auditing.obstacles import lost_controls
from leakbound.auditing.one_run.design import FEWEST
from leakbound.auditing.one_run.plan import accuracies_of_run
from leakbound.auditing.one_run.prepare import PreparedOneRun
from leakbound.auditing.verdict import (
    Claim,
    Conclusion,
    Obstacle,
    above_zero,
    sees_something,
    sighted,
)
from leakbound.privacy import NonPrivate
from leakbound.stats import Estimate, beside, cut

UNREADABLE = 0.05  # share of answers that could not be read from which an attack counts as blind
ROUNDING = 1e-6  # a composed guarantee equals the composed claim but for this share


def conclude_one_run(
    prepared: PreparedOneRun, claim: Claim, bound: Estimate, largest: Estimate,
    controls: ControlCheck, unreadable: int,
) -> Conclusion:  # fmt: skip
    """Compare the bound with the claim for all answers of the run, and with nothing else."""
    found = tuple(_rejected(prepared, claim, bound))
    if found:
        return Conclusion("violation", None, found)
    shown = above_zero([bound])
    against = sighted(
        shown,
        (*_blind(prepared, controls, unreadable, shown), *_few(prepared, claim, largest)),
    )
    if against:
        return Conclusion("inconclusive", against[0][0], tuple(why for _, why in against))
    sentence = (
        f"no bound exceeds {_named(prepared, claim)}; {len(prepared.design.canaries)} canaries "
        f"could have certified up to epsilon {cut(largest.epsilon)}. This attack found no "
        "violation; another might."
    )
    powers = [(at, power.safe) for at, power in accuracies_of_run(prepared)]
    unshown = (unshown_sentence(powers),) if prepared.spec.decision.claim is not None else ()
    return Conclusion("no_violation", None, (sentence, *unshown))


def _named(prepared: PreparedOneRun, claim: Claim) -> str:
    """The claim in words."""
    decision = prepared.spec.decision
    if decision.claim is not None:
        return "epsilon 0, which is random guessing"
    if decision.claim_for == "run":
        return f"epsilon {claim.epsilon:g}, which is claimed for the whole run"
    return (
        f"the claim of epsilon {decision.epsilon:g} for an answer, which is {claim.epsilon:g} for "
        f"the {prepared.answers} answers of the run"
    )


def _rejected(prepared: PreparedOneRun, claim: Claim, bound: Estimate) -> Iterator[str]:
    epsilon = bound.epsilon or 0.0
    error = 1 - (bound.confidence or 0)
    chance = f"with a probability of at most {error:.2g}"
    if epsilon > claim.epsilon and prepared.spec.decision.claim is not None:
        what = "the answers of the run tell which canaries were planted"
        yield above_guessing(epsilon, bound.method, error, what)
    elif epsilon > claim.epsilon:
        shown, _ = beside(epsilon, claim.epsilon)
        yield (
            f"the bound {shown} of the whole run exceeds {_named(prepared, claim)}: a system that "
            f"satisfies the claim shows this {chance}."
        )
    if isinstance(prepared.cost, NonPrivate):
        return
    stated = prepared.guarantee.epsilon(claim.delta)
    if epsilon > stated * (1 + ROUNDING):
        shown, limit = beside(epsilon, stated)
        yield (
            f"the bound {shown} of the whole run exceeds epsilon {limit} at delta "
            f"{claim.delta:g}, which the declared guarantee ({prepared.cost.describe()}) states "
            f"for {prepared.answers} answers: the implementation does not satisfy its own "
            "guarantee."
        )


def _few(prepared: PreparedOneRun, claim: Claim, largest: Estimate) -> Iterator[Obstacle]:
    if (largest.epsilon or 0.0) > claim.epsilon:
        return
    advice, decision = "Use more canaries.", prepared.spec.decision
    if decision.claim_for == "answer" and decision.claim is None:
        advice = (
            "For a claim for single answers use --design session; for one for the whole run add "
            "--claim-for run."
        )
    yield (
        "too_few_trials",
        f"{len(prepared.design.canaries)} canaries can certify at most epsilon "
        f"{cut(largest.epsilon)} of the whole run, even with a perfect attack, so that no bound "
        f"can exceed {_named(prepared, claim)}. {advice}",
    )


def _blind(
    prepared: PreparedOneRun, controls: ControlCheck, unreadable: int, bound: float
) -> Iterator[Obstacle]:
    if unreadable > UNREADABLE * prepared.answers:
        yield (
            "unreadable_answers",
            f"{unreadable} of {prepared.answers} answers could not be read as an answer to the "
            "query, so this attack could not see a leak; use --query recall, which reads any text.",
        )
    if controls.seen:
        yield from lost_controls(controls)
        if not prepared.design.late and not controls.exempt:
            yield (
                "attack_blind",
                "so few control canaries cannot be asked about at both ends of the run, so nothing "
                f"shows that the attack sees anything to the end; use --controls {2 * FEWEST} or "
                "more.",
            )
        return
    if bound > 0:
        yield sees_something(bound)
        return
    if controls.p_value is None:
        yield (
            "attack_blind",
            "no control canary was asked about, so nothing shows that this attack sees anything; "
            "leave controls=0 out.",
        )
        return
    other = "lookup" if prepared.attack.query.free else "recall"
    yield (
        "attack_blind",
        "nothing shows that this attack sees a canary: control canaries that were planted did not "
        f"clearly score higher than those that were not ({controls.pairs} of each, p = "
        f"{controls.p_value:.2g}). Ask about more --controls; where they show no more, try --query "
        f"{other}.",
    )
