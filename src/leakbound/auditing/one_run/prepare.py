"""From a spec to one run that may start; what needs no store to refuse is refused here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from leakbound.attacks import Given, ScoredAttack
from leakbound.auditing.design.pairs import relation_of
from leakbound.auditing.one_run.design import OneRunDesign, design_one_run
from leakbound.auditing.prepare.build import Handed, build_attack, build_mechanism, unnamed_parts
from leakbound.auditing.prepare.documents import documents_and_task
from leakbound.auditing.prepare.identity import (
    manifest_of,
    run_name,
    settings_without_places,
    source_of,
    sources_of,
)
from leakbound.auditing.prepare.refusals import require_alone
from leakbound.auditing.prepare.shared_store import require_system
from leakbound.auditing.spec.audit_spec import AuditSpec
from leakbound.auditing.spec.post_hoc import POST_HOC
from leakbound.auditing.store.folder import Settings, run_folder, run_id
from leakbound.errors import UsageError
from leakbound.estimators import Claim
from leakbound.privacy import Guarantee, self_compose
from leakbound.stats.counts.ranked import Ranked
from leakbound.systems import SystemMechanism
from leakbound.systems.stores import require_store
from leakbound.tasks import Context, Example, Mechanism, Query, Task
from leakbound.tasks.rows.datasets import fingerprint

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
    design: OneRunDesign
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
        """What is claimed of the whole run."""
        decision = self.spec.decision
        times = self.answers if decision.claim_for == "answer" else builds
        epsilon, delta = decision.each
        delta = min(1 - 1e-12, times * delta)  # a delta of 1 would claim nothing
        return Claim(times * epsilon, delta, relation_of(self.spec.attack.insertion))

    def folder(self, out: Path) -> Path:
        """Where the run is, or will be."""
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
    mechanism = _store(given.mechanism or build_mechanism(spec))
    data, task = documents_and_task(spec.design, given.rows, given.task)
    attack = build_attack(spec.attack, mechanism, given)
    attack = replace(attack, canary=attack.canary.fit(data, str.split))
    _require_text_rules(spec, attack)
    shape = spec.design
    found = design_one_run(
        data, task, attack, shape.canaries, shape.controls, shape.documents, shape.seed
    )
    rows_print, unnamed = fingerprint(data), unnamed_parts(given, spec)
    answers = sum(one.asked.query.calls for one in found.every)
    cost = mechanism.cost(task, Query("-"))
    sources = sources_of(mechanism, rows_print, mechanism.name)
    asked = {key: value for key, value in settings_without_places(spec).items() if key not in FREE}
    evidence = run_id("evidence", {"spec": asked, **sources}) if mechanism.source else ""
    identity = {"spec": settings_without_places(spec), "evidence": evidence, **sources}
    key = _same_trials_key(spec, mechanism, found, rows_print)
    return PreparedOneRun(
        spec, task, mechanism, attack, found, rows_print, unnamed, answers, cost,
        self_compose(cost, answers), _warnings(found),
        run_name(mechanism, f"{attack.query.name}-one_run", identity),
        manifest_of(spec, identity, key, unnamed), evidence,
    )  # fmt: skip


def _warnings(design: OneRunDesign) -> tuple[str, ...]:
    """What should be known of the canaries before any is planted."""
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


def _same_trials_key(
    spec: AuditSpec, mechanism: SystemMechanism, design: OneRunDesign, data: str
) -> str:
    """Names the canaries, their coins and the store, so that every result is counted."""
    first, address = design.canaries[0], spec.system.address
    drawn = {
        "data": data,
        "seed": spec.design.seed,
        "first_canary": fingerprint((first.record, Example(first.asked.query.text, ""))),
        "name": mechanism.name,
        "source": source_of(mechanism, address is not None),
    }
    return run_id("looks", drawn)


def _store(mechanism: Mechanism) -> SystemMechanism:
    adapter = require_system(mechanism, "one_run")
    require_store(adapter.system, adapter.name)
    return adapter


def _require_meaning(spec: AuditSpec, given: Handed) -> None:
    """Refuse what would be ignored."""
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
    if isinstance(spec.decision.threshold, str) and Ranked.named(spec.decision.threshold) is None:
        raise UsageError(
            f"threshold is {spec.decision.threshold!r}; in a one_run design it must be a number or "
            "rank, or is left out: then the control canaries fix it."
        )


def _require_text_rules(spec: AuditSpec, attack: ScoredAttack) -> None:
    if isinstance(attack.canary, Given):
        raise UsageError(
            "the canary 'given' is one record, and a one_run design needs as many as it has "
            "canaries; use --canary coded."
        )
    if spec.design.store_text == "none" and attack.query.free:
        raise UsageError(
            f"the answer to {attack.query.name} is a free text, and store_text is none; use "
            "--store-text canary_only, which keeps the canary's words of it, or --query lookup."
        )
