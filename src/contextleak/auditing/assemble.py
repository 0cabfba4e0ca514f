"""The record of an audit from its evidence: no model is asked here."""

from __future__ import annotations

from contextleak.attacks import Attack, Score
from contextleak.auditing.design import Pair
from contextleak.auditing.estimate import estimate
from contextleak.auditing.prepare import Prepared
from contextleak.auditing.record import AuditRecord, GuaranteeData, curves, provenance, wealth
from contextleak.auditing.release import Trials, learnt, simulate, trials
from contextleak.auditing.store import EvidenceRow
from contextleak.auditing.verdict import Claim, ceiling, decide
from contextleak.auditing.votes import clean_estimates, profile, vote_reach
from contextleak.icl import Exemplar, Job, Mechanism, Votes
from contextleak.stats import EProcess, Estimate

__all__ = ["assemble", "drawn", "played"]


def assemble(prepared: Prepared, evidence: list[EvidenceRow], calls: int) -> AuditRecord:
    """Releases, estimates, verdict, curves."""
    spec, claim = prepared.spec, prepared.claim
    simulated = drawn(prepared, evidence)
    process = played(prepared, simulated)
    estimates = _estimates(prepared, evidence, simulated, claim, prepared.bet.estimates(process))
    reach = _reach(prepared, estimates, len(evidence))
    decision = decide(claim, prepared.guarantee, estimates, len(evidence), reach, spec.estimator)
    return AuditRecord(
        name=prepared.name, spec=spec.model_dump(), claim=claim,
        guarantee=GuaranteeData.of(prepared.guarantee, claim.delta),
        attack=_describe(prepared.attack, prepared.mechanism), counts=_counts(evidence, calls, simulated),
        estimates=tuple(estimates), decision=decision, wealth=wealth(process),
        profile=profile(prepared.mechanism, evidence, spec.epsilon) if spec.answers == 1 else None,
        curves=curves(simulated.member, simulated.nonmember), example_prompt=_example(prepared),
        warnings=(*prepared.warnings, *_blind(simulated)),
        provenance=provenance(
            model=prepared.model.name, model_fingerprint=prepared.model.fingerprint, data_fingerprint=prepared.data,
            seed=str(spec.seed),
        ),
    )  # fmt: skip


def drawn(prepared: Prepared, evidence: list[EvidenceRow]) -> Trials:
    """Simulated releases of the collected pairs; as many a pair whether all pairs are in or not."""
    noisy = "white_box" in prepared.mechanism.access
    draws = prepared.spec.simulations // (2 * len(prepared.pairs)) if noisy else 1
    pairs, score = prepared.pairs[: len(evidence)], _score(prepared, evidence)
    return simulate(
        prepared.task, prepared.mechanism, score, pairs, evidence, draws, prepared.spec.seed, prepared.spec.answers
    )


def played(prepared: Prepared, simulated: Trials) -> EProcess:
    """The bet on all pairs but those that taught the score."""
    return prepared.bet.play(simulated.part(slice(prepared.pilot, None)))


def _score(prepared: Prepared, evidence: list[EvidenceRow]) -> Score:
    task, mechanism, score, spec = prepared.task, prepared.mechanism, prepared.attack.score, prepared.spec
    return learnt(task, mechanism, score, prepared.pairs[: len(evidence)], evidence, prepared.pilot, spec.seed)


def _estimates(
    prepared: Prepared, evidence: list[EvidenceRow], simulated: Trials, claim: Claim, bets: list[Estimate]
) -> list[Estimate]:
    """The bet first, then bounds by a threshold on one release a world, then bounds from clean votes and exact losses."""
    spec, task, mechanism = prepared.spec, prepared.task, prepared.mechanism
    pairs, score = prepared.pairs[: len(evidence)], _score(prepared, evidence)
    tested = trials(task, mechanism, score, pairs, evidence, spec.seed, spec.answers)
    counted = estimate(simulated.part, tested, prepared.rule, claim, spec.confidence, prepared.bet.levels)
    if spec.answers > 1:
        return [*bets, *counted]  # votes and laws speak of one release
    return [*bets, *counted, *clean_estimates(task, mechanism, pairs, evidence, spec.delta, spec.confidence)]


def _reach(prepared: Prepared, estimates: list[Estimate], pairs: int) -> tuple[float, float]:
    """What the deciding estimator could have certified."""
    spec = prepared.spec
    if spec.estimator == "e_process":
        return prepared.bet.ceiling(pairs)
    if spec.estimator == "clopper_pearson":
        cells = next(e for e in estimates if e.method == "clopper_pearson").counts
        return ceiling(sum(cells.values()) // 2, prepared.claim.delta, spec.confidence)
    sigma, votes = prepared.mechanism.sigma, prepared.spec.partitions  # type: ignore[attr-defined]
    return vote_reach(spec.estimator, sigma, votes, pairs, spec.delta, spec.confidence)


def _blind(simulated: Trials) -> tuple[str, ...]:
    """Did the attack see anything at all?"""
    low = min(simulated.member.min(), simulated.nonmember.min())
    if low < max(simulated.member.max(), simulated.nonmember.max()):
        return ()
    return (
        "every release had the same score, with the canary and without it: this attack saw nothing at all. Either the system "
        "gives one answer to such a query, or its answers cannot be read; try another query or score.",
    )


def _describe(attack: Attack, mechanism: Mechanism) -> dict[str, str]:
    return {
        "mechanism": mechanism.name, "canary": attack.canary.name, "query": attack.query.name, "score": attack.score.name,
        "access": attack.access, "insertion": attack.insertion,
    }  # fmt: skip


def _counts(evidence: list[EvidenceRow], calls: int, simulated: Trials) -> dict[str, int]:
    votes = [clean.counts for row in evidence for clean in (row.member, row.nonmember) if isinstance(clean, Votes)]
    unread, answers = sum(counts[-1] for counts in votes), sum(map(sum, votes))
    return {
        "pairs": len(evidence), "model_calls": calls, "answers": answers, "unparsable_answers": unread,
        "simulated_releases": int(simulated.member.size + simulated.nonmember.size),
    }  # fmt: skip


def _example(prepared: Prepared) -> str:
    """The prompt that shows the canary of the first pair, with private text as `store_text` allows."""
    pair, keep = prepared.pairs[0], prepared.spec.store_text
    job = pair.member if keep == "all" else _redacted(pair, keep == "canary_only")
    asks = prepared.mechanism.asks(prepared.task, job, pair.draw)
    if not asks:
        return f"(context of {len(job.context)} exemplars)\n{job.query.text}"
    return str(asks[pair.position % len(asks)].prompt)  # type: ignore[attr-defined]


def _redacted(pair: Pair, keep_canary: bool) -> Job:
    rows = []
    for i, row in enumerate(pair.member.context):
        shown = keep_canary and i == pair.position and row == pair.canary
        rows.append(row if shown else Exemplar(f"[private, {len(row.input)} characters]", "[private]"))
    query = pair.member.query
    if not keep_canary:
        query = type(query)(query.text.replace(pair.canary.input, "[canary]"), query.labels)
    return Job(tuple(rows), query)
