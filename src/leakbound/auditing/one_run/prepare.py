"""From a spec to one run that may start; what needs no store to refuse is refused here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from leakbound._version import __version__
from leakbound.attacks import Given, ScoredAttack
from leakbound.auditing.build import Handed, build_attack, build_mechanism, unnamed_parts
from leakbound.auditing.design import relation_of
from leakbound.auditing.documents import documents_and_task
from leakbound.auditing.folder import Settings, run_folder, run_id
from leakbound.auditing.guessing import require_alone
from leakbound.auditing.look_key import source_of
from leakbound.auditing.one_run.design import OneRunDesign, design_one_run
from leakbound.auditing.post_hoc import POST_HOC
from leakbound.auditing.shared_store import require_system
from leakbound.auditing.spec import AuditSpec
from leakbound.auditing.verdict import Claim
from leakbound.errors import UsageError
from leakbound.privacy import Guarantee, self_compose
from leakbound.stats.counts.ranked import Ranked
from leakbound.systems import SystemMechanism
from leakbound.systems.stores.shared import require_store
from leakbound.tasks import Context, Example, Mechanism, Query, Task
from leakbound.tasks.rows.datasets import fingerprint

PLACES = frozenset({"data", "data_dir", "encoding"})  # the rows themselves have a fingerprint
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
    handed: tuple[str, ...] = ()

    @property
    def answers(self) -> int:
        """Answers that the whole run sees."""
        return sum(one.asked.query.calls for one in self.design.every)

    def claim(self, builds: int = 1) -> Claim:
        """What is claimed of the whole run."""
        decision = self.spec.decision
        times = self.answers if decision.claim_for == "answer" else builds
        epsilon, delta = decision.each
        delta = min(1 - 1e-12, times * delta)  # a delta of 1 would claim nothing
        return Claim(times * epsilon, delta, relation_of(self.spec.attack.insertion))

    @property
    def known(self) -> int:
        """Canaries that are among the documents, too: they are there whatever their coins say."""
        documents = {row.input for row in self.design.documents}
        return sum(one.record.input in documents for one in self.design.canaries)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What should be known of the canaries before any is planted."""
        if not self.known:
            return ()
        return (
            f"{self.known} of {len(self.design.canaries)} canaries repeat a document of the store, "
            "so that no answer tells whether they were planted; the bound holds, and is lower than "
            "it could be. Leave repeated rows out, or use --canary coded.",
        )

    @property
    def cost(self) -> Guarantee:
        """What the system declares for one answer."""
        return self.mechanism.cost(self.task, Query("-"))

    @property
    def guarantee(self) -> Guarantee:
        """What the system declares, composed over all answers."""
        return self_compose(self.cost, self.answers)

    @property
    def manifest(self) -> Settings:
        """What the run folder says of itself."""
        flat = self.spec.flat()
        beside = {key: flat[key] for key in sorted(PLACES)}
        named = {"looks": self.look_key, "handed": list(self.handed)}
        return {**self._identity, "beside": beside, **named}

    @property
    def evidence(self) -> str:
        """Names what is asked, so that other runs reuse the answers; empty where nobody knows what
        the system is.
        """
        if not self.mechanism.source:
            return ""
        asked = {key: value for key, value in self.spec.flat().items() if key not in PLACES | FREE}
        return run_id("evidence", {"spec": asked, **self._sources})

    @property
    def look_key(self) -> str:
        """Names the canaries, their coins and the store, so that every result is counted."""
        first, address = self.design.canaries[0], self.spec.system.address
        drawn = {
            "data": self.data,
            "seed": self.spec.design.seed,
            "first_canary": fingerprint((first.record, Example(first.asked.query.text, ""))),
            "name": self.mechanism.name,
            "source": source_of(self.mechanism, address is not None),
        }
        return run_id("looks", drawn)

    @property
    def _identity(self) -> Settings:
        flat = self.spec.flat()
        kept = {key: value for key, value in flat.items() if key not in PLACES}
        return {"spec": kept, "evidence": self.evidence, **self._sources}

    @property
    def _sources(self) -> Settings:
        system = self.mechanism.name + self.mechanism.source
        return {
            "system": system, "data": self.data, "model": self.mechanism.name,
            "version": __version__,
        }  # fmt: skip

    @property
    def name(self) -> str:
        """Readable name of the run; it does not depend on private rows."""
        plain = re.sub(r"\W+", "_", self.mechanism.name).strip("_")
        public = {k: v for k, v in self._identity.items() if k not in ("data", "evidence")}
        return run_id(f"{plain}-{self.attack.query.name}-one_run", public)

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
    return PreparedOneRun(
        spec, task, mechanism, attack, found, fingerprint(data), unnamed_parts(given, spec)
    )


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
