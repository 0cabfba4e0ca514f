"""The record of an audit from its evidence: no model is asked here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from leakbound.attacks import Attack, Score
from leakbound.auditing.design import Pair
from leakbound.auditing.estimate import each_confidence, estimate
from leakbound.auditing.prepare import Prepared
from leakbound.auditing.release import Trials, learnt, simulate, trials
from leakbound.auditing.result import AuditResult, GuaranteeData, curves, provenance, wealth
from leakbound.auditing.store import EvidenceRow
from leakbound.auditing.verdict import ceiling, decide
from leakbound.estimators.votes import clean_estimates, profile, vote_reach
from leakbound.models.content import measured, readable, without
from leakbound.stats import Estimate
from leakbound.tasks import Example, Job, Mechanism, Vector, Votes

__all__ = ["assemble", "drawn"]

FEW = 3  # candidates that may be alike by chance


def assemble(
    prepared: Prepared, evidence: Iterable[EvidenceRow], used: int, calls: int
) -> AuditResult:
    """Releases, estimates, verdict, curves of the first `used` pairs; `evidence` holds them in
    order and may be read again.
    """
    spec, claim, pairs = prepared.spec, prepared.claim, prepared.pairs[:used]
    score = learnt(
        prepared.task,
        prepared.mechanism,
        prepared.attack.score,
        pairs,
        evidence,
        prepared.pilot,
        spec.seed,
    )
    simulated = drawn(prepared, score, pairs, evidence)
    process = prepared.bet.play(simulated.part(slice(prepared.pilot, None)))
    bets = prepared.bet.estimates(process)
    estimates = _estimates(prepared, score, pairs, evidence, simulated, bets)
    reach = _reach(prepared, estimates, used)
    decision = decide(claim, prepared.guarantee, estimates, used, reach, spec.estimator)
    return AuditResult(
        name=prepared.name, spec=spec.model_dump(), claim=claim,
        guarantee=GuaranteeData.of(prepared.guarantee, claim.delta),
        attack=_describe(prepared.attack, prepared.mechanism), counts=_counts(evidence, used, calls, simulated),
        estimates=tuple(estimates), decision=decision, wealth=wealth(process),
        profile=profile(prepared.mechanism, evidence, spec.epsilon) if spec.answers == 1 else None,
        curves=curves(simulated.member, simulated.nonmember), example_prompt=_example(prepared),
        warnings=(*prepared.warnings, *_blind(simulated), *_alike(prepared.mechanism, evidence)),
        provenance=provenance(
            model=prepared.model.name, model_fingerprint=prepared.model.fingerprint, data_fingerprint=prepared.data,
            seed=str(spec.seed),
        ),
    )  # fmt: skip


def drawn(
    prepared: Prepared, score: Score, pairs: Sequence[Pair], evidence: Iterable[EvidenceRow]
) -> Trials:
    """Simulated releases of some collected pairs; as many a pair whether all pairs are in or not."""
    noisy = (
        prepared.mechanism.needs and "white_box" in prepared.mechanism.access
    )  # a system of the user's is asked once
    draws = prepared.spec.simulations // (2 * len(prepared.pairs)) if noisy else 1
    return simulate(
        prepared.task,
        prepared.mechanism,
        score,
        pairs,
        evidence,
        draws,
        prepared.spec.seed,
        prepared.spec.answers,
    )


def _estimates(
    prepared: Prepared, score: Score, pairs: Sequence[Pair], evidence: Iterable[EvidenceRow], simulated: Trials,
    bets: list[Estimate],
) -> list[Estimate]:  # fmt: skip
    """The bet first, then bounds by a threshold on one release a world, then bounds from clean
    votes and exact losses.
    """
    spec, task, mechanism = prepared.spec, prepared.task, prepared.mechanism
    tested = trials(task, mechanism, score, pairs, evidence, spec.seed, spec.answers)
    counted = estimate(
        simulated.part,
        tested,
        prepared.rule,
        prepared.claim,
        spec.confidence,
        prepared.bet.levels,
        prepared.pilot,
    )
    if spec.answers == 1:  # votes and laws speak of one release
        counted += clean_estimates(task, mechanism, pairs, evidence, spec.delta, spec.confidence)
    return [*bets, *(counted if len(pairs) == len(prepared.pairs) else map(_unbounded, counted))]


def _unbounded(found: Estimate) -> Estimate:
    """What is left of a bound for a number of pairs fixed beforehand, where what was seen has ended
    the audit.
    """
    if found.method == "exact" or found.kind == "point_estimate":
        return found
    note = "no bound: the audit ended early on what it saw, and this method needs a number of pairs that is fixed beforehand"
    return replace(
        found, kind="point_estimate", confidence=None, assumptions=(note, *found.assumptions)
    )


def _reach(prepared: Prepared, estimates: list[Estimate], pairs: int) -> tuple[float, float]:
    """What the deciding estimator could have certified."""
    spec = prepared.spec
    if spec.estimator == "e_process":
        return prepared.bet.ceiling(pairs - prepared.pilot)
    if spec.estimator == "clopper_pearson":
        cells = next(e for e in estimates if e.method == "clopper_pearson").counts
        each = each_confidence(prepared.rule, prepared.bet.levels, spec.confidence)
        return ceiling(sum(cells.values()) // 2, prepared.claim.delta, each)
    sigma, votes = prepared.mechanism.sigma, prepared.spec.partitions  # type: ignore[attr-defined]
    return vote_reach(spec.estimator, sigma, votes, pairs, spec.delta, spec.confidence)


def _blind(simulated: Trials) -> tuple[str, ...]:
    """Did the attack see anything at all?"""
    low = min(simulated.member.min(), simulated.nonmember.min())
    if low < max(simulated.member.max(), simulated.nonmember.max()):
        return ()
    return (
        "every release had the same score, with the canary and without it: this attack saw "
        "nothing at all. Either the system "
        "gives one answer to such a query, or its answers cannot be read; try another query or "
        "score.",
    )


def _alike(mechanism: Mechanism, evidence: Iterable[EvidenceRow]) -> tuple[str, ...]:
    """Were the public candidates, which are sampled, one and the same text in every world?"""
    drawn = getattr(mechanism, "candidates", 0)
    found = [
        c.choices for row in evidence for c in (row.member, row.nonmember) if isinstance(c, Vector)
    ]
    if drawn < FEW or not found or any(len(choices) > 1 for choices in found):
        return ()
    return (
        f"the {drawn} candidate answers to each query, all but one drawn at temperature 1, are "
        "one and the same text: the model may "
        "not sample, and then this mechanism can release nothing else. Ask the endpoint for its "
        "temperature (leakbound probe).",
    )


def _describe(attack: Attack, mechanism: Mechanism) -> dict[str, str]:
    return {
        "mechanism": mechanism.name, "canary": attack.canary.name, "query": attack.query.name, "score": attack.score.name,
        "access": attack.access, "insertion": attack.insertion,
    }  # fmt: skip


def _counts(
    evidence: Iterable[EvidenceRow], used: int, calls: int, simulated: Trials
) -> dict[str, int]:
    unread = answers = 0
    for aggregate in (aggregate for row in evidence for aggregate in (row.member, row.nonmember)):
        if isinstance(aggregate, Votes):
            unread, answers = unread + aggregate.counts[-1], answers + sum(aggregate.counts)
    return {
        "pairs": used, "model_calls": calls, "answers": answers, "unparsable_answers": unread,
        "simulated_outputs": int(simulated.member.size + simulated.nonmember.size),
    }  # fmt: skip


def _example(prepared: Prepared) -> str:
    """The prompt that shows the canary of the first pair, with private text as `store_text` allows."""
    pair, keep = prepared.pairs[0], prepared.spec.store_text
    job = pair.member if keep == "all" else _redacted(pair, keep == "canary_only")
    requests = prepared.mechanism.requests(prepared.task, job, pair.draw)
    if not requests:
        return (
            f"(context of {len(job.context)} examples)\n{readable(job.query.text, keep == 'all')}"
        )
    return readable(requests[pair.position % len(requests)].prompt, keep == "all")  # type: ignore[attr-defined]


def _redacted(pair: Pair, keep_canary: bool) -> Job:
    rows = []
    for i, row in enumerate(pair.member.context):
        shown = keep_canary and i == pair.position and row == pair.canary
        rows.append(row if shown else Example(f"[private, {measured(row.input)}]", "[private]"))
    query = pair.member.query
    if not keep_canary:
        query = type(query)(without(query.text, pair.canary.input, "[canary]"), query.labels)
    return Job(tuple(rows), query)
