"""Build the result of an audit from one pass over its pairs, without a model call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from leakbound.auditing.decide.decide import Assessment, ChannelResult, reach_sentence
from leakbound.auditing.decide.obstacles import Conclusion, state_sentence, unshown_sentence
from leakbound.auditing.design.pairs import Copies
from leakbound.auditing.observe.controls import ControlCheck
from leakbound.auditing.observe.one_pass import OnePass, Tally
from leakbound.auditing.observe.rejections import mu_bound
from leakbound.auditing.observe.reply_separation import Separations
from leakbound.auditing.prepare.prepared import Prepared
from leakbound.auditing.result.audit_result import (
    AuditResult,
    Finding,
    ThresholdKind,
    accuracies_of,
    attack_facts,
    power_of,
    provenance,
)
from leakbound.auditing.result.record import (
    GuaranteeData,
    curves_of,
    path_of,
    show_prompt,
    trial_views,
)
from leakbound.auditing.store.run_store import EvidenceRow
from leakbound.estimators import TrialDesign
from leakbound.models.content import readable
from leakbound.models.model import computation_of
from leakbound.stats import BestOnSameData, Bonferroni, Estimate, Split
from leakbound.stats.curves.curves import rate_at_fpr
from leakbound.stats.power import NO_POWER
from leakbound.tasks import Mechanism, Query, Votes
from leakbound.tasks.facts import facts_in_vain, parts_of

REFUSES_ALL = "judge_refuses_all"


def judge_finding(withheld: Sequence[int], pairs: int) -> Finding:
    """How often a judge withheld an answer, and whether it can judge at all.

    Examples:
        >>> judge_finding((9, 1), 10).code
        'judge_refusals'
        >>> judge_finding((10, 10), 10).code
        'judge_refuses_all'
    """
    inside, outside = withheld
    counted = (
        f"the judge withheld {inside} of {pairs} answers where the canary was in the context, and "
        f"{outside} of {pairs} where it was not"
    )
    if inside + outside < 2 * pairs:
        return Finding("judge_refusals", f"{counted}.")
    return Finding(
        REFUSES_ALL,
        f"{counted}: a judge that refuses every answer cannot judge, so this says nothing of the "
        "defense. Use another judge with --judge-model.",
    )


INFERRED = (
    "the labels of the task were inferred from the private rows and stand in every prompt: what a "
    "label alone reveals is not measured. Name them with --labels."
)
ONE_BUILD = (
    "the bound holds given this one build of the store: what was drawn when it was built, such as "
    "noise of an index, is the same in all trials and may look like a leak. Where the guarantee "
    "rests on such noise, use --design one_run or --design paired."
)
LOW_FPR = (0.1, 0.01, 0.001)
WITHHELD = ("withheld_member", "withheld_nonmember")
FEW = 3  # sampled candidates that may be alike by chance
THRESHOLDS: dict[type[object], ThresholdKind] = {
    Split: "split",
    Bonferroni: "bonferroni",
    BestOnSameData: "best",
}
GatePowers = tuple[tuple[float, float], ...]


def assemble(seen: OnePass, found: Assessment) -> AuditResult:
    parts = _decide(seen, found), _figures(seen, found), _origin(seen)
    result = AuditResult(**{key: value for part in parts for key, value in part.items()})
    result.know_data(seen.prepared.data)
    return result.referenced()


def _decide(seen: OnePass, found: Assessment) -> dict[str, Any]:
    prepared, design, estimator = seen.prepared, seen.design, seen.prepared.estimator
    unused = found.use is not None and found.conclusion.verdict == "no_violation"
    power, guessing = GatePowers(), GatePowers()
    if not (found.slow or unused):  # both are of a score; a leak may show in replies alone
        power = power_of(estimator, design, seen.seen)
        guessing = accuracies_of(estimator, design, seen.seen)
    conclusion = found.conclusion
    shown = power or guessing or unused or conclusion.verdict == "violation"
    exact = found.exact if conclusion.by_exact else None
    return {
        "verdict": conclusion.verdict,
        "reason": conclusion.reason,
        "sentences": _sentences(prepared, conclusion, guessing, found.controls, found.told),
        "claim": design.claim,
        "guarantee": GuaranteeData.of(design.guarantee, design.claim.delta),
        "decided_by": _methods(design, found.found[estimator], exact),
        "estimates": tuple(one for each in found.found.values() for one in each),
        "largest_certifiable": found.largest,
        "power": power,
        "guessing_power": guessing,
        "threshold": THRESHOLDS.get(type(design.rule), "fixed"),
        "controls": found.controls,
        "channels": found.channels,
        "state": found.state,
        "use": found.use,
        "findings": tuple(_findings(seen, found)),
        "warnings": (
            *(() if estimator.anytime else seen.prior.several("paired trials")),
            *_alike(prepared.mechanism, seen.tally),
            *(() if shown else (NO_POWER,)),
        ),
    }


def _figures(seen: OnePass, found: Assessment) -> dict[str, Any]:
    simulated, first = seen.tally.simulated(), seen.first[0]
    both, rule = (simulated.member, simulated.nonmember), seen.design.rule
    known = (one.process for one in seen.observers.values() if one.process is not None)
    process = next(known, None)
    used, prepared = seen.seen, seen.prepared
    return {
        "e_values": None if process is None else path_of(process),
        "profile": seen.profile(),
        "curves": curves_of(*both),
        "low_fpr": tuple(rate_at_fpr(*both, x) for x in LOW_FPR),
        "example_prompt": show_prompt(seen.prepared, first, first.member),
        "trials": () if found.channels else trial_views(seen.prepared, rule, seen.releaser.shown),
        "counts": {
            "pairs": used,
            "tested_pairs": found.tested,
            "model_calls": seen.store.calls(used),
            "answers": sum(seen.tally.answers),
            "unparsable_answers": sum(seen.tally.unreadable),
            "simulated_outputs": sum(one.size for one in both),
            "background_copies": prepared.pairs.copies.count,
            "looks": len(seen.prior),
            **_pairs_of_perfect_attack(seen, found),
            **(dict(zip(WITHHELD, seen.tally.withheld, strict=True)) if seen.tally.judged else {}),
        },
    }


def _pairs_of_perfect_attack(seen: OnePass, found: Assessment) -> dict[str, int]:
    few = found.conclusion.reason == "too_few_trials"
    needed = seen.prepared.estimator.pairs_needed(seen.design) if few else None
    return {} if needed is None else {"pairs_needed": needed}


def _origin(seen: OnePass) -> dict[str, Any]:
    prepared, spec, model = seen.prepared, seen.prepared.spec, seen.prepared.model
    labels = () if prepared.inferred else prepared.task.labels  # those that rows told stay unshown
    computed = computation_of(model, prepared.task.prompt((), Query("")), labels)
    return {
        "name": seen.store.folder.name,
        "claim_source": spec.claim_source,
        "attack": attack_facts(
            prepared.attack, prepared.mechanism.name, prepared.pairs[0].asked.query.calls
        ),
        "handed": prepared.handed,
        "spec": spec.flat(),
        "provenance": provenance(
            seen.store, seen.seen, prepared.data, spec.design.seed,
            model=model.name, model_fingerprint=model.fingerprint,
            manifest=prepared.public.digest, **computed,
        ),
    }  # fmt: skip


def _methods(
    design: TrialDesign, bounds: Sequence[Estimate], exact: Estimate | None
) -> tuple[str, ...]:
    """Methods of what is compared with the claim, and of a bound on mu with a guarantee of mu."""
    if exact is not None:
        return (exact.method,)
    mu = None if design.guarantee_mu is None else mu_bound(bounds)
    return tuple(dict.fromkeys(one.method for one in (bounds[0], mu) if one is not None))


UNUSED = (
    "{kind} inherits {stated}, and overrides or adds code that may make it untrue, so it is not "
    "used and outputs are sampled, which shows fewer leaks. State it in {kind} itself if it holds "
    "({first} = Base.{first})."
)


def _findings(seen: OnePass, found: Assessment) -> Iterator[Finding]:
    prepared = seen.prepared
    for warning in prepared.warnings:
        yield Finding("unsupported_claim", warning)
    if names := facts_in_vain(prepared.mechanism):
        kind, stated = type(prepared.mechanism).__name__, " and ".join(names)
        said = UNUSED.format(kind=kind, stated=stated, first=names[0])
        yield Finding("unused_statement", said)
    if prepared.inferred:
        yield Finding("inferred_labels", INFERRED)
    if sentence := state_sentence(found.state):
        yield Finding("stateful_system", sentence)
    if found.noise is not None and not found.noise.fits:
        said = f"{found.noise}. The exact bounds take the noise as declared."
        yield Finding("noise_misfit", said)
    if prepared.spec.design.layout == "session":
        yield Finding("one_build", ONE_BUILD)
    if prepared.pairs.copies.count:
        yield Finding("worst_case_context", worst_case_sentence(prepared.pairs.copies))
    yield from _unlike(seen)
    if sentence := second_text_sentence(prepared, seen.control_rows):
        yield Finding("second_text_unanswered", sentence)
    yield from _unseen(found.channels)
    if seen.tally.judged:
        yield judge_finding(seen.tally.withheld, seen.seen)


def _sentences(
    prepared: Prepared, conclusion: Conclusion, guessing: GatePowers, controls: ControlCheck,
    told: Separations,
) -> tuple[str, ...]:  # fmt: skip
    verdict, spec = conclusion.verdict, prepared.spec
    open_ = spec.decision.claim is not None and verdict == "no_violation"
    staged = prepared.pairs.staged
    once = spec.design.layout == "session" and verdict != "inconclusive"  # a store built once
    return (
        *conclusion.sentences,
        *((unshown_sentence(guessing),) if open_ else ()),
        *reach_sentence(verdict, controls, told),
        *((ONE_BUILD,) if once else ()),
        *((staged.law,) if staged and staged.law else ()),
    )


def _unlike(seen: OnePass) -> Iterator[Finding]:
    """Do the scores that were audited say what users are answered?"""
    served = seen.releaser.served
    unlike, counted = served.unlike, served.counted
    if unlike:
        yield Finding(
            "answers_unlike_scores",
            f"the answer of {unlike} of {counted} outputs does not have the largest released "
            "count. This audit reads the counts, and says nothing of such answers; audit them with "
            "--access black_box.",
        )


def _unseen(channels: tuple[ChannelResult, ...]) -> Iterator[Finding]:
    blind = (one for one in channels if one.reason == "attack_blind")
    unseen = [one.name for one in blind if not one.controls.shown]
    if unseen:
        yield Finding(
            "unseen_channels",
            "nothing shows that this attack sees the canary in " + ", ".join(unseen) + ": of "
            "these channels the audit says nothing.",
        )


def _alike(mechanism: Mechanism, tally: Tally) -> tuple[str, ...]:
    """Were the public candidates, which are sampled, one and the same text in every context?"""
    sampled = mechanism.sampled_candidates
    if sampled < FEW or not tally.candidates or not tally.alike:
        return ()
    return (
        f"the {sampled} candidate answers to each query, all but one drawn at temperature 1, are "
        "one and the same text: the model may not sample, and then this mechanism can release "
        "nothing else. Ask the endpoint for its temperature (leakbound probe).",
    )


ANSWERED = 0.5  # share of the partitions with the second text that have to say yes to it


def worst_case_sentence(copies: Copies) -> str:
    return (
        "these are worst-case contexts, not typical ones: the canary's text also stands in "
        f"{copies.count} of the {len(copies.parts) - 1} other partitions of both contexts, so "
        "that one vote may decide. A guarantee holds for these contexts too; --background-copies 0 "
        "audits typical ones."
    )


def second_text_sentence(prepared: Prepared, controls: Sequence[EvidenceRow]) -> str | None:
    """Whether voters say yes to the second text of a query alone."""
    query = prepared.attack.query
    if not query.second_text or not controls:
        return None
    there = 0  # partitions, or whole contexts where none are known, that hold that text
    for context in (pair.nonmember.context for pair in prepared.controls):
        parts = parts_of(prepared.mechanism, len(context)) or (tuple(range(len(context))),)
        texts = [readable(row.input) for row in context]
        there += sum(any(query.second_text in texts[at] for at in part) for part in parts)
    yes = sum(row.nonmember.counts[0] for row in controls if isinstance(row.nonmember, Votes))
    if there and yes >= ANSWERED * there:
        return None
    return (
        f"the second text stood in {there} partitions of the control contexts without the canary, "
        f"and {yes} answered yes: this model does not answer a question about two texts, or its "
        "context does not hold the second one. What the audit saw is the canary alone. Use --query "
        "membership with --background-copies, or a model that was trained on such questions."
    )
