"""Build the result of an audit from one pass over its pairs, without a model call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from leakbound.attacks import EitherText, ScoredAttack
from leakbound.auditing.decide.channel_verdicts import ChannelResult, channel_results
from leakbound.auditing.decide.guessing import unshown_sentence
from leakbound.auditing.decide.largest_certifiable import largest_of, learned, reach_sentence
from leakbound.auditing.decide.obstacles import (
    noise_obstacles,
    obstacles,
    only_in_bulk,
    state_sentence,
    unread,
    untested_channels,
)
from leakbound.auditing.decide.verdict import Conclusion, Verdict, above_zero, conclude
from leakbound.auditing.design.pairs import Copies
from leakbound.auditing.observe.controls import ControlCheck
from leakbound.auditing.observe.one_pass import OnePass, Tally, withheld_by
from leakbound.auditing.observe.rejections import mu_bound
from leakbound.auditing.observe.reply_separation import Told, tells_alone
from leakbound.auditing.observe.state_check import StateCheck
from leakbound.auditing.prepare.prepared import Prepared
from leakbound.auditing.result.audit_result import (
    AuditResult,
    Finding,
    GuaranteeData,
    ThresholdKind,
    accuracies_of,
    power_of,
    provenance,
)
from leakbound.auditing.result.curves import EValuePath, curves_of, path_of
from leakbound.auditing.result.judge_refusals import judge_finding
from leakbound.auditing.result.summary import read_scores
from leakbound.auditing.result.trial_views import shown_prompt, trial_views
from leakbound.auditing.store.commitments import commitment_of
from leakbound.auditing.store.folder import DIGITS, key_id, keyed
from leakbound.auditing.store.run_store import EvidenceRow
from leakbound.estimators import Estimator, PairedScores, TrialDesign
from leakbound.estimators.base import exceeds
from leakbound.estimators.by_channel import ChannelEValues
from leakbound.estimators.e_process import EValues
from leakbound.estimators.two_sided import TwoSidedEValues
from leakbound.models.content import readable
from leakbound.models.wrappers import computation_of
from leakbound.stats import BestOnSameData, Bonferroni, BoundReading, Estimate, NoiseFit, Split
from leakbound.stats.low_fpr import rate_at_fpr
from leakbound.stats.power import NO_POWER
from leakbound.tasks import Context, Mechanism, Query, Votes

INFERRED = (
    "the labels of the task were inferred from the private rows and stand in every prompt: what a "
    "label alone reveals is not measured. Name them with --labels."
)
ONE_BUILD = (
    "the bound holds given this one build of the store: what was drawn when it was built, such as "
    "noise of an index, is the same in all trials and may look like a leak. Where the guarantee "
    "rests on such noise, use --design one_run or --design paired."
)
SEEN = ControlCheck(0, 0.0, single=0.0)  # of a channel, whose own controls are compared apart
LOW_FPR = (0.1, 0.01, 0.001)
FEW = 3  # sampled candidates that may be alike by chance
GatePowers = tuple[tuple[float, float], ...]
Found = Mapping[Estimator, tuple[Estimate, ...]]


def assemble(seen: OnePass, calls: int) -> AuditResult:
    """The result of the pairs that a pass has seen."""
    prepared, design, estimator = seen.prepared, seen.design, seen.prepared.estimator
    found, told = seen.estimates(), seen.told.found()
    found[estimator] = bounds = _read(estimator, found)
    tested = estimator.tested_pairs(design, seen.seen)
    controls, state, noise = seen.controls(), seen.state(), seen.noise_fit()
    largest, above = largest_of(seen, controls, told, bounds), above_zero(bounds)
    against = (
        *noise_obstacles(design, estimator, found, noise),
        *obstacles(prepared.attack, seen.tally, controls, state, above),
        *unread(told, estimator, design.replies, exceeds(largest, design)),
        *untested_channels(prepared.spec.attack.channels, design.channels, seen.tally.channels),
        *only_in_bulk(prepared.attack, controls, tells_alone(told)),
    )
    slow = tells_alone(told) or learned(seen, controls)
    exact = _exact(found)
    conclusion = conclude(design, estimator, bounds, exact, tested, largest, against, slow)
    channels = _channels(seen, tested, state, told)
    simulated, (power, guessing) = seen.tally.simulated(), _powers(seen, slow)
    return AuditResult(
        name=seen.store.folder.name,
        verdict=conclusion.verdict,
        reason=conclusion.reason,
        sentences=_sentences(prepared, conclusion, guessing, controls, told),
        claim=design.claim,
        claim_source=prepared.spec.claim_source,
        guarantee=GuaranteeData.of(design.guarantee, design.claim.delta),
        attack=_describe(prepared.attack, prepared.mechanism),
        counts=_counts(seen, tested, calls, simulated),
        decided_by=_deciding(design, bounds, exact if conclusion.by_exact else None),
        estimates=tuple(one for each in found.values() for one in each),
        largest_certifiable=largest,
        power=power,
        guessing_power=guessing,
        threshold=_threshold(design),
        e_values=_path(seen),
        profile=seen.profile(),
        curves=curves_of(simulated.member, simulated.nonmember),
        low_fpr=tuple(rate_at_fpr(simulated.member, simulated.nonmember, x) for x in LOW_FPR),
        example_prompt=shown_prompt(prepared, seen.first[0], seen.first[0].member),
        trials=() if channels else trial_views(prepared, design.rule, seen.shown),
        controls=controls,
        channels=channels,
        state=state,
        findings=(
            *_findings(prepared, state, noise),
            *_unlike(seen),
            *_second_text(seen),
            *_unseen(channels),
            *_judged(seen),
        ),
        warnings=(
            *(() if estimator.anytime else seen.prior.several("paired trials")),
            *_alike(prepared.mechanism, seen.tally),
            *(() if power or guessing else (NO_POWER,)),
        ),
        handed=prepared.handed,
        spec=prepared.spec.flat(),
        provenance=_provenance(seen),
    ).referenced()


def _computation(prepared: Prepared) -> dict[str, str]:
    """How the model computes; labels that rows have told are not shown."""
    task = prepared.task
    labels = () if prepared.inferred else task.labels
    return computation_of(prepared.model, task.prompt((), Query("")), labels)


def _exact(found: Found) -> Estimate | None:
    every = (one for each in found.values() for one in each)
    return next((e for e in every if e.method == "exact" and e.kind == "lower_bound"), None)


def _read(estimator: Estimator, found: Found) -> tuple[Estimate, ...]:
    """The bounds that decide, with the counts of what they were read from."""
    bounds, scores = found[estimator], read_scores(one for each in found.values() for one in each)
    other = scores if "trials" in estimator.reads else BoundReading("distribution")
    read = bounds[0].reading or other
    read = scores if read.of == "score" and not read.compares else read
    return tuple(replace(one, reading=read) for one in bounds)


def _deciding(
    design: TrialDesign, bounds: Sequence[Estimate], exact: Estimate | None
) -> tuple[str, ...]:
    """Methods of what is compared with the claim, and of a bound on mu with a guarantee of mu."""
    if exact is not None:
        return (exact.method,)
    mu = None if design.guarantee_mu is None else mu_bound(bounds)
    return tuple(dict.fromkeys(one.method for one in (bounds[0], mu) if one is not None))


def _threshold(design: TrialDesign) -> ThresholdKind:
    if isinstance(design.rule, Split):
        return "split"
    if isinstance(design.rule, Bonferroni):
        return "bonferroni"
    return "best" if isinstance(design.rule, BestOnSameData) else "fixed"


def _path(seen: OnePass) -> EValuePath | None:
    every = seen.observers.values()
    kinds = EValues | ChannelEValues | TwoSidedEValues
    known = (one.process for one in every if isinstance(one, kinds))
    process = next(known, None)
    return None if process is None else path_of(process)


def _findings(
    prepared: Prepared, state: StateCheck | None, noise: NoiseFit | None
) -> Iterator[Finding]:
    """What was found beside the verdict."""
    for warning in prepared.warnings:
        yield Finding("unsupported_claim", warning)
    if prepared.inferred:
        yield Finding("inferred_labels", INFERRED)
    if sentence := state_sentence(state):
        yield Finding("stateful_system", sentence)
    if noise is not None and not noise.fits:
        yield Finding("noise_misfit", f"{noise}. The exact bounds take the noise as declared.")
    if prepared.spec.design.layout == "session":
        yield Finding("one_build", ONE_BUILD)
    if prepared.pairs.copies.count:
        yield Finding("worst_case_context", worst_case_sentence(prepared.pairs.copies))


def _sentences(
    prepared: Prepared, conclusion: Conclusion, guessing: GatePowers, controls: ControlCheck,
    told: Told,
) -> tuple[str, ...]:  # fmt: skip
    """The verdict in sentences, with what it rests on."""
    return (
        *conclusion.sentences,
        *_unshown(prepared, conclusion.verdict, guessing),
        *reach_sentence(conclusion.verdict, controls, told),
        *_given_build(prepared, conclusion.verdict),
    )


def _given_build(prepared: Prepared, verdict: Verdict) -> Iterator[str]:
    """What a verdict about a store rests on that was built once."""
    if prepared.spec.design.layout == "session" and verdict != "inconclusive":
        yield ONE_BUILD


def _unshown(
    prepared: Prepared, verdict: Verdict, powers: tuple[tuple[float, float], ...]
) -> Iterator[str]:
    """What a test that has not rejected random guessing leaves open."""
    if prepared.spec.decision.claim is not None and verdict == "no_violation":
        yield unshown_sentence(powers)


def _unlike(seen: OnePass) -> Iterator[Finding]:
    """Do the scores that were audited say what users are answered?"""
    unlike, counted = seen.answers_unlike_scores()
    if unlike:
        yield Finding(
            "answers_unlike_scores",
            f"the answer of {unlike} of {counted} outputs does not have the largest released "
            "count. This audit reads the counts, and says nothing of such answers; audit them with "
            "--access black_box.",
        )


def _second_text(seen: OnePass) -> Iterator[Finding]:
    """Is the second text of a query answered?"""
    if sentence := second_text_sentence(seen.prepared, seen.control_rows):
        yield Finding("second_text_unanswered", sentence)


def _channels(
    seen: OnePass, tested: int, state: StateCheck | None, told: Told
) -> tuple[ChannelResult, ...]:
    """What is said of each channel; nothing where replies are read as a whole."""
    observer = seen.observers[seen.prepared.estimator]
    if not isinstance(observer, ChannelEValues):
        return ()
    attack = seen.prepared.attack
    # the answers that could not be read are a matter of the whole verdict
    against = tuple(one for one in obstacles(attack, Tally(), SEEN, state))
    checks, batch = seen.channel_controls(), seen.control_batch()
    return channel_results(seen.design, observer, checks, batch, tested, attack, against, told)


def _powers(seen: OnePass, slow: bool) -> tuple[GatePowers, GatePowers]:
    """Against the claim, and against random guessing; none where a leak may show in replies alone,
    since both are those of a score."""
    if slow:
        return (), ()
    estimator, design = seen.prepared.estimator, seen.design
    return power_of(estimator, design, seen.seen), accuracies_of(estimator, design, seen.seen)


def _unseen(channels: tuple[ChannelResult, ...]) -> Iterator[Finding]:
    """Channels in which not even a context full of the canary was seen."""
    unseen = [one.name for one in channels if one.reason == "attack_blind"]
    if unseen:
        yield Finding(
            "unseen_channels",
            "nothing shows that this attack sees the canary in " + ", ".join(unseen) + ": of "
            "these channels the audit says nothing.",
        )


def _provenance(seen: OnePass) -> dict[str, str]:
    """Versions and fingerprints, and the head of the chain of stored trials."""
    prepared, folder, used = seen.prepared, seen.store.folder, seen.seen
    return provenance(
        model=prepared.model.name,
        model_fingerprint=prepared.model.fingerprint,
        data_fingerprint=keyed(folder, prepared.data)[:DIGITS],
        data_key=key_id(folder),
        seed=str(prepared.spec.design.seed),
        evidence=keyed(folder, seen.store.head(used)),
        manifest=prepared.public.digest,
        **_computation(prepared),
        **commitment_of(folder),
    )


def _counts(seen: OnePass, tested: int, calls: int, simulated: PairedScores) -> dict[str, int]:
    """What the record counts."""
    used, prepared = seen.seen, seen.prepared
    return {
        "pairs": used,
        "tested_pairs": tested,
        "model_calls": calls,
        "answers": sum(seen.tally.answers),
        "unparsable_answers": sum(seen.tally.unreadable),
        "simulated_outputs": int(simulated.member.size + simulated.nonmember.size),
        "background_copies": prepared.pairs.copies.count,
        "looks": len(seen.prior),
        **_withheld(seen),
    }


def _withheld(seen: OnePass) -> dict[str, int]:
    """Answers that a judge withheld, where one judges."""
    if withheld_by(seen.prepared.mechanism) is None:
        return {}
    return dict(zip(("withheld_member", "withheld_nonmember"), seen.tally.withheld, strict=True))


def _judged(seen: OnePass) -> Iterator[Finding]:
    """How often a judge withheld an answer, and whether it can judge."""
    if withheld_by(seen.prepared.mechanism) is not None:
        yield judge_finding(seen.tally.withheld, seen.seen)


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


def _describe(attack: ScoredAttack, mechanism: Mechanism) -> dict[str, str]:
    return {
        "mechanism": mechanism.name,
        "canary": attack.canary.name,
        "query": attack.query.name,
        "score": attack.score.name,
        "access": attack.access,
        "insertion": attack.insertion,
    }


ANSWERED = 0.5  # share of the partitions with the second text that have to say yes to it


def worst_case_sentence(copies: Copies) -> str:
    """What a reader should know of contexts with copies."""
    return (
        "these are worst-case contexts, not typical ones: the canary's text also stands in "
        f"{copies.count} of the {len(copies.parts) - 1} other partitions of both contexts, so "
        "that one vote may decide. A guarantee holds for these contexts too; --background-copies 0 "
        "audits typical ones."
    )


def second_text_sentence(prepared: Prepared, controls: Sequence[EvidenceRow]) -> str | None:
    """Whether voters say yes to the second text of a query alone."""
    query = prepared.attack.query
    if not isinstance(query, EitherText) or not controls:
        return None
    pairs = prepared.controls
    there = sum(_holding(prepared, pair.nonmember.context, query.other) for pair in pairs)
    yes = sum(row.nonmember.counts[0] for row in controls if isinstance(row.nonmember, Votes))
    if there and yes >= ANSWERED * there:
        return None
    return (
        f"the second text stood in {there} partitions of the control contexts without the canary, "
        f"and {yes} answered yes: this model does not answer a question about two texts, or its "
        "context does not hold the second one. What the audit saw is the canary alone. Use --query "
        "membership with --background-copies, or a model that was trained on such questions."
    )


def _holding(prepared: Prepared, context: Context, text: str) -> int:
    """Partitions, or whole contexts where none are known, that hold a text."""
    parts = prepared.mechanism.disjoint_parts(len(context)) or (tuple(range(len(context))),)
    return sum(any(text in readable(context[at].input) for at in part) for part in parts)
