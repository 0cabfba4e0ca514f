"""One run from its design to its result; the same call resumes an interrupted run."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from leakbound.auditing.collect.collect import Progress, hidden
from leakbound.auditing.decide.obstacles import (
    Conclusion,
    Obstacle,
    above_zero,
    blind_unless,
    controls_lost,
    score_reading,
    unshown_sentence,
    without_blindness,
)
from leakbound.auditing.design.pairs import generator
from leakbound.auditing.observe.controls import ControlCheck
from leakbound.auditing.observe.rejections import above_guessing
from leakbound.auditing.one_run.prepare import (
    FEWEST,
    PlantedCanary,
    PreparedOneRun,
    accuracies_of_run,
    confidence_of_side,
    power_of_run,
)
from leakbound.auditing.result.audit_result import (
    FACTORS,
    AuditResult,
    Finding,
    ThresholdKind,
    attack_facts,
    provenance,
)
from leakbound.auditing.result.record import GuaranteeData, curves_of
from leakbound.auditing.spec.audit_spec import Decision
from leakbound.auditing.store.run_store import EvidenceRow, PriorResults, RunStore
from leakbound.errors import LeakboundError, StoreError, TargetError, UsageError, kind_of
from leakbound.estimators.base import BOTH, Bounds, Claim
from leakbound.models import Scripted
from leakbound.models.content import readable, without
from leakbound.privacy import NonPrivate
from leakbound.stats import Estimate, Fixed, Power, beside, cut, one_run, rank_test
from leakbound.stats.arrays import Floats
from leakbound.stats.counts.one_run import Ranked
from leakbound.systems import OneSession, SystemMechanism, fill_store, require_store
from leakbound.tasks import Outputs, Vector

UNREADABLE = 0.05  # share of answers that could not be read from which an attack counts as blind
ROUNDING = 1e-6  # a composed guarantee equals the composed claim but for this share


def conclude_one_run(
    prepared: PreparedOneRun, claim: Claim, bound: Estimate, largest: Estimate,
    controls: ControlCheck, unreadable: int,
) -> Conclusion:  # fmt: skip
    """Compare the bound with the claim for all answers of the run, and with nothing else."""
    found = tuple(_reject(prepared, claim, bound))
    if found:
        return Conclusion("violation", None, found)
    shown = above_zero((bound,))
    against = without_blindness(
        shown, (*_blind(prepared, controls, unreadable, shown), *_few(prepared, claim, largest))
    )
    if against:
        return Conclusion("inconclusive", against[0][0], tuple(why for _, why in against))
    sentence = (
        f"no bound exceeds {_name_of(prepared, claim)}; {len(prepared.design.canaries)} canaries "
        f"could have certified up to epsilon {cut(largest.epsilon)}. This attack found no "
        "violation; another might."
    )
    powers = [(at, power.safe) for at, power in accuracies_of_run(prepared)]
    unshown = (unshown_sentence(powers),) if prepared.spec.decision.claim is not None else ()
    return Conclusion("no_violation", None, (sentence, *unshown))


def _name_of(prepared: PreparedOneRun, claim: Claim) -> str:
    decision = prepared.spec.decision
    if decision.claim is not None:
        return "epsilon 0, which is random guessing"
    if decision.claim_for == "run":
        return f"epsilon {claim.epsilon:g}, which is claimed for the whole run"
    return (
        f"the claim of epsilon {decision.epsilon:g} for an answer, which is {claim.epsilon:g} for "
        f"the {prepared.answers} answers of the run"
    )


def _reject(prepared: PreparedOneRun, claim: Claim, bound: Estimate) -> Iterator[str]:
    epsilon = bound.epsilon or 0.0
    error = 1 - (bound.confidence or 0)
    if epsilon > claim.epsilon and prepared.spec.decision.claim is not None:
        what = "the answers of the run tell which canaries were planted"
        yield above_guessing(epsilon, bound.method, error, what)
    elif epsilon > claim.epsilon:
        shown, _ = beside(epsilon, claim.epsilon)
        yield (
            f"the bound {shown} of the whole run exceeds {_name_of(prepared, claim)}. If the claim "
            f"were true, a result this extreme would occur at most {100 * error:.2g}% of the time."
        )
    if isinstance(prepared.cost, NonPrivate):
        return
    stated = prepared.guarantee.epsilon(claim.delta)
    if epsilon > stated * (1 + ROUNDING):
        shown, limit = beside(epsilon, stated)
        yield (
            f"the bound {shown} of the whole run exceeds epsilon {limit} at delta {claim.delta:g}, "
            f"which the declared guarantee ({prepared.cost.describe()}) states for "
            f"{prepared.answers} answers: the implementation does not satisfy its own guarantee."
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
        f"{len(prepared.design.canaries)} canaries can show at most ε = "
        f"{cut(largest.epsilon)} of the whole run, even with a perfect attack, so that no bound "
        f"can exceed {_name_of(prepared, claim)}. {advice}",
    )


def _blind(
    prepared: PreparedOneRun, controls: ControlCheck, unreadable: int, bound: Estimate | None
) -> Iterator[Obstacle]:
    if unreadable > UNREADABLE * prepared.answers:
        yield (
            "unreadable_answers",
            f"{unreadable} of {prepared.answers} answers could not be read as an answer to the "
            "query, so this attack could not see a leak; use --query recall, which reads any text.",
        )
    if controls.seen:
        yield from controls_lost(controls)
        if not prepared.design.late and not controls.exempt:
            yield (
                "attack_blind",
                "so few control canaries cannot be asked about at both ends of the run, so nothing "
                f"shows that the attack sees anything to the end; use --controls {2 * FEWEST} or "
                "more.",
            )
        return
    why = (
        "no control canary was asked about, so nothing shows that this attack sees anything; leave "
        "controls=0 out."
    )
    if controls.p_value is not None:
        other = "lookup" if prepared.attack.query.free else "recall"
        why = (
            "nothing shows that this attack sees a canary: control canaries that were planted did "
            f"not clearly score higher than those that were not ({controls.pairs} of each, p = "
            f"{controls.p_value:.2g}). Ask about more --controls; where they show no more, try "
            f"--query {other}."
        )
    yield blind_unless(bound, why)


@dataclass(frozen=True, slots=True)
class _Scored:
    """Canaries in their order: scores, and whether each was planted."""

    scores: Floats
    planted: npt.NDArray[np.bool_]

    def right(self, threshold: float) -> int:
        """Right guesses where a score at or above the threshold says that a canary is there."""
        return int(((self.scores >= threshold) == self.planted).sum())

    @property
    def sides(self) -> tuple[Floats, Floats]:
        """(scores of planted canaries, scores of absent ones)."""
        return self.scores[self.planted], self.scores[~self.planted]


@dataclass(frozen=True, slots=True)
class _Guessed:
    """Guesses about the canaries, and how they were made in words."""

    number: int
    right: int
    words: str
    rule: ThresholdKind


def assemble_one_run(prepared: PreparedOneRun, store: RunStore, prior: PriorResults) -> AuditResult:
    """The result of a run whose answers are all stored."""
    rows = {row.pair: row for row in (*store.controls(), *store.evidence())}
    controls, tested = (
        _score(prepared, rows, part)
        for part in (prepared.design.controls, prepared.design.canaries)
    )
    builds = max(map(build_of, rows.values()))
    claim, decision = prepared.claim(builds), prepared.spec.decision
    asked = {"model": prepared.mechanism.name, "model_fingerprint": prepared.mechanism.source}
    canaries = len(tested.scores)
    guessed = _guess(prepared, controls, tested)
    bound, largest = (
        _bound(prepared, claim, guessed.number, right) for right in (guessed.right, guessed.number)
    )
    check = _check(prepared, controls).followed_by(_ends(prepared, controls))
    unreadable = _unreadable(prepared, rows)
    conclusion = conclude_one_run(prepared, claim, bound, largest, check, unreadable)
    powers = [(factor, power_of_run(prepared, claim, factor)) for factor in FACTORS]
    return AuditResult(
        name=store.folder.name,
        verdict=conclusion.verdict,
        reason=conclusion.reason,
        sentences=conclusion.sentences,
        findings=_findings(prepared, builds),
        controls=check,
        claim=claim,
        claim_source=prepared.spec.claim_source,
        guarantee=GuaranteeData.of(prepared.guarantee, claim.delta),
        attack=attack_facts(prepared.attack, prepared.mechanism.name, prepared.design.calls(0)),
        counts={
            **dict.fromkeys(("pairs", "tested_pairs", "canaries"), canaries),
            "planted": int(tested.planted.sum()),
            "documents": len(prepared.design.documents),
            "builds": builds,
            "model_calls": store.calls(),
            "answers": prepared.answers,
            "unparsable_answers": unreadable,
            "simulated_outputs": canaries,
            "background_copies": 0,
            "looks": len(prior),
        },
        decided_by=(bound.method,),
        estimates=tuple(
            replace(one, threshold=guessed.words) for one in _estimates(bound, decision)
        ),
        largest_certifiable=Bounds(largest.epsilon or 0.0),
        threshold=guessed.rule,
        curves=curves_of(*_sides(tested, controls)),
        example_prompt=_example(prepared),
        power=_round_off([(factor, one) for factor, one in powers if one]),
        guessing_power=_round_off(accuracies_of_run(prepared)),
        warnings=(*prior.several("canaries"), *prepared.warnings),
        handed=prepared.handed,
        spec=prepared.spec.flat(),
        provenance=provenance(store, canaries, prepared.data, prepared.spec.design.seed, **asked),
    ).referenced()


def _example(prepared: PreparedOneRun) -> str:
    """The first question, with the canary as far as it may be kept."""
    keep, first = prepared.spec.design.store_text, prepared.design.canaries[0]
    text = first.asked.query.text
    if keep == "none":
        text = without(text, first.record.input, "[canary]")
    size, planted = len(prepared.design.documents), len(prepared.design.records)
    head = f"(store of {size} documents and {planted} planted records)"
    return f"{head}\n{readable(text, keep == 'all')}"


def _score(
    prepared: PreparedOneRun, rows: dict[int, EvidenceRow], canaries: Sequence[PlantedCanary]
) -> _Scored:
    found = [_one(prepared, rows, canary) for canary in canaries]
    planted = [canary.planted for canary in canaries]
    return _Scored(np.array(found, float), np.array(planted, bool))


def _one(prepared: PreparedOneRun, rows: dict[int, EvidenceRow], canary: PlantedCanary) -> float:
    row = rows.get(canary.index)
    if row is None or _marks(row)[0] != float(canary.planted):
        raise StoreError(
            f"canary {canary.index} is not stored as this run planted it; run the audit again with "
            "--fresh."
        )
    answers = prepared.task.answers(canary.asked.query)
    scores = prepared.attack.score.score(_outputs(prepared, row), canary.asked, answers)
    return float(scores[0])


def _outputs(prepared: PreparedOneRun, row: EvidenceRow) -> Outputs:
    rng = generator(prepared.spec.design.seed, "release", row.pair + len(prepared.design.controls))
    return prepared.mechanism.release(row.member, 1, rng)


def build_of(row: EvidenceRow) -> int:
    return int(_marks(row)[1])


def _marks(row: EvidenceRow) -> tuple[float, ...]:
    """(was the canary planted, number of the build that answered)."""
    if not isinstance(row.nonmember, Vector):
        raise StoreError("the run holds paired trials; it is not one of a one_run design.")
    return row.nonmember.values


def _round_off(powers: Sequence[tuple[float, Power]]) -> tuple[tuple[float, float], ...]:
    return tuple((of, math.floor(one.safe * 1e6) / 1e6) for of, one in powers)


def _bound(prepared: PreparedOneRun, claim: Claim, guesses: int, right: int) -> Estimate:
    """Of the whole run; of random guessing on both sides, each with half of the error."""
    decision, canaries = prepared.spec.decision, len(prepared.design.canaries)
    counted = right if decision.claim is None else max(right, guesses - right)
    found = one_run(canaries, guesses, counted, claim.delta, confidence_of_side(prepared))
    if decision.claim is not None:
        found = replace(
            found, confidence=decision.confidence, counts={**found.counts, "correct": right},
            assumptions=(*found.assumptions, BOTH),
        )  # fmt: skip
    return replace(found, reading=score_reading([found]))


def _guess(prepared: PreparedOneRun, controls: _Scored, tested: _Scored) -> _Guessed:
    ranked = Ranked.named(prepared.spec.decision.threshold)
    if ranked is None:
        threshold, rule = _threshold(prepared, controls)
        right = tested.right(threshold)
        how = "fixed beforehand" if rule == "fixed" else "fixed on the control canaries"
        return _Guessed(len(tested.scores), right, (f"{threshold:g}, {how}"), rule)
    made = ranked.guesses(tested.scores)
    right = int((made == np.where(tested.planted, 1, -1)).sum())
    words = ranked.describe(len(tested.scores))
    return _Guessed(int(np.abs(made).sum()), right, words, "fixed")


def _threshold(prepared: PreparedOneRun, controls: _Scored) -> tuple[float, ThresholdKind]:
    """The one that is given; else that of the score, unless another tells the controls better."""
    given, own = prepared.spec.decision.threshold, prepared.attack.score.threshold
    if given is not None:
        return float(given), "fixed"
    first = own.value if isinstance(own, Fixed) else 0.0
    values = np.unique(controls.scores)
    others = ((values[1:] + values[:-1]) / 2).tolist()
    best = max((first, *others), key=controls.right)  # the first of equals
    return best, "fixed" if best == first else "split"


def _estimates(bound: Estimate, decision: Decision) -> tuple[Estimate, ...]:
    """The bound at the delta that the claim for the run has, then at that which was given."""
    if decision.claim is not None:
        return (bound,)
    counts = bound.counts
    other = one_run(
        counts["canaries"], counts["guesses"], counts["correct"], decision.delta,
        decision.confidence,
    )  # fmt: skip
    return (bound,) if decision.delta == bound.delta else (bound, other)


def _check(prepared: PreparedOneRun, controls: _Scored) -> ControlCheck:
    there, absent = controls.sides
    if not len(there):
        return ControlCheck(0, None)
    two_sided = prepared.spec.decision.claim is not None
    p_value = rank_test(there.tolist(), absent.tolist(), two_sided)
    return ControlCheck(len(there), p_value, gaps=tuple(there.tolist()))


def _ends(prepared: PreparedOneRun, controls: _Scored) -> list[ControlCheck]:
    """What the controls show that were asked about last, and those that were first; or none."""
    if not (late := prepared.design.late):
        return []
    ends = slice(-late, None), slice(None, -late)
    return [_check(prepared, _Scored(controls.scores[at], controls.planted[at])) for at in ends]


def _unreadable(prepared: PreparedOneRun, rows: dict[int, EvidenceRow]) -> int:
    """Answers that are none of those that the query allows."""
    found = 0
    for canary in prepared.design.every:
        answers = prepared.task.answers(canary.asked.query)
        if answers:
            released = _outputs(prepared, rows[canary.index]).answers
            found += int(released[0] >= len(answers))
    return found


def _findings(prepared: PreparedOneRun, builds: int) -> tuple[Finding, ...]:
    if builds == 1:
        return ()
    sentence = (
        f"the run was interrupted, and its store was built {builds} times with the same canaries. "
        "A claim for a run is composed over the builds."
    )
    return (Finding("several_builds", sentence),)


def _sides(tested: _Scored, controls: _Scored) -> tuple[Floats, Floats]:
    """For the figures; where all coins fell alike, the controls stand on the other side."""
    found = [
        one if len(one) else other if len(other) else np.zeros(1)
        for one, other in zip(tested.sides, controls.sides, strict=True)
    ]
    return found[0], found[1]


def run_one_run(
    prepared: PreparedOneRun,
    out: Path,
    progress: Progress = lambda done, total: None,
    replay: bool = False,
    reuse: bool = True,
) -> tuple[AuditResult, Path]:
    """Plant the canaries, ask what is missing, and compute the result."""
    folder, require = prepared.folder(out), partial(_require_same_size, prepared)
    store, prior = RunStore.open(folder, prepared.manifest, reuse, require=require)
    size, stored = prepared.spec.design.batch_pairs, store.batches()
    missing = [first for first in prepared.design.batches(size) if first not in stored]
    if missing and replay:
        raise StoreError(
            f"{len(missing)} batches are not kept, and --replay asks nothing; run the audit "
            "without it."
        )
    if missing:
        with closing(_ask(prepared, store, missing)) as batches:
            done = sum(prepared.design.calls(row.pair) for row in _every(store))
            progress(done, prepared.answers)
            for first, rows in batches:
                calls = sum(prepared.design.calls(row.pair) for row in rows)
                store.add(first, rows, calls)
                done += calls
                progress(done, prepared.answers)
    result = assemble_one_run(prepared, store, prior)
    result.know_data(prepared.data)
    if prior.day and not missing:
        result.know_stored(prior.day)
    store.finish(len(prepared.design.canaries), result.to_json())
    return result, store.folder


def _require_same_size(prepared: PreparedOneRun, prior: PriorResults) -> None:
    """Refuse earlier results from another number of the same canaries."""
    canaries = len(prepared.design.canaries)
    if sizes := prior.other_sizes(canaries):
        raise UsageError(
            "one_run needs a number of canaries that is fixed before any result is seen; it is "
            f"{canaries} here, and a result was computed from {sizes[0]} of these canaries before. "
            "Use another --seed, which plants other canaries by other coins."
        )


def _ask(
    prepared: PreparedOneRun, store: RunStore, missing: Sequence[int]
) -> Generator[tuple[int, list[EvidenceRow]], None, None]:
    """Batches as they are answered, from a store that is built once for all of them."""
    build = 1 + max((build_of(row) for row in _every(store)), default=0)
    size = prepared.spec.design.batch_pairs
    with _open(prepared) as mechanism:
        for first in missing:
            jobs = prepared.design.jobs(first, size)
            found = mechanism.collect(prepared.task, jobs, range(len(jobs)), Scripted())
            batch = prepared.design.batch(first, size)
            rows = []
            for one, answer in zip(batch, found, strict=True):
                if prepared.spec.design.store_text != "all":
                    allowed = prepared.task.answers(one.asked.query)
                    answer = hidden(answer, one.asked, allowed)
                marks = Vector((float(one.planted), float(build)))  # in place of a second context
                rows.append(EvidenceRow(one.index, answer, marks))
            yield first, rows


def _every(store: RunStore) -> list[EvidenceRow]:
    return [*store.controls(), *store.evidence()]


@contextmanager
def _open(prepared: PreparedOneRun) -> Iterator[SystemMechanism]:
    """The store with its canaries in place. An error of it is named by its type only."""
    mechanism, design = prepared.mechanism, prepared.design
    store = require_store(mechanism.system, mechanism.name)
    try:
        with fill_store(
            store, design.records, design.documents, mechanism.calls, mechanism.name
        ) as session:
            yield replace(mechanism, system=OneSession(session))
    except LeakboundError:
        raise
    except (Exception, SystemExit) as error:
        raise TargetError(
            f"the store {mechanism.name!r} raised {kind_of(error)} while records were put "
            "in or taken out; call its plant, open and remove by themselves to see why."
        ) from None
