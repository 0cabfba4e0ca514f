"""From a spec to one run that may start; what needs no store to refuse is refused here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from leakbound.attacks import Attack, RenderedQuery, ScoredAttack
from leakbound.auditing.design.pairs import FILLER, generator, label_order, relation_of
from leakbound.auditing.plan import FACTORS, GUESSING, Plan
from leakbound.auditing.prepare.build import (
    Handed,
    build_attack,
    build_mechanism,
    parts_without_name,
    require_alone,
)
from leakbound.auditing.prepare.identity import (
    manifest_of,
    objects_of,
    run_name,
    settings_without_places,
    source_of,
    sources_of,
)
from leakbound.auditing.prepare.rows import documents_and_task, require_system
from leakbound.auditing.result.sentences import Subject
from leakbound.auditing.spec.audit_spec import POST_HOC, AuditSpec
from leakbound.auditing.store.folder import Settings, run_folder, run_id
from leakbound.errors import DataError, UsageError
from leakbound.estimators import Claim
from leakbound.estimators.random_guessing import of_one_side, power_against_guessing
from leakbound.privacy import Guarantee, self_compose
from leakbound.stats import Assumption, Power, canaries_to_reject, one_run, one_run_power
from leakbound.stats.counts.one_run import Ranked
from leakbound.systems import SystemMechanism, require_store
from leakbound.tasks import Context, Example, Job, Query, Task
from leakbound.tasks.rows.datasets import fingerprint

FEWEST = 3  # of each kind: all three told apart have a p-value of 0.05


@dataclass(frozen=True, slots=True, repr=False)
class PlantedCanary:
    """A canary that a store holds or does not hold, and the question about it (PRIVATE)."""

    index: int
    record: Example
    asked: RenderedQuery
    planted: bool

    def __repr__(self) -> str:
        return f"PlantedCanary({self.index}, <private>)"


@dataclass(frozen=True, slots=True, repr=False)
class _OneRunDesign:
    """Everything that one run plants and asks (PRIVATE)."""

    documents: Context
    controls: tuple[PlantedCanary, ...]
    canaries: tuple[PlantedCanary, ...]
    fillers: bool
    late: int = 0

    @property
    def every(self) -> tuple[PlantedCanary, ...]:
        return (*self.controls, *self.canaries)

    @property
    def records(self) -> tuple[Example, ...]:
        """Late controls, canaries, early controls: a store that shows new records late misses the
        early ones, and one that keeps the newest has lost the late ones."""
        return tuple(self._records())

    def _records(self) -> Iterator[Example]:
        early = len(self.controls) - self.late
        for one in (*self.controls[early:], *self.canaries, *self.controls[:early]):
            if one.planted:
                yield one.record
            elif self.fillers:
                yield FILLER

    def jobs(self, first: int, size: int) -> list[Job]:
        return [Job((), one.asked.query) for one in self.batch(first, size)]

    def batch(self, first: int, size: int) -> tuple[PlantedCanary, ...]:
        if first < 0:
            at = first + len(self.controls)
            early = len(self.controls) - self.late
            return self.controls[at : min(at + size, early) if at < early else at + size]
        return self.canaries[first : first + size]

    def calls(self, index: int) -> int:
        (one,) = self.batch(index, 1)
        return one.asked.query.calls

    def batches(self, size: int) -> list[int]:
        """Where batches begin: early controls, canaries, late controls."""
        early = range(-len(self.controls), -self.late, size)
        return [*early, *range(0, len(self.canaries), size), *range(-self.late, 0, size)]


def design_one_run(
    rows: Context, task: Task, attack: Attack, canaries: int, controls: int,
    documents: int | None, seed: int,
) -> _OneRunDesign:  # fmt: skip
    held_out = canaries + 2 * controls
    needed = held_out + (documents or 0)
    if len(rows) < needed:
        raise DataError(
            f"{held_out} canaries, with those of the controls, and {documents or 0} documents need "
            f"{needed} rows, and the data has {len(rows)}; use fewer --canaries, or more data."
        )
    order = generator(seed, "design").permutation(len(rows))
    spares = [rows[i] for i in order[:held_out]]
    rare, common = label_order(rows)
    made = []
    for at, spare in enumerate(spares):
        record = attack.canary.make(spare, rare, generator(seed, "design", at))
        made.append((record, attack.query.render(record, task, rare, common)))
    # a record that another canary plants too would stand in the store whatever its coin says
    if len({record.input for record, _ in made}) < len(made):
        raise UsageError(
            f"the canary {attack.canary.name} makes one and the same record twice; in a one_run "
            "design every canary must differ. Use --canary coded, or hex."
        )
    kept = order[held_out:] if documents is None else order[held_out : held_out + documents]
    planted = _coins(canaries, controls, seed)
    every = tuple(
        PlantedCanary(at - 2 * controls, record, asked, coin)
        for at, ((record, asked), coin) in enumerate(zip(made, planted, strict=True))
    )
    return _OneRunDesign(
        tuple(rows[i] for i in kept), every[: 2 * controls], every[2 * controls :],
        attack.insertion == "replace", 2 * _late(controls),
    )  # fmt: skip


def _late(controls: int) -> int:
    """Controls of each kind that are asked about last: half, where so many can show anything."""
    return controls // 2 if controls // 2 >= FEWEST else 0


def _coins(canaries: int, controls: int, seed: int) -> list[bool]:
    """Early and late controls in drawn orders, half of them planted; then a fair coin each."""
    rng, late = generator(seed, "control"), _late(controls)
    halves = (rng.permutation([True, False] * of) for of in (controls - late, late))
    fair = generator(seed, "coin").integers(2, size=canaries)
    return [*(bool(coin) for half in halves for coin in half), *map(bool, fair)]


# change no question and nothing of what is stored; access decides which scores leave a system
FREE = (POST_HOC - {"access"}) | {"claim_for", "shots", "background_copies", "state_check"}
# keys that mean nothing in this design: whoever sets one expects something of it
UNUSED = (
    "estimator", "stop_when_rejected", "answers", "background_copies", "state_check", "pairs",
    "shots",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PreparedOneRun:
    """One run that has passed every check that needs no store."""

    spec: AuditSpec
    task: Task
    mechanism: SystemMechanism
    attack: ScoredAttack
    design: _OneRunDesign
    data: str
    handed: tuple[str, ...]

    answers: int  # that the whole run sees
    cost: Guarantee  # what the system declares for one answer
    guarantee: Guarantee  # the same, composed over all answers
    warnings: tuple[str, ...]
    name: str  # of the run; it does not depend on private rows
    manifest: Settings  # what the run folder says of itself
    evidence: str  # names what is asked; empty where nobody knows what the system is

    def claim(self, builds: int = 1) -> Claim:
        decision = self.spec.decision
        times = self.answers if decision.claim_for == "answer" else builds
        epsilon, delta = decision.each
        delta = min(1 - 1e-12, times * delta)  # a delta of 1 would claim nothing
        return Claim(times * epsilon, delta, relation_of(self.spec.attack.insertion))

    def folder(self, out: Path) -> Path:
        return run_folder(out, self.name, self.data)


def prepare_one_run(
    spec: AuditSpec, *, rows: Context | None = None, handed: Handed | None = None
) -> PreparedOneRun:
    """Load, design and check; no store is opened."""
    given = handed or Handed()
    given = replace(given, rows=given.rows if rows is None else rows)
    if spec.decision.claim is not None:
        require_alone(spec, given)
    _require_meaning(spec, given)
    adapter = require_system(given.mechanism or build_mechanism(spec), "one_run")
    require_store(adapter.system, adapter.name)
    mechanism = adapter
    data, task = documents_and_task(spec.design, given.rows, given.task)
    attack = build_attack(spec.attack, mechanism, given)
    attack = replace(attack, canary=attack.canary.fit(data, str.split))
    attack.require(mechanism)
    if attack.canary.fixed:
        raise UsageError(
            f"the canary {attack.canary.name!r} is one record, and a one_run design needs as many "
            "as it has canaries; use --canary coded."
        )
    if spec.design.store_text == "none" and attack.query.free:
        raise UsageError(
            f"the answer to {attack.query.name} is a free text, and store_text is none; use "
            "--store-text canary_only, which keeps the canary's words of it, or --query lookup."
        )
    shape = spec.design
    found = design_one_run(
        data, task, attack, shape.canaries, shape.controls, shape.documents, shape.seed
    )
    files = (Example(content, "") for content in attack.canary.file_contents)
    rows_print, unnamed = fingerprint((*data, *files)), parts_without_name(given, spec)
    answers = sum(one.asked.query.calls for one in found.every)
    cost = mechanism.cost(task, Query("-"))
    objects = objects_of(given, unnamed, task, attack, named=spec.design.task)
    sources = sources_of(mechanism, rows_print, mechanism.name, objects)
    asked = {key: value for key, value in settings_without_places(spec).items() if key not in FREE}
    evidence = run_id("evidence", {"spec": asked, **sources}) if mechanism.source else ""
    identity = {"spec": settings_without_places(spec), "evidence": evidence, **sources}
    # names the canaries, their coins and the store, so that every result is counted
    first, address = found.canaries[0], spec.system.address
    drawn = {
        "data": rows_print,
        "seed": spec.design.seed,
        "first_canary": fingerprint((first.record, Example(first.asked.query.text, ""))),
        "name": mechanism.name,
        "source": source_of(mechanism, address is not None),
    }
    key = run_id("looks", drawn)
    return PreparedOneRun(
        spec, task, mechanism, attack, found, rows_print, unnamed, answers, cost,
        self_compose(cost, answers), _warnings(found),
        run_name(mechanism, f"{attack.query.name}-one_run", identity),
        manifest_of(spec, identity, key, unnamed), evidence,
    )  # fmt: skip


def _warnings(design: _OneRunDesign) -> tuple[str, ...]:
    documents = {row.input for row in design.documents}
    # they are there whatever their coins say
    known = sum(one.record.input in documents for one in design.canaries)
    if not known:
        return ()
    return (
        f"{known} of {len(design.canaries)} canaries repeat a document of the store, "
        "so that no answer tells whether they were planted; the bound holds, and is lower than "
        "it could be. Leave repeated rows out, or use --canary coded.",
    )


def _require_meaning(spec: AuditSpec, given: Handed) -> None:
    default, flat = AuditSpec().flat(), spec.flat()
    unused: Sequence[str] = [key for key in UNUSED if flat[key] != default[key]]
    if given.estimator is not None:
        unused = ["estimator", *unused]
    if unused:
        other = "paired" if unused[0] == "shots" else "session"
        raise UsageError(
            f"{unused[0]} means nothing in a one_run design, whose bound is that of one_run over "
            f"all canaries; leave it out, or use --design {other}."
        )
    if spec.attack.insertion == "append":
        raise UsageError(
            "insertion is append, and a one_run design plants whole records; use add, or replace "
            "(a fixed record takes the place of an absent canary)."
        )
    if given.score is not None and given.score.learns:
        raise UsageError(
            f"the score {given.score.name} learns from pilot pairs, and a one_run design has none; "
            "use --design session, or another score."
        )
    if isinstance(spec.decision.threshold, str) and Ranked.named(spec.decision.threshold) is None:
        raise UsageError(
            f"threshold is {spec.decision.threshold!r}; in a one_run design it must be a number or "
            "rank, or is left out: then the control canaries fix it."
        )


def plan_one_run(prepared: PreparedOneRun) -> Plan:
    claim, canaries = prepared.claim(), len(prepared.design.canaries)
    confidence = confidence_of_side(prepared)
    made = _guesses(prepared, canaries)
    largest = one_run(canaries, made, made, claim.delta, confidence)
    chances = [(factor, power_of_run(prepared, claim, factor)) for factor in FACTORS]
    each, source = prepared.spec.decision.each[0], prepared.spec.claim_source
    shown = None if each == claim.epsilon else each
    return Plan(
        pairs=canaries,
        model_calls=prepared.answers,
        cost=None,
        estimator=largest.method,
        tested=_test(prepared, claim),
        largest_epsilon=largest.epsilon or 0.0,
        largest_mu=None,
        guarantee_mu=None,
        pairs_needed=canaries_to_reject(
            partial(_claim_with, prepared), confidence, partial(_guesses, prepared)
        ),
        power=tuple((factor, power) for factor, power in chances if power is not None),
        assumption=_assumption(prepared),
        builds=1,
        guessing_power=accuracies_of_run(prepared),
        subject=Subject(prepared.mechanism.name, None, claim.epsilon, claim.delta, source, shown),
    )


def confidence_of_side(prepared: PreparedOneRun) -> float:
    """Confidence of a bound on one side: more than that of the test where it has two sides."""
    decision = prepared.spec.decision
    return decision.confidence if decision.claim is None else of_one_side(decision.confidence)


def accuracies_of_run(prepared: PreparedOneRun) -> tuple[tuple[float, Power], ...]:
    """How probably guesses of known accuracies reject random guessing."""
    decision = prepared.spec.decision
    if decision.claim is None:
        return ()
    guesses = _guesses(prepared, len(prepared.design.canaries))
    return power_against_guessing("one_run", guesses, decision.confidence)


def power_of_run(prepared: PreparedOneRun, claim: Claim, factor: float) -> Power | None:
    """Probability that the run rejects its claim where the store leaks so many times as much."""
    decision = prepared.spec.decision
    if decision.claim is not None or Ranked.named(decision.threshold) is not None:
        return None
    hit, false_alarm = _assumption(prepared).rates(factor * claim.epsilon)
    right = (hit + 1 - false_alarm) / 2  # a fair coin decides which of the two errors is possible
    canaries, confidence = len(prepared.design.canaries), prepared.spec.decision.confidence
    return Power(one_run_power(canaries, right, claim.epsilon, claim.delta, confidence))


def _guesses(prepared: PreparedOneRun, canaries: int) -> int:
    ranked = Ranked.named(prepared.spec.decision.threshold)
    return canaries if ranked is None else 2 * ranked.each(canaries)


def _assumption(prepared: PreparedOneRun) -> Assumption:
    decision = prepared.spec.decision
    return Assumption(decision.assume_hit, decision.assume_false_alarm)


def _claim_with(prepared: PreparedOneRun, canaries: int) -> tuple[float, float]:
    decision, design = prepared.spec.decision, prepared.design
    epsilon, delta = decision.each
    if decision.claim_for == "run":
        return epsilon, delta
    answers = prepared.answers / len(design.every) * (canaries + len(design.controls))
    return answers * epsilon, answers * delta


def _test(prepared: PreparedOneRun, claim: Claim) -> str:
    if prepared.spec.decision.claim is not None:
        return GUESSING
    if prepared.spec.decision.claim_for == "run":
        return f"epsilon {claim.epsilon:g} at delta {claim.delta:g} of the whole run"
    return (
        f"epsilon {prepared.spec.decision.epsilon:g} of an answer, which is {claim.epsilon:g} of "
        f"the {prepared.answers} answers of the run"
    )
